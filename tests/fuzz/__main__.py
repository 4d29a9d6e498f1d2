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
from multiprocessing import Process
from pathlib import Path

from tests.fuzz.guard import ANSWERS, STUCK_S, Find, in_a_fork, served
from tests.fuzz.kinds import KINDS, Kind
from tests.fuzz.minimise import SECONDS, minimised
from tests.fuzz.use import COSTS, lacking

MEMORY = Path("/dev/shm")  # noqa: S108 a folder of its own in it
COUNTED = ("cases", *ANSWERS, "finds", *COSTS, "cpu_s")
LONGEST_S = SECONDS + STUCK_S
"""To make a find small."""


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
            _say(f"{kind.name}: left out, {kind.lacks} is not installed")
    left_out = sum(bool(lacking(command)) for kind in _kinds(asked) for command in kind.commands)
    if left_out:
        _say(f"{left_out} commands are left out for modules that are not installed")
    seeds = range(asked.seed, asked.seed + asked.jobs)
    finds = _in_jobs(asked, seeds)
    _sum_up([json.loads(state.read_text()) for state in _states(asked, seeds)])
    return finds


def _in_jobs(asked: argparse.Namespace, seeds: range) -> int:
    """The new finds of a process for each seed; one that ends otherwise is one, and the others go
    on."""
    jobs = [Process(target=_job, args=(asked, seed)) for seed in seeds]
    for job in jobs:
        job.start()
    finds = 0
    for seed, job in zip(seeds, jobs, strict=True):
        job.join()
        if job.exitcode:
            _say(f"seed {seed}: ended with {job.exitcode}")
            finds += 1
    return finds


def _job(asked: argparse.Namespace, seed: int) -> None:
    sys.exit(1 if _fuzz(asked, seed) else 0)


def _fuzz(asked: argparse.Namespace, seed: int) -> int:
    kinds = [kind for kind in _kinds(asked) if not kind.lacks]
    folder = _folder(asked)
    folder.mkdir(parents=True, exist_ok=True)
    place = _quick_place(folder)
    with tempfile.TemporaryDirectory(prefix=f"seed-{seed}-", dir=place) as work:
        tempfile.tempdir = work  # also of what valid inputs are written to
        return _fuzz_kinds(asked, seed, kinds, folder, Path(work))


def _folder(asked: argparse.Namespace) -> Path:
    return asked.folder or Path(tempfile.gettempdir()) / "traceanalyzer-fuzz"


def _states(asked: argparse.Namespace, seeds: range) -> list[Path]:
    states = [_folder(asked) / f"state-{seed}.json" for seed in seeds]
    return [state for state in states if state.exists()]


def _kinds(asked: argparse.Namespace) -> list[Kind]:
    return [KINDS[name] for name in asked.kind or KINDS]


def _quick_place(folder: Path) -> Path:
    """Where a case writes its files: in memory where that can be, else below the folder."""
    return MEMORY if os.access(MEMORY, os.W_OK) else folder


def _fuzz_kinds(
    asked: argparse.Namespace, seed: int, kinds: list[Kind], folder: Path, work: Path
) -> int:
    state = folder / f"state-{seed}.json"
    done: dict[str, dict[str, float]] = (
        json.loads(state.read_text()) if state.exists() and not asked.fresh else {}
    )
    finds = 0
    ends = time.monotonic() + asked.minutes * 60
    left = {kind.name: asked.cases for kind in kinds}
    warm: set[str] = set()
    while time.monotonic() < ends and any(left.values()):
        for kind in kinds:
            count = done.setdefault(kind.name, dict.fromkeys(COUNTED, 0))
            if kind.name not in warm:  # once, for all that are forked
                kind.warm(work)
                warm.add(kind.name)
            turn_ends = min(time.monotonic() + asked.turn, ends)
            before = _cpu_s()
            while time.monotonic() < turn_ends and left[kind.name]:
                for found in served(kind, seed, int(count["cases"]), work, turn_ends):
                    count["cases"] += 1
                    left[kind.name] = max(left[kind.name] - 1, 0) if asked.cases >= 0 else -1
                    if isinstance(found, Find):
                        count["finds"] += 1
                        finds += _kept(found, kind, folder, work)
                    else:
                        count[found.how] += 1
                        count[found.by] += 1
            count["cpu_s"] += _cpu_s() - before
            state.write_text(json.dumps(done))
    return finds


def _cpu_s() -> float:
    """CPU time of all processes that this one has waited for."""
    took = resource.getrusage(resource.RUSAGE_CHILDREN)
    return took.ru_utime + took.ru_stime


def _sum_up(states: list[dict[str, dict[str, float]]]) -> None:
    """A line for each kind of input, over all seeds, and their sum."""
    total = dict.fromkeys(COUNTED, 0.0)
    for name in KINDS:
        counts = [state[name] for state in states if name in state]
        summed = {what: sum(count[what] for count in counts) for what in COUNTED}
        for what in COUNTED:
            total[what] += summed[what]
        if summed["cases"]:
            _say(f"{name:15} {_told(summed)}")
    _say(f"{'all':15} {_told(total)}")


def _told(count: dict[str, float]) -> str:
    cases = max(count["cases"], 1)
    parts = [f"{what} {count[what] / cases:4.0%}" for what in ("accepted", *COSTS)]
    rate = count["cases"] / max(count["cpu_s"], 1e-9)
    return (
        f"{count['cases']:9,.0f} cases  {rate:5.0f} a second of CPU time  {'  '.join(parts)}  "
        f"finds {count['finds']:.0f}"
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _kept(found: Find, kind: Kind, folder: Path, work: Path) -> int:
    """Write the find, minimised, unless the same place was found before; 1 if it is new."""
    place = f"find-{kind.name}-{found.name}"
    if any(folder.glob(f"{glob.escape(place)}.*")):
        return 0
    path = folder / f"{place}.{kind.commands[found.command][0]}"
    smaller = in_a_fork(lambda: minimised(found, kind, work), work / "small", LONGEST_S)
    path.write_bytes(found.data if smaller is None else smaller)
    path.with_name(f"{path.name}.txt").write_text(
        f"seed {found.seed} case {found.number}\n{found.why}\n"
    )
    _say(f"{path}: {found.why.splitlines()[-1]}")
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
