"""What names an account, a machine or a project where it stands, and nowhere else: identifiers of
clouds, clusters and devices, settings and options whose value is one, and command lines with one.

What users and hosts are called is learnt from settings (`places.py`) and hidden wherever it stands.
A project or a cluster may be called `train`, so its name is hidden only behind the setting."""

import re

from traceanalyzer.base import regex

ID = "<id>"
USER = "<user>"
HOST = "<host>"

_NUMBERED = regex(
    r"(?<![0-9A-Za-z])(?:GPU-|MIG-(?:GPU-)?)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![0-9A-Za-z])"
    r"|(?<![\w-])(?:i|vpc|subnet|sg|eni|ami|vol|snap|eks|fs|lt|r)-(?:[0-9a-f]{17}|[0-9a-f]{8})(?![\w-])"
    r"|(?<![\w.])ocid1\.[a-z]{2,40}\.[\w.-]{4,200}"
    r"|(?<![\w-])gke-[a-z0-9-]{1,60}-[0-9a-f]{8}-[a-z0-9]{4}(?![\w-])"
    r"|(?<![\w-])aks-[a-z0-9]{1,20}-\d{8}-vmss[0-9a-z]{0,8}(?![\w-])"
    r"|(?<![\w.-])\d{8,14}-[a-z0-9]{24,40}\.apps\.googleusercontent\.com",
    re.IGNORECASE,
)
"""Identifiers by their forms: UUIDs (of GPUs, subscriptions, tenants), resources of AWS, Oracle's
clouds, nodes of GKE and AKS, clients of Google."""
_AFTER_A_WORD = (
    regex(r"(?i:\b(account(?:[ _-]?(?:id|number))?[ :=]{1,3}))\d{12}(?!\d)"),
    regex(r"(?i:\b((?:machine|boot|host)[ _-]?id[ :=]{1,3}[\"']?))[0-9a-f]{8,32}(?![0-9A-Za-z])"),
    regex(
        r"(?i:\b((?:serial(?:[ _-]?(?:number|no))?)[ :=]{1,3}[\"']?))(?=[A-Z0-9-]*\d{4})[A-Z0-9-]{8,24}(?![\w-])"
    ),
    regex(r"(?i:\b((?:mac|hw)(?:[ _-]?addr(?:ess)?)?[ :=]{1,3}[\"']?))[0-9a-f]{12}(?![0-9A-Za-z])"),
)
"""Identifiers by the word before them."""
_PERSONS = (
    r"\w{0,40}_(?:LOGNAME|ENTITY|ACTOR|ACCOUNT|LOGIN|AUTHOR|(?:SUBMITTED|CREATED|STARTED)_BY)|LSFUSER"
    r"|(?i:job_?owner|author|owner|creator|submitter|requester|maintainer|assignee|actor|entity|account"
    r"|principal|benutzer|utilisateur|usuario|utente)"
)
_MACHINES = (
    r"\w{0,40}_(?:CLUSTER(?:_NAME)?|PARTITION|SERVER|ADDRESS|BROKERS|NODE|COMM_ID|DOMAIN|PROXY)|USERDOMAIN"
    r"|(?i:https?_proxy|all_proxy|batch_?host|master_?addr(?:ess)?|server|machine|cluster(?:_?name)?|partition"
    r"|instance|(?:\w{1,30}_)?endpoint)"
)
_PROJECTS = (
    r"\w{0,40}_PROJECT(?:_ID|_NAME)?|\w{0,40}_(?:ACCOUNT|SUBSCRIPTION|TENANT|CLIENT|ORGANI[SZ]ATION|INSTANCE)_ID"
    r"|(?i:(?:project|tenant|subscription|organi[sz]ation|account)_id)|AccountName"
)
_SIGN = r"(?:\\{0,3}[\"']\s?:\s?\\{0,3}[\"']|\s?=\s?\\{0,3}[\"']?)(?:-D)?"
_VALUE = r"(?!<|(?i:true|false|none|null|nan|any|all|auto|cpu|cuda|gpu)\b)[^\s\"',;<>()=\\]{3,255}+"
_NAME = r"(?![<\d.]+\b)" + _VALUE
_COLON = (
    r"(?i:job_owner|user_(?:id|name)|login_name|master_addr(?:ess)?|master_host|rdzv_endpoint|host_name|"
    r"benutzer(?:name)?|utilisateur|usuario|utente|gebruiker)"
)
_SETTINGS = (
    (regex(rf"(?<![A-Za-z0-9_.-])((?:{_PERSONS}){_SIGN}){_NAME}"), USER),
    (regex(rf"(?<![A-Za-z0-9_.-])((?:{_MACHINES}){_SIGN}){_NAME}"), HOST),
    (
        regex(rf"(?<![A-Za-z0-9_.-])((?:{_PROJECTS})(?:{_SIGN}|\s?:\s?))(?!\d{{1,5}}\b){_VALUE}"),
        ID,
    ),
    (regex(rf"(?<![A-Za-z0-9_.-])({_COLON}\s?:\s?){_NAME}"), USER),
)
"""Settings of an environment, members of JSON, attributes: what their value names."""
_LINES = regex(r"(?<![A-Za-z0-9_])(LSB_\w{0,20}HOSTS=[\"']?)(?=\w)[^\n\"']{1,4096}")
"""Lists of hosts with blanks between them."""
_OPTIONS = (
    (
        regex(
            r"(?<![^\s\"'`(\[])"
            r"(--(?:master[_-]addr|rdzv[_-]endpoint|host|hostname|hosts|server|node|nodelist|hostfile)[ =])"
            r"(?![-<\d])[^\s;\"']{2,1024}"
        ),
        HOST,
    ),
    (
        regex(
            r"(?<![^\s\"'`(\[])(-H )[a-zA-Z][\w.-]{1,60}:\d{1,3}(?:,[\w.-]{1,60}:\d{1,3}){0,200}"
        ),
        HOST,
    ),
    (
        regex(
            r"(?<![^\s\"'`(\[])(--(?:user|username|login|account|owner|author)[ =])(?![-<\d])[\w.@-]{2,64}"
        ),
        USER,
    ),
    (
        regex(
            r"(?<![\w-])((?:psql|pg_\w{2,20}|createdb|smbclient|ssh|slogin|squeue|sacct|scancel|qstat|bjobs|qselect)"
            r"\s(?:[^\n]{0,80}?\s)?-[Uul]\s?)(?![-<])[\w.-]{2,64}"
        ),
        USER,
    ),
    (regex(r"(?<![\w-])(su -l? ?|runuser -u ?)(?![-<])[a-z][\w.-]{1,31}(?!\w)"), USER),
    (
        regex(
            r"(?<![\w-])(chown (?:-\w{1,4} ){0,3})(?![-<])[a-z][\w.-]{1,31}(?::[\w.-]{0,31})?(?=\s)"
        ),
        USER,
    ),
    (regex(r"(?<![\w-])(kubectl\s(?:[^\n]{0,80}?\s)?(?:-n|--namespace)[ =])[\w-]{2,63}"), ID),
)
"""Options of command lines that name a host, an account or a namespace."""
_SENTENCES = (
    (regex(r"\b(Linux )[A-Za-z][\w.-]{1,62}(?= \d{1,2}\.\d{1,3}[\w.-]{0,40})"), HOST),
    (
        regex(
            r"(?<![\w.:/-])()[A-Za-z][\w.-]{0,62}"
            r"(?=: ?\d{1,7}:\d{1,7} \[\d{1,3}\] (?:[\w./]{1,80}:\d{1,5} )?NCCL)"
        ),
        HOST,
    ),
    (regex(r"(?<!\w)(\[)[A-Za-z][\w.-]{1,62}(?=\]:\d{4,5}(?!\d))"), HOST),
    (regex(r"(?<![\w./-])()[A-Za-z][\w.-]{1,62}(?= slots=\d)"), HOST),
    (
        regex(
            r"(?<![\w./:-])()(?!(?:rank|gpu|cuda|step|stage|layer|input)\d)"
            r"[a-z][a-z-]{1,30}\d[\w-]{0,20}(?=:/\w)"
        ),
        HOST,
    ),
    (
        regex(r"\b((?:srun|salloc|sbatch)\s(?:[^\n]{0,80}?\s)?-w ?)[a-z][\w.,\[\]-]{1,200}"),
        HOST,
    ),
    (regex(r"(events\.out\.tfevents\.\d{9,11}\.)[\w-]{1,63}(?=\.)"), HOST),
    (
        regex(r"(?<![\w/-])((?:pod|node|nodes)/)(?=[\w-]*\d)[a-z][\w-]{2,62}(?!\.?[\w/(])"),
        HOST,
    ),
    (
        regex(r"(?<![\w-])((?:cn|uid|CN|UID)=)[^,\s\"'<]{2,64}(?=,\s?(?:ou|dc|o|cn|OU|DC|O|CN)=)"),
        USER,
    ),
    (regex(r"(?<![\w:])(system:serviceaccount:)[\w-]{1,63}:[\w-]{1,63}"), USER),
    (
        regex(
            r"\b((?i:requested|created|uploaded|maintained|assigned|approved) (?:by|to)[ :]\s?)"
            r"[a-z][a-z._-]{1,30}\d{1,6}(?!\.?[\w(:/])"
        ),
        USER,
    ),
    (regex(r"\b((?i:login as|log in as|logged in as)[ :]{1,2})[a-z][\w.-]{1,31}(?!\w)"), USER),
    (regex(r"(\b(?:User|Job Owner|Submitted by) <)[\w.-]{1,64}(?=>)"), USER),
    (regex(r"(\bProject <)[\w.-]{1,64}(?=>)"), ID),
    (regex(r"(<(?i:user|user_?name|login|owner|author|email)>)[^<>\n]{1,128}(?=</)"), USER),
    (regex(r"(<(?i:host|host_?name|server|node)>)[^<>\n]{1,128}(?=</)"), HOST),
    (
        regex(
            r"((?<![\w-])[-dlbcps][rwxsStT-]{9}[.+@]?\s{1,8}\d{1,6}\s{1,8})"
            r"(?!root\s)[\w.-]{1,64}\s{1,8}[\w.-]{1,64}(?=\s)"
        ),
        f"{USER} {USER}",
    ),
    (regex(r"(?<![\w.-])()[a-z][\w.-]{1,31}(?=\s{1,16}(?:pts/|tty)\d)"), USER),
    (
        regex(
            r"(?<![\w.,-])()[A-Za-z][\w.,:\[\]-]{1,400}"
            r"(?=\s(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-\w{1,20})\s)"
        ),
        HOST,
    ),
    (regex(r"(\b(?i:logged in as):? \S{1,64} \()[\w.-]{2,64}(?=\))"), USER),
)
"""What `uname`, NCCL, c10d, MPI, NFS, TensorBoard, Kubernetes, LDAP and schedulers print before or after a name."""
_WITHOUT_SCHEME = regex(
    r"(?<![\w./@-])(?:[a-z0-9-]{1,63}\.){1,4}(?:com|net|org|edu|gov|io|ai|dev|cloud|internal|corp)/(?!\.py)[^\s\"'<>|,;()]{1,1024}"
)
"""Addresses of pages, images and repositories whose `https://` is left out."""


def without_identifiers(text: str) -> str:
    """The text with `<id>`, `<user>` or `<host>` in place of each of them."""
    text = _NUMBERED.sub(ID, text)
    for form in _AFTER_A_WORD:
        text = form.sub(rf"\1{ID}", text)
    text = _LINES.sub(rf"\1{HOST}", text)
    for form, alias in (*_SETTINGS, *_OPTIONS, *_SENTENCES):
        text = form.sub(rf"\1{alias}", text)
    return _WITHOUT_SCHEME.sub(HOST, text)
