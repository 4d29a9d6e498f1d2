"""What `--redact` promises to hide, planted where recordings have it, in every output."""

from __future__ import annotations

import asyncio
import itertools
import json
import pickle
import sqlite3
from contextlib import closing

import click
import pytest
from click.testing import CliRunner

from tests.analyzed import remembering
from tests.fleet.build import digest
from tests.hostile.secret_forms import FORMS as MORE
from tests.hostile.test_files import status
from tests.hostile.test_recordings import small
from tests.hostile.test_regexes import LENGTH, UNITS, search, that_ends
from tests.recorded import ROOT
from tests.replay.compile.log_builder import LogBuilder
from traceanalyzer.cli import cli
from traceanalyzer.cli.commands import OLD
from traceanalyzer.fleet.digests.files import encoded
from traceanalyzer.ingest import load
from traceanalyzer.report.privacy.credentials import maintained_rules, without_credentials
from traceanalyzer.report.privacy.secrets import Secrets
from traceanalyzer.report.table_entries import BY_COMMAND

COPY = "COPY"
PLANTED = {
    "a host after `on`": ("rank on gpuhost5", "gpuhost5"),
    "a node": ("ran on node0123 today", "node0123"),
    "a host in a setting": ("SLURMD_NODENAME=node6", "node6"),
    "a host named elsewhere": ("HOSTNAME=trainbox; slow on trainbox", "trainbox"),
    "a Windows host": ("DESKTOP-X41 was slow", "DESKTOP-X41"),
    "a cloud's host": ("ip-10-0-3-17 left", "ip-10-0-3-17"),
    "an address": ("MASTER_ADDR=head-7", "head-7"),
    "a host in a setting of another case": ("Host=trainbox3 and HOSTNAME trainbox3", "trainbox3"),
    "a user in a setting of another case": (
        "UserName=mallory9 User=mallory9 user=mallory9",
        "mallory9",
    ),
    "short IPv6": ("fe80::1ff:fe23:4567:890a", "fe23"),
    "global IPv6": ("at 2001:db8::8a2e:370:7334", "2001:db8"),
    "a user in a setting": ("USER=mallory", "mallory"),
    "a user after `user`": ("user heidi ran", "heidi"),
    "a user named elsewhere": ("LOGNAME=ivanhoe77, and ivanhoe77's job", "ivanhoe77"),
    "AWS": ("key AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
    "Hugging Face": ("hf_abcdefghijklmnopqrstuvwxyz", "hf_abc"),
    "GitHub": ("ghp_0123456789abcdefghijklmnopqrstuvwxyz", "ghp_0"),
    "a bearer": ("Authorization: Bearer abc.def-ghijk", "abc.def"),
    "an option's value": ("train.py --api-key s3cr3tvalue --lr 1", "s3cr3tvalue"),
    "a password": ("train.py --password=hunter2", "hunter2"),
    "a quoted password": ("password: 'correct horse'", "correct horse"),
    "a key of the environment": ("WANDB_API_KEY=zq0123456789abcdef", "zq0123456789abcdef"),
    "Twilio": ("SK" + "89abcdef01234567" * 2, "89abcdef01234567"),
    "Telegram": ("bot 123456789:" + "AAbbCC_ddE" * 3 + "ffggh", "AAbbCC_ddE"),
    "Square": ("sq0csp-" + "abcDEF0123_" * 3 + "abcDEF0123", "abcDEF0123"),
    "an Azure account": ("AccountKey=" + "Ab1+/" * 17 + "Ab=", "Ab1+/"),
    "Mailchimp": ("89abcdef01234567" * 2 + "-us12", "89abcdef01234567"),
    "Discord": ("M" + "abcdef" * 4 + ".X1y2Z3." + "abc-DEF_1" * 3, "abcdefabcdef"),
    "a web token": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-def", "eyJzdWIi"),
    "Google's client": ("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", "aB3dE5gH7jK9"),
    "Weights & Biases": ("wandb_v1_aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0za", "aB3dE5gH7jK9"),
    "Vault": ("hvs.CAESIaB3dE5gH7jK9mN1pQ2rS4tU6", "aB3dE5gH7jK9"),
    "Docker Hub": ("dckr_pat_aB3dE5gH7jK9mN1pQ2rS4tU6vW8", "aB3dE5gH7jK9"),
    "Groq": ("gsk_aB3dE5gH7jK9mN1pQ2rS4tU6vW8x", "aB3dE5gH7jK9"),
    "Slack's hook": ("hooks.slack.com/services/T00000000/B00000000/aB3dE5gH7jK9", "aB3dE5gH7jK9"),
    "Terraform": ("abcdefghijklmn.atlasv1.aB3dE5gH7jK9mN1pQ2rS4tU6", "aB3dE5gH7jK9"),
    "a short name of a password": ("DB_PW=hunter2zz", "hunter2zz"),
    "a password of an archive": ("zip -P hunter2zz a.zip", "hunter2zz"),
    "a password file": ("*:5432:db:mallory9:hunter2zz", "hunter2zz"),
    "a password in French": ("mot de passe : hunter2zz", "hunter2zz"),
    "an encoded password": ("password%3Dhunter2zz", "hunter2zz"),
    "a password with an invisible letter": ("pass\u200bword=hunter2zz", "hunter2zz"),
    "an account of a cloud": ("arn:aws:iam::123456789012:user/mallory9", "mallory9"),
    "a user by id": ("uid=1000(mallory9) gid=1000(mallory9)", "mallory9"),
    "a user of a domain": ("CORP\\mallory9 started it", "mallory9"),
    "a user of JSON": ('{"user": "mallory9"}', "mallory9"),
    "a user of Inductor": ("torchinductor_mallory9", "mallory9"),
    "a host of another country": ("login1.leonardo.cineca.it", "cineca"),
    "a service of Kubernetes": ("trainer.ns7.svc", "trainer.ns7"),
    "a list of hosts": ("WORKER_HOSTS=zeus,hera", "hera"),
    "hosts of Slurm": ("nodelist=zeus[01-04]", "zeus"),
    "a host before a port": ("connect zeus7:29500 failed", "zeus7"),
    "an address in a name": ("worker_10_1_2_3", "10_1_2_3"),
    "a MAC address": ("00-1A-2B-3C-4D-5E", "1A-2B"),
    "a port of InfiniBand": ("guid 0x506b4b0300c26e62", "506b4b03"),
    "a relative path": ("projects/mallory9/secretmodel", "mallory9"),
    "an encoded path": ("%2Fhome%2Fmallory9%2Fx", "mallory9"),
}

FORMS = r"""
DB_PASSWORD=hunter2zz
PGPASSWORD=hunter2zz
PASSWORD=hunter2zz
Password: hunter2zz
MYSQL_PWD=hunter2zz
SECRET=hunter2zz
CLIENT_SECRET=hunter2zz
PASSPHRASE=hunter2zz
CREDENTIALS=hunter2zz
TOKEN=hunter2zz
ended by TOKEN=hunter2zz
--Token=hunter2zz
Cookie: sid=hunter2zz
COOKIE=hunter2zz
X-Api-Key: hunter2zz
apiKey=hunter2zz
ApiKey: hunter2zz
AccountKey=hunter2zz
accessToken=hunter2zz
sessionToken=hunter2zz
PASS=hunter2zz
DB_PASS=hunter2zz
dbpass=hunter2zz
--pass hunter2zz
password=hunter2zz
Password=hunter2zz
passWord=hunter2zz
pass word: hunter2zz
Pass Phrase: hunter2zz
pass_phrase=hunter2zz
passcode: hunter2zz
dbPassword=hunter2zz
db.password=hunter2zz
spring.datasource.password=hunter2zz
"password": "hunter2zz"
'password': 'hunter2zz'
{"apiKey":"hunter2zz"}
{\"password\":\"hunter2zz\"}
'token': 'hunter2zz'
"client_secret" : "hunter2zz x y"
password='hunter2zz x y'
password="hunter2zz
password => 'hunter2zz'
password := hunter2zz
password == hunter2zz
PASSWORD hunter2zz
password hunter2zz
--password hunter2zz
--password=hunter2zz
-password hunter2zz
--api-key hunter2zz
--apikey hunter2zz
--auth-token hunter2zz
--client-secret=hunter2zz
['--password', 'hunter2zz']
("DB_PASSWORD", "hunter2zz")
{"name": "DB_PASSWORD", "value": "hunter2zz"}
Account Key: hunter2zz
account key = hunter2zz
account_key=hunter2zz
ACCOUNT_KEY=hunter2zz
accountkey=hunter2zz
Storage Account Key: hunter2zz
SharedAccessKey=hunter2zz
Api Key: hunter2zz
API KEY = hunter2zz
api key hunter2zzx1234567
apikey: hunter2zz
x-api-key=hunter2zz
Ocp-Apim-Subscription-Key: hunter2zz
subscription_key=hunter2zz
private_key=hunter2zz
privateKey: hunter2zz
secretKey=hunter2zz
secret key: hunter2zz
aws_secret_access_key=hunter2zz
AWS_SECRET_ACCESS_KEY=hunter2zz
awsSecretAccessKey: hunter2zz
AWS_SESSION_TOKEN=hunter2zz
HF_TOKEN=hunter2zz
hfToken=hunter2zz
HUGGING_FACE_HUB_TOKEN=hunter2zz
WANDB_API_KEY=hunter2zz
wandb_api_key: hunter2zz
KAGGLE_KEY=hunter2zz
encryptionKey=hunter2zz
signing-key: hunter2zz
Set-Cookie: a=b; sid=hunter2zz; Path=/
Cookie: a=b; csrf=hunter2zz
cookies=hunter2zz
session_cookie=hunter2zz
sessionid=hunter2zz
JSESSIONID=hunter2zz
PHPSESSID=hunter2zz
session_id=hunter2zz
csrf_token=hunter2zz
X-CSRF-Token: hunter2zz
xsrfToken=hunter2zz
refresh_token=hunter2zz
id_token=hunter2zz
bearerToken=hunter2zz
Authorization: hunter2zz
authorization=hunter2zz
Authorization: Token hunter2zz
Proxy-Authorization: Basic hunter2zz
Authorization: AWS4-HMAC-SHA256 Credential=a/b, Signature=hunter2zz
Bearer hunter2zzabc
credential=hunter2zz
Credentials: hunter2zz
credential: "hunter2zz"
userCredential=hunter2zz
creds=hunter2zz
PASSWD=hunter2zz
Passwd: hunter2zz
ROOT_PASSWD=hunter2zz
pwd=hunter2zz
Pwd=hunter2zz
sa_pwd=hunter2zz
Server=x;Database=y;User Id=sa;Password=hunter2zz;
Server=x;Uid=sa;Pwd=hunter2zz;
DefaultEndpointsProtocol=https;AccountName=x;AccountKey=hunter2zz==;EndpointSuffix=core
sshpass -p hunter2zz ssh x
docker login -u a -p hunter2zz
export TOKEN=hunter2zz
export PASS=hunter2zz
set PASSWORD=hunter2zz
env PASSWORD=hunter2zz python
machine x login y password hunter2zz
<password>hunter2zz</password>
<Token>hunter2zz</Token>
password is hunter2zz
Password was hunter2zz
SLURM_JWT=hunter2zz
jwt: hunter2zz
GITHUB_PAT=hunter2zz
REDIS_AUTH=hunter2zz
redis_auth=hunter2zz
auth=hunter2zz
SMTP_PASS=hunter2zz
smtpPass=hunter2zz
userpass=hunter2zz
MASTER_KEY=hunter2zz
licenseKey=hunter2zz
license key: hunter2zz
sig=hunter2zzabcdefghijklmnop
?sv=1&sig=hunter2zzabcdefghijklmnop%3D
connection string: hunter2zz
ConnectionString=hunter2zz
PASSWORD="hunter2zz x y"
PASSWORD=a,hunter2zz
PASSWORD=a;hunter2zz
PASSWORD=<hunter2zz
password:hunter2zz
Password	=	hunter2zz
TOKEN: hunter2zz
Token: hunter2zz
token=hunter2zz
token: hunter2zz
DB_SECRET=hunter2zz
secretValue=hunter2zz
SecretString: hunter2zz
my_secret=hunter2zz
secret=hunter2zz
client-secret hunter2zz
COMET_API_KEY=hunter2zz
OPENAI_API_KEY=hunter2zz
openaiApiKey=hunter2zz
dbCredentials=hunter2zz
gcp_credentials=hunter2zz
GOOGLE_APPLICATION_CREDENTIALS=hunter2zz
keystorePassword=hunter2zz
KEYSTORE_PASS=hunter2zz
ssh_key=hunter2zz
SSH_KEY=hunter2zz
sshKey: hunter2zz
hmac_key=hunter2zz
postgres://bob:hunter2zz@db/x
bob:hunter2zz@db7
curl -u bob:hunter2zz http://x
mysql -u root -phunter2zz
""".strip().splitlines()
"""Ways to write the password hunter2zz."""


@pytest.mark.parametrize("around", ["{}", "aten::mm {} then", "x {}, y"])
def test_a_secret_is_hidden_however_it_is_written(around):
    written = [around.replace("{}", form) for form in FORMS]
    assert [text for text in written if "hunter2zz" in without_credentials(text)] == []


def test_six_hundred_forms_are_hidden_in_text():
    assert len(MORE) > 600
    left = []
    for text, secret in MORE:
        clean = Secrets.of([("trace.json", "kineto")], [text]).clean(text)
        if secret.lower() in clean.lower():
            left.append((text, clean))
    assert left == []


@pytest.mark.parametrize(
    ("around", "known"), [("Break: {}. Next", 2), ("Break: {}.", 1), ("{}, then", 2)]
)
def test_a_sentence_may_end_after_them(around, known):
    """`known`: a folder with a blank in its name, and a word behind a token."""
    left = []
    for text, secret in MORE:
        sentence = around.replace("{}", text)
        clean = Secrets.of([("trace.json", "kineto")], [sentence]).clean(sentence)
        if secret.lower() in clean.lower():
            left.append(text)
    assert len(left) <= known, left


def test_names_that_programs_record_stay():
    """Kernels, operators, modules of real recordings: what is hidden of them are paths and hosts."""
    cleaner = Secrets.of([("trace.json", "kineto")], [])
    hidden = []
    for name in ("sync_bound_stacks", "compiled", "tensor_parallel", "nsys_cuda_graph"):
        for trace in load([ROOT / "sample_traces" / name]).traces:
            names = [text for text in trace.strings if "/" not in text]
            hidden += [text for text in names if cleaner.clean(text) != text]
    assert hidden == []


@pytest.mark.parametrize("what", PLANTED)
def test_it_is_hidden_in_text(what):
    text, secret = PLANTED[what]
    assert secret not in Secrets.of([("trace.json", "kineto")], [text]).clean(text)


@pytest.mark.parametrize(
    "text",
    [
        "c10::add aten::add fe::fe 2a::b",
        "user annotation covers on rank0, from step 3 on gpu0 at stream7",
        "tokens_per_s=12 max_tokens=128 key=3",
        "on H100 at 1980 MHz",
        "attention: 128 tokens, head 7",
        "void at::native::kernel<4, float>(int, float*)",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ran in stage2 of layer12 on cuda0",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel",
        "triton_red_fused__to_copy_add_native_layer_norm_native_layer_norm_backward_sum_7",
        "SKINNY_GEMM APPLY_MASK ACCUMULATE",
        "forward pass: 3.2 ms, backward pass: aten::mm, first pass: reduce",
        "num_tokens=4096 tokens: 4096 decode token 17 eos_token=none",
        "MoE token dispatch, per token quant fp8 kernel_128x64",
        "TOKENIZERS_PARALLELISM=false tokenizer=gpt2 token_type_ids=x",
        "query key value, key: query, sort key: int64, kv_cache_key=abc",
        "bypass=true compass: north donkey: x design=abc author=me pin_memory=True",
        "signature: void f(int); pass 1 of 2: 3 ms; post_grad_pass: remove_noop_ops",
        "host: aten::copy_, Host: 3.2 ms, num_host=128 src_addr=1234567 HOST to DEVICE",
        "hipGetDevicePropertiesR0600 hf_transformers_pipeline fw_computation secret_sharing sk-learn-pipeline",
        "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvSlidingOrChunkedCausalP16VarSeqQ128Kv128PersistentContext",
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
        "Cijk_Ailk_Bljk_HHS_BH_Bias_HAS_SAV_UserArgs_MT128x128x64_MI16x16x1_SN_LDSB1_AFC1_AFEM1",
        "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NNT void cutlass::Kernel2<cutlass_80_tensorop_bf16>",
        "SecretModel > aten::item, nn.Module: SecretModel_0",
    ],
)
def test_what_only_looks_like_it_stays(text):
    assert Secrets.of([("trace.json", "kineto")], [text]).clean(text) == text


@pytest.mark.parametrize("rule", maintained_rules(), ids=lambda rule: rule.pattern[:40])
def test_no_maintained_rule_takes_the_square(rule):
    with that_ends():
        for unit in UNITS:
            search(rule, unit * (LENGTH // len(unit)), whole=False)


def test_thousands_of_names_take_no_longer_than_one():
    texts = [f"user{i}@host{i}-{i}.example says user{i} is on host{i}-{i}" for i in range(5000)]
    secrets = Secrets.of([("trace.json", "kineto")], texts)
    assert "user4999" not in secrets.clean(texts[4999])
    assert not [text for text in map(secrets.clean, texts) if "user1" in text]


EVERY_SORT = MORE[::7]
"""Of the forms of each sort some: all of them at once are more rows than pages show."""
TEXTS = [
    *(text for text, _ in PLANTED.values()),
    *FORMS,
    *(text for text, _ in EVERY_SORT),
]
HIDDEN = [
    *(secret for _, secret in PLANTED.values()),
    "hunter2zz",
    *(secret for _, secret in EVERY_SORT if secret not in ("zeus", "hera")),
]
"""What must not be left; the short names of hosts are parts of other texts."""


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    trace = small(hostname="trainbox7")
    for i, text in enumerate(TEXTS):
        trace.op(text, 1000 + 20 * i, 10)
        trace.launched(text, 2000 + 20 * i, 2005 + 20 * i, 10)
        trace.annotation(f"phase {text}", 3000 + 20 * i, 15)
    trace.write(folder / "trace.rank0.json.gz")
    values = {
        "command": ["train.py", "--api-key", "s3cr3tvalue"],
        "variables": {"USER": "mallory", "HOSTNAME": "trainbox"},
    }
    (folder / "environment.json").write_text(json.dumps(values))
    return folder


@pytest.fixture(scope="module")
def beside(tmp_path_factory, planted):
    """What other commands read, with the same secrets: a snapshot, a log of torch.compile, dumps of
    a hang."""
    folder = tmp_path_factory.mktemp("beside")
    frames = [[{"name": text, "filename": "/home/mallory/train.py", "line": 3}] for text in TEXTS]
    trace = [
        {
            "action": "alloc",
            "addr": 4096 * i,
            "size": 4096,
            "stream": 0,
            "time_us": i,
            "frames": one,
        }
        for i, one in enumerate(frames, 1)
    ]
    snapshot = {
        "segments": [],
        "device_traces": [trace],
        "allocator_settings": {},
        "external_annotations": [],
    }
    (folder / "snapshot.pickle").write_bytes(pickle.dumps(snapshot))
    log = LogBuilder()
    for number, text in enumerate(TEXTS):
        log.number = number
        log.start()
        log.event("dynamo", "B", 1e6 * number)
        log.event("dynamo", "E", 1e6 * number + 500)
        log.artifact(
            "recompile_reasons",
            f"0/0: tensor '{text}' size mismatch at index 0. expected 4, actual 5",
        )
        log.record("graph_break_reason", {"reason": text, "user_stack": []}, f"Graph break: {text}")
        log.metrics(0.4, fail_type=text, cache_size=1, graph_op_count=7)
    (folder / "log.txt").write_bytes(log.bytes())
    (folder / "digests").mkdir()
    for rank in range(4):
        calls = [
            (i, 1000 * i + 400 * (rank == 3), 1000 * i + 900, "[0, 1, 2, 3]") for i in range(6)
        ]
        made = digest(
            rank,
            calls,
            steps=6,
            host=f"gpuhost{5 + rank // 2}",
            path=f"/home/mallory/rank{rank}.json",
        )
        (folder / "digests" / f"{rank}-0.digest.parquet").write_bytes(encoded(made))
    (folder / "dumps").mkdir()
    for rank in range(3):
        dump = json.loads((ROOT / "tests" / "data" / "hang" / f"rank_{rank}.json").read_bytes())
        for entry, one in zip(dump["entries"], itertools.cycle(frames), strict=False):
            entry |= {"frames": one, "profiling_name": one[0]["name"]}
        (folder / "dumps" / f"rank_{rank}.json").write_text(json.dumps(dump))
    tags = ("host=trainbox3", "owner=user heidi", "user=mallory")
    store = ["--store", str(folder / "runs.db"), *(word for tag in tags for word in ("--tag", tag))]
    assert status("analyze", planted, *store) == 0
    return folder


OUT = "OUT"
COMMANDS = [
    *([name, "--redact", "--format", "csv"] for name in BY_COMMAND),
    *(
        ["analyze", "--redact", "--format", form]
        for form in ("terminal", "markdown", "json", "html", "svg")
    ),
    *(["ops", "--redact", "--format", form] for form in ("terminal", "json")),
    ["overlay", "--redact"],
    ["path", "--redact", "--format", "json"],
    ["attach", "--issue", "o/r#1"],
    ["kernels", "--redact", "--format", "markdown"],
    ["analyze", "--redact", "--full", "--format", "terminal"],
    ["whatif", "--redact", "--full", "--speedup", "user heidi ran=2", "--format", "json"],
    *(
        ["compare", COPY, "--redact", "--format", form]
        for form in ("terminal", "markdown", "json", "html", "svg")
    ),
    ["compare", COPY, COPY, "--redact", "--format", "html"],
    *(
        ["memory", "snapshot.pickle", "--redact", "--full", "--format", form]
        for form in ("terminal", "json", "html")
    ),
    *(
        ["compile", "log.txt", "--redact", "--full", "--format", form]
        for form in ("terminal", "json", "html")
    ),
    *(["hang", "dumps", "--redact", "--format", form] for form in ("terminal", "json", "html")),
    *(
        ["fleet", "digests", "--redact", "--format", form]
        for form in ("terminal", "markdown", "json", "html")
    ),
    *(
        ["compare", "digests", "digests", "--redact", "--format", form]
        for form in ("terminal", "json", "html")
    ),
    *(
        ["compare", name, name, "--redact", "--format", "json"]
        for name in ("snapshot.pickle", "log.txt")
    ),
    ["export", "--redact", "-o", OUT],
    *(
        ["history", "runs.db", "--redact", "--format", form]
        for form in ("terminal", "csv", "json", "html")
    ),
    *(
        ["history", "runs.db", "--redact", "--metric", "step_time_ms", "--format", form]
        for form in ("json", "html")
    ),
    *(
        ["check", "--redact", "--baseline", COPY, *limit, "--format", form]
        for form in ("terminal", "markdown", "junit", "json", "github")
        for limit in (
            ["--max", "step_time_ms.mean=+500%", "--max", "kernels.user heidi ran.device_ms=1000"],
        )
    ),
]
KEPT_HERE = {
    "show": "is the table commands, each by its own name",
    "open": "serves this machine's browser alone",
    "digest": "is what `fleet --redact` reads",
    "try": "runs the user's own program; `attach` redacts what it found",
    "reproduce": "writes an operator's name, shapes and types alone",
    **dict.fromkeys(
        ("schema", "explain", "collect", "doctor", "cache", "completion"), "shows no recording"
    ),
}


@pytest.fixture(scope="module")
def made():
    """What was measured of the recording."""
    return {}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_it_is_hidden_in_every_output(
    planted, beside, made, monkeypatch, tmp_path, capsys, command
):
    remembering(monkeypatch, made)
    given = {
        COPY: planted,
        OUT: tmp_path / "out.sqlite",
        **{path.name: path for path in beside.iterdir()},
    }
    words = [given.get(word, word) for word in command[1:]]
    assert (
        status(
            command[0], *([] if command[1] in given and command[1] != COPY else [planted]), *words
        )
        == 0
    )
    shown = capsys.readouterr().out
    if OUT in command:
        with closing(sqlite3.connect(given[OUT])) as db:
            shown = "\n".join(db.iterdump())
    assert [secret for secret in HIDDEN if secret in shown] == []
    assert shown


def test_a_hint_at_names_hides_what_reports_hide(planted, capsys):
    assert status("whatif", planted, "--redact", "--speedup", "nothing like it=2") == 2
    said = capsys.readouterr().err
    assert "no device work is named 'nothing like it'; the longest: " in said
    assert [secret for secret in HIDDEN if secret in said] == []


def test_no_command_that_redacts_is_left_out():
    context = click.Context(cli)
    names = (*cli.list_commands(context), *OLD)
    commands = {name: cli.get_command(context, name) for name in names}
    redacting = {
        name for name, one in commands.items() if any("--redact" in p.opts for p in one.params)
    }
    assert redacting == {command[0] for command in COMMANDS} | {"mcp"}
    assert redacting ^ KEPT_HERE.keys() == commands.keys()


def test_an_agent_is_told_none_of_it(planted):
    pytest.importorskip("mcp")
    from traceanalyzer.agent.server import make_server
    from traceanalyzer.agent.sources import Sources

    def answers(hidden):
        server = make_server(Sources(), hidden)
        here = {"path": str(planted)}
        asked = [
            ("table", {**here, "name": name, "top": 200}) for name in ("ops", "kernels", "phases")
        ]
        asked += [
            ("diagnose", here),
            ("whatif", here),
            ("limits", here),
            ("compile", here),
            ("compare", {"a": here["path"], "b": here["path"]}),
        ]
        return "".join(
            repr(asyncio.run(server.call_tool(verb, arguments))) for verb, arguments in asked
        )

    redacted = answers([])
    plain = answers(None)
    assert [secret for secret in HIDDEN if secret in redacted] == []
    assert [secret for secret in HIDDEN if secret in plain] != []


@pytest.mark.parametrize("form", ["terminal", "markdown", "json", "html"])
def test_a_log_of_torch_compile_that_is_analyzed_says_no_secret(form, tmp_path):
    """Guards, errors and files of its compilations stand in what `analyze` says of it."""
    token = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
    log = LogBuilder()
    log.start(file="/home/heidi/train.py")
    log.artifact("recompile_reasons", f"0/0: L['url'] == 'https://u:{token}@zeus.example.org/x'")
    log.metrics(0.1, fail_reason=f"FileNotFoundError /home/heidi/{token}", fail_type="E")
    path = tmp_path / "a.log"
    path.write_bytes(log.bytes())
    words = ["analyze", str(path), "--full", "--redact", "--no-cache", "--format", form]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    hidden = [token[:12], "heidi", "zeus"]
    assert [secret for secret in hidden if secret in result.output] == []
