"""`python -m tests.fuzz`: mutate inputs of every kind, read and analyse them, and keep what breaks.

    python -m tests.fuzz --minutes 2                  # all kinds, from the state of the last run on
    python -m tests.fuzz --kind nsys --seed 7 --cases 1000
    python -m tests.fuzz --minutes 8 --jobs 16        # seeds 1 to 16, a process each
    python -m tests.fuzz --replay FOLDER/find-...     # one find again, with its traceback

Case n of a kind depends on the seed and n alone. The state (how many cases each kind has had) and
the finds, each minimised, lie in --folder; an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from tests.fuzz.guard import Find, served
from tests.fuzz.kinds import KINDS, Kind
from tests.fuzz.minimise import minimised

MEMORY = Path("/dev/shm")  # noqa: S108 a folder of its own in it


def main() -> int:
    """Fuzz until the time is up; the number of finds."""
    asked = _arguments()
    if asked.replay:
        kind = KINDS[asked.replay.name.split("-")[1]]
        with tempfile.TemporaryDirectory() as name:
            for number in kind.numbers(asked.replay.suffix[1:]):
                kind.use(asked.replay.read_bytes(), Path(name), number)
        return 0
    for kind in _kinds(asked):
        if kind.lacks:
            sys.stdout.write(f"{kind.name}: left out, {kind.lacks} is not installed\n")
    sys.stdout.flush()
    if asked.jobs == 1:
        return _fuzz(asked, asked.seed)
    with ProcessPoolExecutor(asked.jobs) as pool:
        return sum(pool.map(partial(_fuzz, asked), range(asked.seed, asked.seed + asked.jobs)))


def _fuzz(asked: argparse.Namespace, seed: int) -> int:
    kinds = [kind for kind in _kinds(asked) if not kind.lacks]
    folder: Path = asked.folder or Path(tempfile.gettempdir()) / "traceanalyzer-fuzz"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"seed-{seed}-", dir=_quick_place(folder)) as work:
        return _fuzz_kinds(asked, seed, kinds, folder, Path(work))


def _kinds(asked: argparse.Namespace) -> list[Kind]:
    return [KINDS[name] for name in asked.kind or KINDS]


def _quick_place(folder: Path) -> Path:
    """Where a case writes its files: in memory where that can be, else below the folder."""
    return MEMORY if os.access(MEMORY, os.W_OK) else folder


def _fuzz_kinds(
    asked: argparse.Namespace, seed: int, kinds: list[Kind], folder: Path, work: Path
) -> int:
    state = folder / f"state-{seed}.json"
    done: dict[str, dict[str, int]] = (
        json.loads(state.read_text()) if state.exists() and not asked.fresh else {}
    )
    finds = 0
    fresh = not done
    ends = time.monotonic() + asked.minutes * 60
    left = {kind.name: asked.cases for kind in kinds}
    while time.monotonic() < ends and any(left.values()):
        for kind in kinds:
            count = done.setdefault(
                kind.name, {"cases": 0, "accepted": 0, "refused": 0, "finds": 0}
            )
            kind.seeds()  # once, for all that are forked
            turn_ends = min(time.monotonic() + asked.turn, ends)
            while time.monotonic() < turn_ends and left[kind.name]:
                for found in served(kind, seed, count["cases"], work, turn_ends):
                    count["cases"] += 1
                    left[kind.name] = max(left[kind.name] - 1, 0) if asked.cases >= 0 else -1
                    if isinstance(found, Find):
                        count["finds"] += 1
                        finds += _kept(found, kind, folder, work)
                    else:
                        count[found] += 1
            state.write_text(json.dumps(done))
    lines = [
        f"{name:11} " + "  ".join(f"{what} {n:,}" for what, n in count.items())
        for name, count in done.items()
    ]
    total, answered = (
        sum(count[what] for count in done.values()) for what in ("cases", "accepted")
    )
    took = resource.getrusage(resource.RUSAGE_CHILDREN)
    rate = (
        f"{total / max(took.ru_utime + took.ru_stime, 1e-9):.0f} a second of CPU time"
        if fresh
        else ""
    )
    share = (
        f"{answered / max(total, 1):.0%} were analyzed and answered, the others refused in one line"
    )
    sys.stdout.write(
        "\n".join(
            [*lines, f"{total:,} cases with seed {seed} {rate}: {share}; {finds} new finds\n"]
        )
    )
    sys.stdout.flush()
    return finds


def _kept(found: Find, kind: Kind, folder: Path, work: Path) -> int:
    """Write the find, minimised, unless the same place was found before; 1 if it is new."""
    place = f"find-{kind.name}-{found.name}"
    if any(folder.glob(f"{glob.escape(place)}.*")):
        return 0
    path = folder / f"{place}.{kind.commands[found.command][0]}"
    ended = found.why.startswith("Killed")  # smaller ones would end this process
    path.write_bytes(found.data if ended else minimised(found, kind, work))
    path.with_name(f"{path.name}.txt").write_text(
        f"seed {found.seed} case {found.number}\n{found.why}\n"
    )
    sys.stdout.write(f"{path}: {found.why.splitlines()[-1]}\n")
    sys.stdout.flush()
    return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--kind", choices=KINDS, action="append", help="only this kind; may be repeated"
    )
    parser.add_argument("--cases", type=int, default=-1, help="so many of each kind at most")
    parser.add_argument(
        "--jobs", type=int, default=1, help="so many processes, with seeds from --seed on"
    )
    parser.add_argument(
        "--turn", type=float, default=5.0, help="seconds before the next kind's turn"
    )
    parser.add_argument("--folder", type=Path, help="where state and finds lie")
    parser.add_argument("--fresh", action="store_true", help="begin with case 0 again")
    parser.add_argument("--replay", type=Path, help="a find to be tried again")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
