"""What `--redact` promises to hide, planted where recordings have it, in every output."""

from __future__ import annotations

import json

import pytest

from tests.hostile.test_files import status
from tests.hostile.test_recordings import small
from tests.hostile.test_regexes import LENGTH, UNITS, search, that_ends
from traceanalyzer.report.privacy.credentials import maintained_rules
from traceanalyzer.report.privacy.secrets import Secrets

PLANTED = {
    "a host after `on`": ("rank on gpuhost5", "gpuhost5"),
    "a node": ("ran on node0123 today", "node0123"),
    "a host in a setting": ("SLURMD_NODENAME=node6", "node6"),
    "a host named elsewhere": ("HOSTNAME=trainbox; slow on trainbox", "trainbox"),
    "a Windows host": ("DESKTOP-X41 was slow", "DESKTOP-X41"),
    "a cloud's host": ("ip-10-0-3-17 left", "ip-10-0-3-17"),
    "an address": ("MASTER_ADDR=head-7", "head-7"),
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
}


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


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    trace = small(hostname="trainbox7")
    for i, (text, _) in enumerate(PLANTED.values()):
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


@pytest.mark.parametrize(
    "command",
    [
        *(["analyze", "--redact", "--format", form] for form in ("terminal", "markdown", "json", "html")),
        *(["ops", "--redact", "--format", form] for form in ("terminal", "csv", "json")),
        ["kernels", "--redact", "--format", "csv"],
        ["overlay", "--redact"],
        ["path", "--redact", "--format", "json"],
        ["attach", "--issue", "o/r#1"],
    ],
)
def test_it_is_hidden_in_every_output(planted, capsys, command):
    assert status(command[0], planted, *command[1:]) == 0
    shown = capsys.readouterr().out
    assert [secret for _, secret in PLANTED.values() if secret in shown] == []
