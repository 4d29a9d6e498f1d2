"""Runs a command under an installed Nsight Systems, and leaves an export that can be shown to
others.

Only what the analysis uses is traced. CPU sampling and OS calls slow the host and are off unless
asked for. What nsys writes holds the whole environment, the command line, the program's output and
the host's process list: it goes to a folder of its own, of which nothing but the scrubbed export
stays. What is kept is listed here; every other table is dropped, also those that versions to come
invent."""

import re
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import filterfalse
from pathlib import Path
from typing import Any

from traceanalyzer.base import dataclass

KEPT_TABLES = re.compile(  # events, their names, the GPUs, the clock; metadata by the keys below
    r"CUPTI_ACTIVITY_KIND_\w+|CUDA_(GRAPH|GPU_MEMORY|UM)_\w+|CUDA_GRAPH_EVENTS|(CUBLAS|CUDNN|NVTX|PROFILER|NCCL)_\w+"
    r"|(COMPOSITE|SCHED|MPI_\w+|UCP_\w+)_EVENTS|MPI_RANKS|OSRT_API|ENUM_\w+|StringIds|ThreadNames|GPU_METRICS"
    r"|TARGET_INFO_(GPU|GPU_METRICS|SESSION_START_TIME|CUDA_\w+)|ANALYSIS_DETAILS|DIAGNOSTIC_EVENT"
    r"|META_DATA_EXPORT|META_DATA_CAPTURE|EXPORT_META_DATA"
)

KEPT_KEYS = re.compile(  # metadata that says what was collected; no other key's value is kept
    r"EXPORT_(PRODUCT|SCHEMA)_VERSION\w*|EXPORT_PARAM_(LAZY|INCLUDE_\w+|TIME_NORMALIZE|TIME_SHIFT)"
    r"|CAPTURE_EVENT_TYPE|(PROCESS_\d+:)?(CUDA_GRAPH_TRACE_OPTIONS:\w+|COLLECT_GPU_MEMORY_USAGE"
    r"|CUDA_SKIP_SOME_API_CALLS|CUDA_TRACE_SCOPE)"
)

METADATA = ("META_DATA_EXPORT", "META_DATA_CAPTURE", "EXPORT_META_DATA")

NAME_COLUMNS = frozenset(  # that point into `StringIds`; other strings (output, arguments) go
    {
        "shortName",
        "demangledName",
        "mangledName",
        "nameId",
        "textId",
        "jsonTextId",
        "symbol",
        "name",
        "metricName",
    }
)

FREE_TEXT = {
    "NVTX_EVENTS": ("text", "jsonText"),
    "DIAGNOSTIC_EVENT": ("text",),
    "StringIds": ("value",),
}
"""Columns whose text may mention a path."""

_PART = r"/[\w.+@~-]+"
UNIX_PATH = re.compile(
    rf"(?<![\w.:])~?(?:{_PART}(?: [\w.+@~-]+)*(?=/))+{_PART}/?|(?<!\w)~{_PART}/?"
)
"""Two components or more, or below `~`. Only a component that another one follows may hold
spaces."""
WINDOWS_PATH = re.compile(r"\b[A-Za-z]:\\[^\s\"'<>|]+")


TRACED = "cuda,nvtx,cublas,cudnn"
SUFFIX = ".nsys-rep"
REPORT = f"nsys{SUFFIX}"
EXPORT = "nsys.sqlite"
HELP_SECONDS = 60
"""What an nsys may take to print its help: it is a large program on what may be a network drive."""
MISSING = (
    "nsys is not installed (or not on PATH): it comes with the CUDA toolkit (package cuda-nsight-systems or"
    " nsight-systems-cli), or from https://developer.nvidia.com/nsight-systems; "
    "`traceanalyzer collect torch` needs no nsys"
)


def scrub(path: Path) -> None:
    """Rewrite the export in place without environment, arguments, output, processes and paths."""
    with rewritten(path) as database:
        for table in filterfalse(KEPT_TABLES.fullmatch, table_names(database)):
            database.execute(f'DROP TABLE "{table}"')
        for view in table_names(database, "view"):
            database.execute(f'DROP VIEW "{view}"')
        for table in METADATA:
            if {"name", "value"} <= columns(database, table):
                names = database.execute(f'SELECT DISTINCT name FROM "{table}"')  # noqa: S608
                gone = [(name,) for (name,) in names if not (name and KEPT_KEYS.fullmatch(name))]
                database.executemany(f'DELETE FROM "{table}" WHERE name IS ?', gone)  # noqa: S608
        _drop_threads_without_events(database)
        _drop_strings_without_a_name(database)
        for table, texts in FREE_TEXT.items():
            for column in set(texts) & columns(database, table):
                shorter = f'UPDATE "{table}" SET "{column}" = without_paths("{column}")'  # noqa: S608
                database.execute(f"{shorter} WHERE \"{column}\" GLOB '*[/\\]*'")


@contextmanager
def rewritten(path: Path) -> Iterator[sqlite3.Connection]:
    """A database that is changed in place, with `without_paths` as a function of its SQL."""
    with closing(sqlite3.connect(path)) as database:
        database.create_function("without_paths", 1, without_paths, deterministic=True)
        yield database
        database.commit()
        # deleted rows stay readable in the file until it is rewritten
        database.execute("VACUUM")


def without_paths(text: Any) -> Any:
    """The text with each path cut to its last component."""
    if not isinstance(text, str):
        return text
    shorter = UNIX_PATH.sub(lambda found: _last(found[0].rstrip("/"), "/"), text)
    return WINDOWS_PATH.sub(lambda found: _last(found[0], "\\"), shorter)


def _last(path: str, separator: str) -> str:
    return path.rpartition(separator)[2]


