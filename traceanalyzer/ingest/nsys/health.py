"""What a reader of the report should know about an nsys export, in plain sentences without
secrets."""

import re
from collections.abc import Collection, Sequence

import numpy as np

from traceanalyzer.base import cut, regex
from traceanalyzer.ingest.nsys.about import About
from traceanalyzer.ingest.nsys.device import DEVICE_TABLES, GRAPH_TRACE, KERNEL
from traceanalyzer.ingest.nsys.events import pid_of, process_of
from traceanalyzer.ingest.nsys.host import RUNTIME
from traceanalyzer.ingest.nsys.nvtx import NVTX
from traceanalyzer.ingest.sqlite.database import Database
from traceanalyzer.trace.circumstances import Collected

_WARNING = 2  # severities of `DIAGNOSTIC_EVENT`; 1 is information
_ERROR = 3
_MAX_QUOTED = 5  # messages, and characters of one
_MAX_QUOTE = 200
_MAX_READ = 50
_MAX_MESSAGE = 1000
"""Messages that are looked at, and characters of one: of a longer one, to quote a part could quote
part of a secret."""
_PRIVATE = regex(
    r"""
    (["'`]) [^"'`]* [/\\=] [^"'`]* \1   # anything quoted that looks like a path or a setting
    | \S* [/\\] \S*                     # paths, addresses
    | \S+ = \S*                         # settings
    | [\w.+-]+ @ \S+                    # user@host
    | (?<![\w+-]) (?! (?:CUPTI|CUDA|NVPA|NCCL)_[A-Z_]+ (?![\w+-])) [A-Za-z0-9_+-]{24,}  # keys, no errors
    """,
    re.VERBOSE,
)
_OF_THE_MACHINE = regex(r"\bdriver\b|\bCUPTI\b", re.IGNORECASE)
_QUEUES = regex(r"Launch|Mem[cC]py|Mem[sS]et")  # names of calls that give the device work
_OF_PYTORCH = "at::native::"  # in names of its kernels
_SHORTEST_SECRET = 4
"""Shorter values of environment variables are left in quotes: they are words such as `on`."""


def remarks(
    database: Database, about: About, *, share_there: float, processes: Collection[int] = ()
) -> list[str]:
    """Notes on what was collected or not, and what nsys reported; `processes` are keys of those
    with a trace."""
    notes = []
    if about.schema == (0, 0):
        notes.append(
            "The export does not say which version of nsys wrote it; its tables are read "
            "by their columns"
        )
    notes += _missing(database, about)
    if database.any_rows(GRAPH_TRACE):
        notes.append(
            "CUDA graphs were recorded as a whole: how long each ran is known, which kernels ran in it, and what "
            "limits them, is not; nsys profile --cuda-graph-trace=node records them"
        )
    if share_there < 1:
        notes.append(
            f"The file is cut off at {share_there:.0%} of the database: tables may be missing. "
            "Copy it again"
        )
    if database.damaged:
        notes.append(
            f"The database is damaged; of {', '.join(sorted(database.damaged))} only the rows before the damage "
            "were read"
        )
    return notes + diagnostics(database, processes)


def _missing(database: Database, about: About) -> list[str]:
    """One note for each kind of event that is not there, and why."""
    notes = []
    if not any(database.any_rows(table) for table in DEVICE_TABLES):
        notes.append(
            _no_device_rows(database)
            or _absence("GPU work", "CUDA", about.did_collect("Cuda"), "cuda")
        )
    elif not database.any_rows(KERNEL):
        notes.append("The export has no kernels, only other GPU work")
    elif not database.any_rows(RUNTIME):
        notes.append("The export has no CUDA API calls; launches and host gaps cannot be explained")
    if not database.any_rows(NVTX):
        notes.append(_absence("NVTX ranges", "NVTX", about.did_collect("NvtxEvents"), "nvtx"))
    return notes


def _absence(what: str, kind: str, asked: bool | None, option: str) -> str:
    if asked is None:
        return (
            f"No {what} in the export, and it does not say whether {kind} was traced (nsys "
            f"profile -t {option})"
        )
    if asked:
        return f"No {what}: {kind} was traced, but none happened while recording"
    return f"No {what}: {kind} was not traced; record with nsys profile -t {option}"


