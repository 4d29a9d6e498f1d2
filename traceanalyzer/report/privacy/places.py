"""What names users, hosts, addresses and paths in text: patterns, and words that only look like
them."""

import re

from traceanalyzer.base import regex

URLS = regex(r"\b\w+://[^\s\"'<>|]+")
ACCOUNTS = regex(r"(?<![\w.+-])([\w.+-]+)@([A-Za-z0-9][\w.-]*)")
ADDRESSES = regex(
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\.?\w)|\b(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}\b"
    r"|(?<![\w:])(?:fe[89ab][0-9a-f]|f[cd][0-9a-f]{2}|2[0-9a-f]{3}|64:ff9b)(?::{1,2}[0-9a-f]{1,4}){1,7}(?:::)?(?:%\w+)?"
    r"(?![\w:])",
    re.I,
)
"""IPv4, IPv6 in full, and the short forms of those IPv6 addresses that hosts have: others look like
C++ names."""
SETTINGS = regex(
    r"(?<![A-Za-z0-9_])(?P<name>(?P<user>(?i:user[_ ]?name|user[_ ]?id|user|logname|login|uid)|SUDO_USER|SLURM_JOB_USER"
    r"|USERPROFILE|PGUSER|(?:GIT|HG)_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL)|\w{0,40}_USER(?:_?NAME|_?ID)?)"
    r"|(?i:host[_ ]?name|host|computer[_ ]?name|node_?name|master_?addr|master_?host)"
    r"|(?<=[\"'])nodes?(?=[\"'])|SLURMD_NODENAME|DISPLAY|PGHOST"
    r"|SLURM_\w{0,30}?NODE\w{0,20}|\w{0,40}_HOST|\w{0,40}_HOSTNAME|\w{0,40}_ADDR|\w{0,40}_NODE_?NAME"
    r"|\w{0,40}_?POD_(?:NAME|IP|NAMESPACE)|(?:\w{1,40}_)?(?:NODE|HOST)_IP|\w{0,40}_ENDPOINT)"
    r"(?P<sign>(?P<key>[\"']?)\s?=\s?[\"']?|(?P<json>[\"']?)\s?:\s?[\"']?|[ ])"
    r"(?P<value>[^\s\"',;<>()=]{1,255}+)"
)
"""Settings of an environment whose value is a user or a host."""
NO_NAME = regex(
    r"(?i:0x[\da-f]+|[\d.,%+-]+\w{0,2}|true|false|none|null|nan|any|all|cpu|gpu|cuda|device|pinned|pageable)"
)
"""Values of such settings that name neither."""
NAMED_HOSTS = regex(
    r"(?<![\w.-])(?:DESKTOP|LAPTOP|WIN)-[A-Z0-9]{3,15}(?![\w-])|(?<![\w.-])ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}(?!\w)"
)
"""Names that Windows and clouds give."""
PLACED = regex(
    r"\b((?i:on|at|from|host|hostname|node|server|machine)[ =:]\s?)"
    r"(?=[a-z])([a-z-]{2,30}\d[\w-]{0,40})(?!\.?[\w(/%]|:\S)"
)
"""A name with a number after a word that a host stands after. Those of devices, streams and types
are left."""
NO_HOST = regex(
    r"^(?:cuda|gpu|gpus|device|stream|rank|step|thread|worker|input|sm|tf|fp|bf|int|uint|float|bfloat|bit|aten|nccl|gemm|"
    r"cudnn|python|libcu[^\W\d]*+|page|layer|block|core|cpu|numa|stage|level|pid|tid|kernel|name)[_-]?\d[\w-]*"
)
PERSON = regex(
    r"\b((?:[Uu]ser|USER|login|account|owner)[ \t:>]\s?)([a-z][a-z0-9_-]{2,31})(?!\.?[\w(/]|:\S)"
)
NAMED_PERSONS = (
    regex(r"(?<![\w=])((?:uid|gid|groups)=\d{1,10}\()([^)\s]{1,64})(?=\))"),
    regex(r"\b(sudo\s(?:-[A-Za-z]\s){0,4}?-u\s?)([\w.-]{1,64})"),
    regex(
        r"\b((?:[Ss]ubmitted|[Oo]wned|[Rr]eserved|[Aa]uthored|[Cc]ommitted) by[ :]\s?)"
        r"([a-z][\w-]{2,31})(?!\.?[\w(/]|:\S)"
    ),
    regex(r"\b((?:cc|CC|Cc)[ :]\s?)([a-z]{2,31}\d{1,6})(?!\.?[\w(/]|:\S)"),
    regex(r"\b(torchinductor_)([\w-]{1,64})"),
    regex(
        r"\b((?:github|gitlab|bitbucket|huggingface)\.(?:com|org|co)[/:])([\w.-]{1,64}(?:/[\w.-]{1,100})?)"
    ),
    regex(r"(?<![\w\\/:.])([A-Z][A-Z0-9-]{1,14}\\)([A-Za-z][\w.-]{1,63})(?![\\\w])"),
    regex(r"\b(arn:[\w-]{0,20}:[\w-]{0,30}:[\w-]{0,30}:)(\d{0,12}:[^\s\"',;]{1,256})"),
)
"""Accounts by what stands before them: what is printed by `id`, `sudo`, schedulers, domains, clouds."""
NO_PERSON = {
    "and",
    "annotation",
    "annotations",
    "are",
    "asked",
    "can",
    "cannot",
    "code",
    "data",
    "default",
    "defined",
    "does",
    "event",
    "events",
    "for",
    "from",
    "function",
    "functions",
    "gives",
    "group",
    "had",
    "has",
    "have",
    "hook",
    "hooks",
    "id",
    "input",
    "interface",
    "is",
    "kernel",
    "library",
    "marked",
    "mode",
    "name",
    "named",
    "names",
    "of",
    "or",
    "output",
    "process",
    "program",
    "range",
    "ranges",
    "said",
    "says",
    "script",
    "space",
    "stack",
    "step",
    "steps",
    "that",
    "the",
    "time",
    "was",
    "with",
}
"""Words that follow `user` where it is not a name."""
HOST_LISTS = regex(
    r"(?<![A-Za-z0-9])(\w{0,40}(?:_HOSTS|_NODES|_NODELIST)|(?i:node_?list|host_?list))"
    r"(\s?[=:]\s?[\"']?)(?=[a-zA-Z])[\w.,:\[\]-]{1,1024}+"
)
"""Settings that list hosts: `zeus,hera`, `zeus[01-04]`."""
WITH_PORT = regex(r"(?<![\w./:-])(?!\w*::)[a-z][a-z-]{1,30}\d[\w-]{0,40}(?=:\d{4,5}(?![\d\w]))")
"""A name with a number before a port."""
IN_NAMES = regex(
    r"(?<![A-Za-z0-9])((?:worker|node|host|ip|vm|pod|server|gpu|trainer)[_-]?)(?:\d{1,3}[_-]){3}\d{1,3}(?!\d)"
    r"|\b0x(?:0a|c0a8|ac1[0-9a-f])[0-9a-f]{4,6}\b(?<=\b0x[0-9a-f]{8})"
)
"""Addresses as parts of names, and private ones in hexadecimal."""
HARDWARE = regex(
    r"(?<![\w-])(?:[0-9A-Fa-f]{2}-){5}[0-9A-Fa-f]{2}(?![\w-])|(?<![\w:])(?:[0-9A-Fa-f]{2}:){5,19}[0-9A-Fa-f]{2}(?![\w:])"
    r"|(?<![\w.])(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}(?!\.?\w)"
    r"|(?<![\w:])(?:[0-9a-f]{4}:){3}[0-9a-f]{4}(?![\w:])"
    r"|(?i:(?<=\bguid )|(?<=\bgid )|(?<=guid=)|(?<=guid: ))(?:0x)?[0-9a-f]{16}\b"
)
"""MAC addresses, and GUIDs of InfiniBand's ports."""
HOSTS = regex(
    r"(?<![\w.-])[\w-]+(?:\.[\w-]+)*"
    r"\.(?:com|net|org|edu|gov|mil|io|ai|dev|cloud|local|lan|internal|intranet|corp|cluster)(?!\.?\w)"
    r"|(?<![\w.-])[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){0,3}\.(?:svc|pod)(?:\.[a-z0-9-]{1,63}){0,3}(?!\.?[\w-])"
)
BELOW_ANY_DOMAIN = regex(
    r"(?<![\w.-])(?!(?:torch|aten|at|c10|cuda|cudnn|nccl|triton|jax|xla|np|numpy|model|module|self|layers?|net|nn|lib\w*)\.)"
    r"[a-z][a-z0-9-]{0,62}(?:\.[a-z0-9-]{1,63}){1,5}"
    r"\.(?:info|biz|tech|science|xyz|site|online|systems|computer|network|digital|center|app|it|uk|de|fr|jp|cn|kr|tw|hk|sg"
    r"|au|nz|ca|us|br|mx|ar|cl|ch|nl|be|lu|se|no|fi|dk|pl|cz|sk|hu|ro|bg|gr|tr|il|ae|sa|za|ru|ua|es|pt|ie|eu|at|in)(?!\.?[\w(-])"
)
"""Hosts below a country's domain, or another, in at least three parts: what a program calls by dots has
others at its end, and begins with the names left out."""
HOMES = regex(r"(?:/home/|/Users/|[a-z]:[\\/]+Users[\\/]+|~)([^/\\\s\"'<>|:,;()]+)", re.I)
RECORDER_HOST = regex(
    r"(?:^|[/\\])([^/\\]+?)_\d+\.\d+\.pt\.trace\.json"
)  # PyTorch's HOST_PID.TIME.pt.trace.json
PATHS = regex(
    r"(?<![\w/\\)])(?:~[\w.-]*|\.{1,2}|[A-Za-z]:)?(?:[/\\]+(?:[^\s/\\\"'<>|:][^/\\\n\"'<>|:]*(?=[/\\])|[^\s/\\\"'<>|:;,()]*))+"
    r"|(?<![\w/\\.~-])(?:[\w.~-]+[/\\])+[\w.~-]*\.\w+"
)
"""An absolute path, inner segments with blanks included; or a relative one that ends in a name with
a suffix."""
QUOTED_PATH = regex(
    r"(?<=[\"'])(?:~[\w.-]{0,32}|[A-Za-z]:)?[/\\]{1,2}[^\s/\\\"'<>|:][^/\\\"'<>|:\n]{0,100}"
    r"(?:[/\\]{1,2}[^/\\\"'<>|:\n]{1,100}){1,40}(?=[\"'])"
)
"""A path between quotes, blanks and all."""
WITH_BLANKS = regex(
    r"\A(?:~|[A-Za-z]:)?[/\\]{1,2}(?:home|users|scratch|work|data|mnt|gpfs|lustre|nfs|p|u)(?:[/\\]{1,2}[^/\\\"'<>|:\n]{1,100}){0,40}"
    r"[/\\]{1,2}[\w-]{1,60}(?: (?!(?:is|was|has|had|of|in|on|at|not|line|does|and|or|to|for|from|with|cannot|no)\b)"
    r"[\w-]{1,40}){1,3}\Z",
    re.IGNORECASE,
)
"""A text that is one path, of which the last part has blanks."""
BELOW_A_ROOT = regex(
    r"(?<![\w/\\.~-])(?:projects?|users?|home|scratch|work|data|mnt|gpfs|lustre|nfs|code|repos?|workspace)(?:/[\w.~-]{1,100}){2,20}"
    r"|(?<![\w/\\])[\w.~-]{1,100}(?:\\[A-Za-z_~][\w.~-]{0,100}){2,20}"
)
"""Relative paths without a suffix: below what folders of users are called, or with backslashes."""
SOURCE_FILE = regex(r"^[\w.-]+\.(?:py|pyx|c|cc|cpp|cxx|cu|cuh|h|hpp)")
"""Files whose base names stay: they are the places in the code that the report is about."""
RECORDINGS = regex(
    r"(?<![\w.-])[\w.-]+\.(?:json|gz|zst|sqlite|db|pftrace|pb|nsys-rep|qdrep|csv|jsonl|log|txt)\b"
)
"""Names of recordings often hold a host or a user."""
