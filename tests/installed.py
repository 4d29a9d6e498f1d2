"""Runs commands that the documentation shows with the package that is installed where this file runs, in a folder of
its own: what a wheel leaves out, and what needs an extra without saying so, fails here alone.

    python -P tests/installed.py

A command may end with one line that names the extra it needs.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from click.testing import CliRunner

import traceanalyzer
from traceanalyzer.cli import cli

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    "README.md",
    "AGENTS.md",
    "docs/**/*.md",
    "skill/*.md",
    "traceanalyzer/diagnosis/findings/*.md",
)
INPUTS = ("sample_traces", "tests", "benchmarks", "docs")
SHOWN = re.compile(r"^\$ traceanalyzer (.+)$", re.MULTILINE)
FINE = (0, 3)
"""Exit status of an answer, and of a limit that does not hold."""


def commands() -> list[str]:
    """The commands that pages show with their output, each once."""
    pages = (path for pattern in PAGES for path in sorted(ROOT.glob(pattern)))
    texts = (path.read_text(encoding="utf-8") for path in pages)
    return list(dict.fromkeys(command for text in texts for command in SHOWN.findall(text)))


def _why(command: str) -> str:
    """The line that a command ends with."""
    again = [sys.executable, "-P", "-m", "traceanalyzer", *shlex.split(command, comments=True)]
    ended = subprocess.run(again, capture_output=True, text=True, check=False)
    return ended.stderr.strip().rpartition("\n")[2]


def failures() -> int:
    """How many commands failed."""
    if Path(traceanalyzer.__file__).is_relative_to(ROOT):
        print("run it with python -P where the package is installed", file=sys.stderr)
        return 1
    began = time.monotonic()
    chosen = commands()
    failed = []
    needing = []
    with tempfile.TemporaryDirectory() as folder:
        for name in INPUTS:
            (Path(folder) / name).symlink_to(ROOT / name)
        os.chdir(folder)
        for command in chosen:
            result = CliRunner().invoke(cli, shlex.split(command, comments=True))
            if result.exit_code in FINE:
                continue
            why = _why(command)
            (needing if "pip install" in why else failed).append(f"{command}: {why}")
        os.chdir(ROOT)
    print(f"{len(chosen)} commands of the documentation, {time.monotonic() - began:.0f} s")
    print("\n".join([*(f"needs an extra: {one}" for one in needing), *failed]))
    return len(failed)


if __name__ == "__main__":
    sys.exit(min(failures(), 1))
