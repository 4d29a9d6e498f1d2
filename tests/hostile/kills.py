"""`python -m tests.hostile.kills --times 200`: ends commands by SIGKILL at moments spread over
reading, analysis and writing, and looks at what is left: every file whole, as it was or as it was
to be; nothing else that is believed later.

    python -m tests.hostile.kills --times 200 --jobs 16            # each command at 200 moments
    python -m tests.hostile.kills --times 50 --signal INT export   # after an interrupt no other file is left, either

The moments are calls: of all that the program calls, every so many; and of those that write, each
in turn.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path

from tests.fleet.build import write_job
from tests.history.days.logs import write_logs

RECORDING = (
    Path(__file__).resolve().parents[2] / "sample_traces" / "sync_bound" / "trace.rank0.json.gz"
)
COMMANDS = {
    "analyze": "analyze in/trace.json.gz -o out/report.json --store out/runs.db --jobs 1",
    "digest": "digest in/job -o out/digests --jobs 1",
    "fleet": "fleet in/job --digests out/digests -o out/fleet.json --jobs 1",
    "days": "fleet in/rank0.jsonl in/rank1.jsonl --timing out/store --run a -o out/days.json",
    "export": "export in/trace.json.gz -o out/tables.sqlite --jobs 1",
    "history": "history out/runs.db -o out/history.html",
}
"""`out` is what they made before: they write it again."""
Fell = tuple[Counter[str], list[str]]
WRITING = (
    "write writelines replace rename fsync flush open close chmod mkdir unlink utime execute "
    "executemany executescript commit write_table"
)
"""Calls of C functions by whatever of these names."""
KILLED = """
import os, signal, sys
names, number, by, of = set(sys.argv[1].split()), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
count = 0
def seen(frame, event, what):
    global count
    if event == ("c_call" if names else "call") and (not names or what.__name__ in names):
        count += 1
        if count == number:
            os.kill(os.getpid(), by)
from traceanalyzer.cli import main
from traceanalyzer.ingest.cache import identity
identity.LEAST_BYTES = identity.LEAST_PACKED_BYTES = 0
identity.SETTLED_S = -1
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it
sys.setprofile(seen)
try:
    main(sys.argv[5:])
finally:
    sys.setprofile(None)
    open(of, "w").write(str(count))
"""


def run(
    folder: Path, command: str, names: str, number: int, by: int = signal.SIGKILL
) -> tuple[int, int]:
    """The exit status, and how many such calls there were where it came to its end."""
    counted = folder / "counted"
    counted.unlink(missing_ok=True)
    words = [
        sys.executable,
        "-c",
        KILLED,
        names,
        str(number),
        str(by),
        str(counted),
        *COMMANDS[command].split(),
    ]
    environment = {
        **os.environ,
        "TRACEANALYZER_CACHE": str(folder / "cache"),
        "TMPDIR": str(folder / "tmp"),
    }
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, check=False)
    return done.returncode, int(counted.read_text()) if counted.exists() else 0


def prepared(folder: Path, command: str) -> dict[str, int]:
    """What commands read, and what they made; how many calls a command has, of each kind."""
    given = folder / "in"
    for place in (given, folder / "out", folder / "tmp"):
        place.mkdir()
    shutil.copy(RECORDING, given / "trace.json.gz")
    write_job(given / "job", {2: 300}, 3)
    for log in write_logs(given / "logs", 80, 2):
        log.rename(given / log.name)
    if command == "history":
        run(folder, "analyze", "", -1)
    return {names: run(folder, command, names, -1)[1] for names in ("", WRITING)}


def contents(folder: Path) -> dict[str, str]:
    """The files below, each with a number for its content."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def broken(folder: Path, made: set[str], runs: int, by: int) -> list[str]:
    """What is wrong with what was left behind by a program that was ended; `made` are the files of
    one that was not."""
    found = []
    for name in contents(folder / "out"):
        path = folder / "out" / name
        if name not in made and not name.endswith(".parquet"):
            found += [f"{name} was left"] if by != signal.SIGKILL else []
            continue
        try:
            _check_whole(path, runs)
        except (ValueError, OSError, sqlite3.Error) as error:
            found.append(f"{name} is not whole: {error}")
    left = [path.name for path in (folder / "tmp").iterdir()] if by != signal.SIGKILL else []
    return [*found, *(f"{name} was left in the folder for temporary files" for name in left)]


