"""Other programs, each in an environment of its own, made on first use: what they do with the same
files."""

import json
import shutil
import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path

from benchmarks.measured import MB, Cost, available_mb, measure

HERE = Path(__file__).parent
ORJSON_RATIO = 9
"""Bytes of memory that `orjson.loads` takes for each of the file, about."""
HTA_RATIO = 7
"""The same of HTA."""
NSYS_AI_RATIO = 130
"""Of `nsys-ai diagnose` without DuckDB."""
_ORJSON = "import orjson, sys; orjson.loads(open(sys.argv[1], 'rb').read())"


def environment(folder: Path, *requirements: str) -> Path | None:
    """The programs of an environment with these packages, made once; None where they cannot be
    installed."""
    ready = folder / "ready"
    if not ready.exists():
        venv.create(folder, with_pip=True, clear=True)
        command = [str(folder / "bin" / "python"), "-m", "pip", "install", "-qq", *requirements]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(
                f"{' '.join(requirements)} cannot be installed: {done.stderr.strip().splitlines()[-1:]}"
            )
            return None
        ready.touch()
    return folder / "bin"


def decode(path: Path) -> Cost | None:
    """What `orjson.loads` takes for the text alone; None where there is not enough memory for
    it."""
    if path.stat().st_size / MB * ORJSON_RATIO > available_mb():
        return None
    return measure([sys.executable, "-c", _ORJSON, str(path)])


def hta(folder: Path, path: Path) -> tuple[Cost, str] | None:
    """HTA's load, temporal and idle breakdown, and which stages failed and when; None where it
    cannot be run."""
    programs = environment(folder / "hta", "HolisticTraceAnalysis")
    if programs is None or path.stat().st_size / MB * HTA_RATIO > available_mb():
        return None
    cost = measure([str(programs / "python"), str(HERE / "hta_breakdown.py"), str(path)])
    if cost.status:
        return cost, cost.outcome
    result = json.loads(cost.output.strip().splitlines()[-1])
    stages = (
        f"{name} {'failed (' + result['failed'][name] + ')' if name in result['failed'] else 'done'} at {at:.1f} s"
        for name, at in result["ended"].items()
    )
    return cost, f"HTA {result['version']}: {', '.join(stages)}"


def nsys_ai(folder: Path, path: Path, *words: str) -> tuple[Cost, str] | None:
    """A question to nsys-ai about a copy of an export: it writes indexes into the file that it is
    given, a folder beside it, and one where it is run. None where it cannot be run."""
    programs = environment(folder / "nsys-ai", "nsys-ai")
    if programs is None or (
        words[0] == "diagnose" and path.stat().st_size / MB * NSYS_AI_RATIO > available_mb()
    ):
        return None
    beside = folder / "nsys-ai.copy"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    copy = Path(shutil.copy(path, beside / "export.sqlite"))
    cost = measure([str(programs / "nsys-ai"), words[0], str(copy), *words[1:]], folder=beside)
    shutil.rmtree(beside)
    slow = (
        "; without DuckDB: its extension could not be loaded, for which it waits"
        if "DuckDB unavailable" in cost.error
        else ""
    )
    return replace(cost, output=""), cost.outcome + slow
