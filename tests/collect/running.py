"""Runs `traceanalyzer collect` on the small scripts beside this file."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "scripts"
SMALL = ("--wait", "2", "--unprofiled-steps", "5", "--warmup", "1", "--active", "2")
"""A recording of ten steps, or of up to twenty while they are not steady."""
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
HANGS_S = 300
"""What has not ended by then hangs; a busy machine imports PyTorch in half a minute."""


def collect_command(*arguments: object) -> list[str]:
    code = "from traceanalyzer.cli import main; main()"
    return [sys.executable, "-c", code, "collect", *map(str, arguments)]


def collect(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = collect_command(*arguments)
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        env=ONE_THREAD | environment,
        check=False,
    )


def standing_in(program: str, folder: Path) -> tuple[dict[str, str], Path]:
    """Environment in which `program` is `stand_in_PROGRAM.py` beside this file, and the file of its
    calls."""
    programs = folder / "bin"
    log = folder / "calls"
    programs.mkdir()
    made = programs / program
    made.write_text(
        f'#!/bin/sh\nPYTHONPATH="{ROOT}:$PYTHONPATH" exec {sys.executable} -m tests.collect.stand_in_{program} "$@"\n'
    )
    made.chmod(0o755)
    return {"PATH": f"{programs}:{os.environ['PATH']}", "STAND_IN_LOG": str(log)}, log


@contextmanager
def running(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """`collect` in the background; what is left of it is killed at the end."""
    command = collect_command(*arguments)
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ONE_THREAD,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def trace_events(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path) as file:
        return json.load(file)["traceEvents"]


def recorded_steps(path: Path) -> int:
    return sum(
        event.get("ph") == "X" and event.get("name", "").startswith("ProfilerStep#")
        for event in trace_events(path)
    )


def alive(marker: str) -> list[str]:
    """Command lines of running processes that mention the marker."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if marker in text and int(file.parent.name) != os.getpid():
            found.append(text)
    return found