def table_names(database: sqlite3.Connection, kind: str = "table") -> list[str]:
    """Names of the database's tables, or of its views."""
    query = "SELECT name FROM sqlite_master WHERE type = ? AND name NOT LIKE 'sqlite@_%' ESCAPE '@'"
    return [name for (name,) in database.execute(query, (kind,))]


def columns(database: sqlite3.Connection, table: str) -> set[str]:
    """Names of a table's columns."""
    return {row[1] for row in database.execute(f'PRAGMA table_info("{table}")')}


def _drop_threads_without_events(database: sqlite3.Connection) -> None:
    """nsys lists the threads of all processes of the machine."""
    if "globalTid" not in columns(database, "ThreadNames"):
        return
    with_threads = (
        table
        for table in table_names(database)
        if table != "ThreadNames" and "globalTid" in columns(database, table)
    )
    seen = " UNION ".join(
        f'SELECT globalTid FROM "{table}" WHERE globalTid IS NOT NULL'  # noqa: S608
        for table in with_threads
    )
    query = f"DELETE FROM ThreadNames WHERE globalTid NOT IN ({seen or 'SELECT 0'})"  # noqa: S608
    database.execute(query)


def _drop_strings_without_a_name(database: sqlite3.Connection) -> None:
    if "id" not in columns(database, "StringIds"):
        return
    used = " UNION ".join(
        f'SELECT "{column}" FROM "{table}" WHERE typeof("{column}") = \'integer\''  # noqa: S608
        for table in table_names(database)
        if table != "StringIds" and not table.startswith("ENUM_")
        for column in sorted(columns(database, table) & NAME_COLUMNS)
    )
    database.execute(f"DELETE FROM StringIds WHERE id NOT IN ({used or 'SELECT 0'})")  # noqa: S608


@dataclass(frozen=True)
class NsysOptions:
    """What nsys records beside the device and its API calls."""

    whole_run: bool = False  # record from start to end, also a program without PyTorch
    sample_cpu: bool = False
    memory: bool = False
    # keep the `.nsys-rep`, which holds the environment, arguments and output of the command
    keep_report: bool = False
    gpu_metrics: bool = False  # sample the GPUs' counters; the driver may ask for root
    # record calls of the operating system: what the host reads and waits for
    os_calls: bool = False
    # of a whole run, which nothing of ours is inside of: nsys has PyTorch name its operators
    operators: bool = False


def profile_command(
    nsys: str, work: Path, options: NsysOptions, command: Sequence[str]
) -> list[str]:
    """The command line that runs the command under nsys."""
    flags = {
        "trace": f"{TRACED},osrt" if options.os_calls else TRACED,
        "cuda-graph-trace": "node",
        "sample": "process-tree" if options.sample_cpu else "none",
        "cpuctxsw": "process-tree" if options.sample_cpu else "none",
        "output": str(work / REPORT.removesuffix(SUFFIX)),
        "force-overwrite": "true",
    }
    if not options.whole_run:
        # the default would end the command with the capture; a training may follow an evaluation
        flags |= {"capture-range": "cudaProfilerApi", "capture-range-end": "repeat"}
    if options.gpu_metrics:
        flags["gpu-metrics-devices"] = "all"
    if options.memory:
        flags["cuda-memory-usage"] = "true"
    if options.whole_run and options.operators and knows_pytorch(nsys):
        flags["pytorch"] = "autograd-shapes-nvtx"
    return [nsys, "profile", *(f"--{name}={value}" for name, value in flags.items()), *command]


def knows_pytorch(nsys: str) -> bool:
    """Whether this nsys can have PyTorch name its operators, as newer ones can."""
    try:
        printed = subprocess.run(  # noqa: S603
            [nsys, "profile", "--help"], capture_output=True, timeout=HELP_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return b"--pytorch" in printed.stdout and b"autograd-shapes-nvtx" in printed.stdout


def finish(nsys: str, work: Path, options: NsysOptions, folder: Path) -> str | None:
    """Export and scrub the report, if the run left one. What went wrong, or None."""
    reports = sorted(work.glob(f"*{SUFFIX}"), key=lambda report: report.stat().st_mtime_ns)
    if not reports:
        return "nsys left no report: the chosen steps were not reached, or it could not start"
    exported = [export for export in (_export(nsys, report) for report in reports) if export]
    # of an evaluation and the training after it the latter, where as many of its steps are there
    chosen = max(reversed(exported), key=_marked_steps, default=None)
    kept = "--keep-report keeps the report"
    if options.keep_report:
        report = chosen.with_suffix(SUFFIX) if chosen else reports[-1]
        kept = f"the report is {report.replace(folder / REPORT)}"
    if chosen is None:
        return f"nsys export failed; {kept}"
    scrub(chosen)
    chosen.replace(folder / EXPORT)
    return None


def _export(nsys: str, report: Path) -> Path | None:
    """The report as SQLite beside it; None where nsys fails."""
    exported = report.with_suffix(".sqlite")
    # without the blobs NCCL's NVTX ranges lose their message sizes
    flags = (
        "--type=sqlite",
        "--include-blobs=true",
        "--force-overwrite=true",
        f"--output={exported}",
    )
    done = subprocess.run(  # noqa: S603
        [nsys, "export", *flags, str(report)], capture_output=True, text=True, check=False
    )
    return exported if exported.exists() and not done.returncode else None


def _marked_steps(exported: Path) -> int:
    """Ranges that the collector made of steps."""
    with closing(sqlite3.connect(exported)) as database:
        if "text" not in columns(database, "NVTX_EVENTS"):
            return 0
        query = "SELECT count(*) FROM NVTX_EVENTS WHERE text GLOB 'step [0-9]*'"
        return int(database.execute(query).fetchone()[0])
