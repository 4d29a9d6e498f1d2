"""`python -m tests.hostile.kills --times 200`: ends the program by SIGKILL at moments spread over reading, analysis and
writing, and looks at what is left: every file whole, as it was or as it was to be; nothing else that is believed later.

The moments are calls: of all that the program calls, every so many; and of those that write, each in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path

RECORDING = Path(__file__).resolve().parents[2] / "sample_traces" / "sync_bound" / "trace.rank0.json.gz"
WRITING = (
    "write writelines replace rename fsync flush open close chmod mkdir unlink utime execute "
    "executemany executescript commit"
)
"""Calls of C functions by whatever of these names."""
KILLED = """
import os, signal, sys
names, number, of = set(sys.argv[1].split()), int(sys.argv[2]), sys.argv[3]
count = 0
def seen(frame, event, what):
    global count
    if event == ("c_call" if names else "call") and (not names or what.__name__ in names):
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
from traceanalyzer.cli import main
from traceanalyzer.ingest.cache import identity
identity.LEAST_BYTES = identity.LEAST_PACKED_BYTES = 0
identity.SETTLED_S = -1
sys.setprofile(seen)
try:
    main(sys.argv[4:])
finally:
    sys.setprofile(None)
    open(of, "w").write(str(count))
"""


def run(folder: Path, names: str, number: int) -> tuple[int, int]:
    """The exit status, and how many such calls there were where it came to its end."""
    counted = folder / "counted"
    counted.unlink(missing_ok=True)
    asked = ["analyze", "trace.json.gz", "-o", "report.json", "--store", "runs.db", "--jobs", "1"]
    command = [sys.executable, "-c", KILLED, names, str(number), str(counted), *asked]
    environment = {**os.environ, "TRACEANALYZER_CACHE": str(folder / "cache"), "TMPDIR": str(folder)}
    status = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False).returncode
    return status, int(counted.read_text()) if counted.exists() else 0


def broken(folder: Path, before: bytes, runs: int) -> list[str]:
    """What is wrong with what was left behind by a program that was killed."""
    found = []
    left = (folder / "report.json").read_bytes()
    if left != before:
        try:
            json.loads(left)
        except ValueError:
            found.append("the report is half written")
    with closing(sqlite3.connect(folder / "runs.db")) as db:
        if db.execute("PRAGMA integrity_check").fetchone() != ("ok",):
            found.append("the history is damaged")
        if db.execute("SELECT count(*) FROM runs").fetchone()[0] not in (runs, runs + 1):
            found.append("the history has lost runs, or has half of one")
    if (folder / "trace.json.gz").read_bytes() != RECORDING.read_bytes():
        found.append("the recording was changed")
    return found


def killed(times: int) -> tuple[Counter[str], list[str]]:
    """Where so many kills fell (before the end, in the writing, after it), and what they broke."""
    fell: Counter[str] = Counter()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(RECORDING, folder / "trace.json.gz")
        calls = {names: run(folder, names, -1)[1] for names in ("", WRITING)}
        for i in range(times):
            names = "" if i % 2 else WRITING
            before = (folder / "report.json").read_bytes()
            with closing(sqlite3.connect(folder / "runs.db")) as db:
                runs = db.execute("SELECT count(*) FROM runs").fetchone()[0]
            shutil.rmtree(folder / "cache", ignore_errors=True)
            status, _ = run(folder, names, 1 + i * calls[names] // times)
            fell["killed" if status < 0 else "ended first"] += 1
            fell["at a call that writes" if names else "at any call"] += 1
            wrong += [f"{number_of(i, times)}: {what}" for what in broken(folder, before, runs)]
            if i % 10 == 9 and run(folder, "", -1)[0]:  # with whatever the kills left in the cache
                wrong.append(f"{number_of(i, times)}: the next run fails")
    return fell, wrong


def number_of(i: int, times: int) -> str:
    """Which kill it was."""
    return f"kill {i + 1} of {times}"


def main() -> int:
    """Kill it so many times; whether something broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.kills")
    parser.add_argument("--times", type=int, default=200)
    fell, wrong = killed(parser.parse_args().times)
    sys.stdout.write("\n".join([*(f"{what}: {n}" for what, n in fell.items()), *wrong, f"{len(wrong)} broken\n"]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
