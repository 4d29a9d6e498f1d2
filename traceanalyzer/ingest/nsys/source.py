"""Reports of nsys (`.nsys-rep`), which the installed `nsys` exports as SQLite."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.ingest.foreign import GZIP_MAGIC, SQLITE_MAGIC

REPORT_SUFFIXES = (".nsys-rep", ".qdrep")
"""nsys's own report format has no documented magic; the name is only asked where the content is binary."""

_TEXT_BYTES = bytes(range(0x20, 0x7F)) + b"\t\n\r\f"

_EXPORT_TIMEOUT_S = 3600


def is_report(head: bytes, path: Path) -> bool:
    """Whether the file may be nsys's own report: binary of no known kind, and named like one."""
    known = head.startswith((GZIP_MAGIC, SQLITE_MAGIC))
    return not known and bool(head.translate(None, _TEXT_BYTES)) and path.name.endswith(REPORT_SUFFIXES)


def export(path: Path, target: Path) -> None:
    """Have the installed `nsys` export its report. Its output is not shown: it may quote the environment.

    Raises UnreadableInputError where it is missing or fails.
    """
    nsys = shutil.which("nsys")
    if nsys is None:
        raise UnreadableInputError(
            f"{path}: an nsys report can only be read where `nsys` is installed; run "
            f"`nsys export --type sqlite {path.name}` there and analyze the .sqlite file"
        )
    command = [nsys, "export", "--type", "sqlite", "--force-overwrite", "true", "--output", str(target)]
    for extra in (["--include-blobs", "true"], []):  # NCCL payloads, where this nsys knows the option
        if _run([*command, *extra, str(path)]) and target.exists():
            return
    raise UnreadableInputError(
        f"{path}: the installed `nsys` could not export this report; it may be older than the one that "
        "recorded it, or the report may be damaged"
    )


def _run(command: list[str]) -> bool:
    """Whether the command succeeded."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=_EXPORT_TIMEOUT_S, check=False)  # noqa: S603 no shell, and a program found on the user's own PATH
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