def _check_whole(path: Path, runs: int) -> None:
    if path.suffix == ".json":
        json.loads(path.read_bytes())
    elif path.suffix == ".html" and not path.read_text().rstrip().endswith("</html>"):
        raise ValueError("the page has no end")
    elif path.suffix == ".parquet":
        from pyarrow import parquet

        parquet.read_table(path)
    elif path.suffix in (".db", ".sqlite"):
        with closing(sqlite3.connect(path)) as db:
            if db.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                raise ValueError("the database is damaged")
            if path.suffix == ".db" and db.execute("SELECT count(*) FROM runs").fetchone()[
                0
            ] not in (runs, runs + 1):
                raise ValueError("it has lost runs, or has half of one")
            if path.suffix == ".sqlite":
                db.execute("SELECT count(*) FROM wait_events").fetchone()


def runs_in(folder: Path) -> int:
    """Runs of the history, 0 where there is none."""
    path = folder / "out" / "runs.db"
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("SELECT count(*) FROM runs").fetchone()[0])


def killed(
    times: int, command: str = "analyze", by: int = signal.SIGKILL, part: int = 0, parts: int = 1
) -> Fell:
    """Where so many kills fell (before the end, in the writing, after it), and what they broke; of
    a part of them."""
    fell: Counter[str] = Counter()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        calls = prepared(folder, command)
        assert all(calls.values()), f"{command} did not come to its end"
        given = contents(folder / "in")
        made = set(contents(folder / "out"))
        for i in range(times * part // parts, times * (part + 1) // parts):
            names = "" if i % 2 else WRITING
            runs = runs_in(folder)
            shutil.rmtree(folder / "cache", ignore_errors=True)
            if i % 4 > 1:  # digests and days that are there are not made again
                for old in ("digests", "store"):
                    shutil.rmtree(folder / "out" / old, ignore_errors=True)
            status, _ = run(folder, command, names, 1 + i * calls[names] // times, by)
            fell["ended first" if status == 0 else "killed"] += 1
            fell["at a call that writes" if names else "at any call"] += 1
            wrong += [
                f"{command}, kill {i + 1} of {times}: {what}"
                for what in broken(folder, made, runs, by)
            ]
            if (
                i % 10 == 9 and run(folder, command, "", -1)[0]
            ):  # with whatever the kills left in the cache
                wrong.append(f"{command}, kill {i + 1} of {times}: the next run fails")
        if contents(folder / "in") != given:
            wrong.append(f"{command}: what it read was changed")
    return fell, wrong


def main() -> int:
    """End the commands so many times each; whether something broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.kills")
    parser.add_argument(
        "commands", nargs="*", metavar="COMMAND", help=f"of {', '.join(COMMANDS)}; default: all"
    )
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--signal", default="KILL", help="KILL, INT or TERM")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    commands = asked.commands or [*COMMANDS]
    by = int(signal.Signals[f"SIG{asked.signal}"])
    wrong = []
    parts = max(asked.jobs // len(commands), 1)
    with ProcessPoolExecutor(asked.jobs) as pool:
        begun = {
            command: [
                pool.submit(killed, asked.times, command, by, part, parts) for part in range(parts)
            ]
            for command in commands
        }
        for command, some in begun.items():
            results = [one.result() for one in some]
            fell = sum((counted for counted, _ in results), Counter[str]())
            sys.stdout.write(f"{command}: {', '.join(f'{what} {n}' for what, n in fell.items())}\n")
            sys.stdout.flush()
            wrong += [text for _, found in results for text in found]
    sys.stdout.write("\n".join([*wrong, f"{len(wrong)} broken\n"]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