def _no_device_rows(database: Database) -> str:
    """Why an export with calls that give the device work has none of it; empty without such
    calls."""
    if not database.any_rows(RUNTIME):
        return ""
    ids, counts = np.unique(
        database.integers(RUNTIME, {"nameId": -1})["nameId"], return_counts=True
    )
    names = database.texts(ids)
    calls = sum(
        n
        for i, n in zip(ids.tolist(), counts.tolist(), strict=True)
        if _QUEUES.search(names.get(i, ""))
    )
    note = (
        f"{calls:,} calls that launch or copy were recorded, but no GPU work: CUPTI's activity records are missing "
        "(WSL, a driver newer than this nsys, another profiler attached); what the GPU did is not known"
    )
    return note if calls else ""


def operators_told(collected: Sequence[Collected], strings: Collection[str]) -> list[str]:
    """What of PyTorch's operators is in the recording of these processes, and what records more;
    nothing of a program without PyTorch."""
    if any(each.shapes for each in collected):
        return [
            "PyTorch's operators are there with input shapes. Types are told by the kernels; other values and "
            "lines of Python are not recorded: `traceanalyzer collect torch` records them"
        ]
    if any(each.ops for each in collected):
        return [
            "PyTorch's operators are there without input shapes: `traceanalyzer collect nsys` records these, "
            "`collect torch` types, values and lines of Python too"
        ]
    if not any(_OF_PYTORCH in text for text in strings):
        return []
    return [
        "PyTorch's operators are not recorded, and advice goes by names of kernels: `traceanalyzer collect nsys` "
        "records operators with shapes, `collect torch` types, values and lines of Python too"
    ]


def diagnostics(database: Database, processes: Collection[int] = ()) -> list[str]:
    """nsys's own warnings and errors, each distinct one once; of other processes than `processes`
    errors alone."""
    columns: dict[str, int | bytes | None] = {"severity": 0, "globalPid": 0, "text": None}
    rows = database.rows("DIAGNOSTIC_EVENT", columns, where=f"severity >= {_WARNING}")
    ordered = sorted((-int(severity), str(text), int(owner)) for severity, owner, text in rows)
    messages = (
        _said(-severity, text, int(process_of(owner)), processes)
        for severity, text, owner in ordered
    )
    texts = list(dict.fromkeys(text for text in messages if text is not None))
    secrets = _secret_values(database) if texts else None
    quoted = list(dict.fromkeys(_safe(text, secrets) for text in texts[:_MAX_READ]))
    more = len(quoted) + len(texts[_MAX_READ:]) - _MAX_QUOTED
    rest = [f"nsys reports {more} more warnings"] if more > 0 else []
    return [f"nsys reports: {text}" for text in quoted[:_MAX_QUOTED]] + rest


def _said(severity: int, text: str, key: int, processes: Collection[int]) -> str | None:
    """A message with the process that it is of, where that is another one. Programs beside the one
    that was recorded have "no CUDA events": that says nothing of it. A driver that is too new or
    too old says something of all."""
    if not processes or not pid_of(key) or key in processes:
        return text
    of_all = severity >= _ERROR or _OF_THE_MACHINE.search(text)
    return f"(process {pid_of(key)}) {text}" if of_all else None


def _safe(text: str, secrets: re.Pattern[str] | None) -> str:
    """The message on one line, without paths, settings and values of the recorded environment."""
    line = " ".join(text.split())
    if len(line) > _MAX_MESSAGE:
        return f"a message of {len(line)} characters"
    if secrets is not None:
        line = secrets.sub("<removed>", line)
    return cut(_PRIVATE.sub("<removed>", line), _MAX_QUOTE)


def _secret_values(database: Database) -> re.Pattern[str] | None:
    """Matches any value of the recorded environment or command line. Used to remove them, never
    shown."""
    where = "name LIKE '%ENVIRONMENT%' OR name LIKE '%ARGUMENT%' OR name LIKE '%COMMAND%'"
    captured = database.rows("META_DATA_CAPTURE", {"value": None}, where=where)
    described = database.rows("TARGET_INFO_SYSTEM_ENV", {"value": None})
    values: set[str] = set()
    for (text,) in (*captured, *described):
        for line in str(text or "").splitlines():
            values.update((line.strip(), line.partition("=")[2].strip()))
    long = sorted(
        (value for value in values if len(value) >= _SHORTEST_SECRET), key=len, reverse=True
    )
    return re.compile("|".join(map(re.escape, long))) if long else None
