"""Runs a command under an installed rocprofv3 (AMD), and leaves databases that can be shown to
others.

Traced are kernels, copies, HIP's calls, RCCL and ROCTx, from start to end: rocprofv3 cannot be
switched on and off by every program. What it writes holds the whole environment: it goes to a
folder of its own, of which the scrubbed databases alone stay."""

from collections.abc import Sequence
from pathlib import Path
from sqlite3 import Connection

from traceanalyzer.collect.profilers.nsys import columns, rewritten, table_names

TRACED = ("--hip-trace", "--kernel-trace", "--memory-copy-trace", "--marker-trace", "--rccl-trace")
MISSING = (
    "rocprofv3 is not installed (or not on PATH): it comes with ROCm 7 and later (package rocprofiler-sdk); "
    "`traceanalyzer collect torch` needs no rocprofv3"
)
EVERY_STEP = 1_000_000  # steps that are marked: all of them
# what stays of columns that tell of the machine; strings have to stay unlike each other
_EMPTIED = {
    "rocpd_info_process": {"environment": "'{}'", "extdata": "'{}'", "command": "program(command)"},
    "rocpd_info_node": {"hostname": "''", "domain_name": "''", "machine_id": "id"},
    "rocpd_info_code_object": {"uri": "without_paths(uri)", "extdata": "'{}'"},
    "rocpd_event": {"extdata": "without_paths(extdata)", "call_stack": "'{}'", "line_info": "'{}'"},
    "rocpd_string": {
        "string": "CASE WHEN string GLOB '*[/\\]*[/\\]*' THEN without_paths(string) || ' #' || id "
        "ELSE string END"
    },
}
_ARGUMENTS = "rocpd_arg"  # arguments of calls: addresses, and texts of the program's


def profile_command(program: str, work: Path, _: None, command: Sequence[str]) -> list[str]:
    """The command line that runs the command under rocprofv3; each of its processes writes a
    database."""
    place = ("--output-format", "rocpd", "-d", str(work), "-o", "%pid%")
    return [program, *TRACED, *place, "--", *command]


def finish(_program: str, work: Path, _: None, folder: Path) -> str | None:
    """Scrub the databases and keep those with GPU work. What went wrong, or None."""
    databases = sorted(work.rglob("*.db"))
    kept = [file for file in databases if scrub(file)] or databases[:1]
    for file in kept:
        file.replace(
            folder / f"rocprofv3.{file.name.removesuffix('.db').removesuffix('_results')}.db"
        )
    return (
        None if kept else "rocprofv3 left no database: it could not start, or is older than ROCm 7"
    )


def _program(command: object) -> str:
    """The program's name of a command line."""
    program = str(command or "").split(" ")[0]
    return program.rsplit("/", 1)[-1]


def scrub(path: Path) -> bool:
    """Rewrite the database in place without environment, arguments, host and paths. Whether it
    holds kernels."""
    with rewritten(path) as database:
        database.create_function("program", 1, _program)
        kernels = 0
        for table in table_names(database):
            if table.startswith(_ARGUMENTS):
                database.execute(f'DELETE FROM "{table}"')  # noqa: S608 names are the file's own
            if table.startswith("rocpd_kernel_dispatch"):
                kernels += database.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]  # noqa: S608
            for prefix, emptied in _EMPTIED.items():
                if table.startswith(prefix):
                    _empty(database, table, emptied)
    return kernels > 0


def _empty(database: Connection, table: str, emptied: dict[str, str]) -> None:
    """Set the columns of a table, those that it has, to these expressions."""
    present = columns(database, table)
    changed = [f'"{name}" = {value}' for name, value in emptied.items() if name in present]
    if changed:
        database.execute(f'UPDATE "{table}" SET {", ".join(changed)}')  # noqa: S608
