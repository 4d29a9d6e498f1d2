"""A process of a pair: `python -m benchmarks.pairs.one NAME FOLDER PART...`.

PART is `base`, `fix` or a remedy's id (timed), `record` (the base), `good` (the fix, in fewer
steps) or `nsys` (the base, in a process that nsys watches). It loads everything, says so, and waits
for its turn, so that nothing else runs while it does. What it timed stands in
`FOLDER/NAME.PART.rankN.json` then, what it recorded in `FOLDER/captures/NAME`, `NAME.fixed` and
`NAME.nsys`.
"""

import gc
import importlib
import json
import os
import sys
import time
import traceback
from contextlib import nullcontext, suppress
from pathlib import Path

import torch
import torch.distributed as dist

from benchmarks.pairs import compiled
from benchmarks.pairs.program import DEVICE, QUICK, VERSION, Good, Pair, Step, n
from benchmarks.pairs.sets import names, programs
from traceanalyzer.collect.attach import Attached
from traceanalyzer.collect.plan import LIGHT_WARMUP, CapturePlan

WARM_UP, ROUNDS, ROUND_S, LEAST_STEPS, MOST_STEPS = (
    (1, 1, 0.0, 2, 2) if QUICK else (6, 5, 0.25, 3, 300)
)
STEPS_ONCE = 20
"""In a round of a program whose steps differ the first time."""
RECORD_S = 30.0
CAPTURES = {"record": "", "good": ".fixed", "nsys": ".nsys"}
"""What is appended to the program's name, by the part that records it."""
RANK = int(os.environ.get("RANK", "0"))
WORLD = int(os.environ.get("WORLD_SIZE", "1"))


def wait(name: str, folder: Path) -> None:
    """Say that all is loaded; wait for the turn, as long as whoever gives it is there."""
    (folder / f"{name}.ready.{os.getpid()}").touch()
    parent = os.getppid()
    while not (folder / f"{name}.go").exists():
        if os.getppid() != parent:
            sys.exit("nobody is there any more")
        time.sleep(0.1)


def synchronize() -> None:
    """Wait for the device."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def empty() -> None:
    """Give memory back that nothing needs."""
    gc.collect()
    if DEVICE == "cuda":
        torch.cuda.empty_cache()


def agreed(steps: int) -> int:
    """Rank 0's number of steps: ranks that exchange must take as many."""
    if WORLD == 1:
        return steps
    number = torch.tensor([steps], device=DEVICE)
    dist.broadcast(number, 0)
    return int(number.item())


def rounds_ms(step: Step, *, once: bool) -> list[float]:
    """Mean step time of each round, the device waited for at both ends."""
    for _ in range(2 if once else WARM_UP):
        step()
    times = []
    steps = STEPS_ONCE if once else LEAST_STEPS
    for number in range(ROUNDS + 1):
        synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        synchronize()
        times.append((time.perf_counter() - begin) / steps * 1e3)
        if number == 0 and not once:
            steps = agreed(max(LEAST_STEPS, min(int(ROUND_S * 1e3 / times[0]), MOST_STEPS)))
    return times[:3] if once else times[1:]


def make_early(pair: Pair | Good) -> dict[str, Step]:
    """The versions that compile, and with `--early` the device ready to be used."""
    if DEVICE == "cuda" and (pair.early or os.environ.get("PAIRS_EARLY")):
        torch.ones(8, 8, device=DEVICE) @ torch.ones(8, 8, device=DEVICE)
        synchronize()
    made = {}
    for name in pair.early:
        torch.manual_seed(0)
        made[name] = pair.version(name)
        for _ in range(3):
            made[name]()
        synchronize()
    return made


def record(
    pair: Pair | Good, step: Step, folder: Path, *, short: bool = False, recorder: str = "torch"
) -> None:
    """A capture as `collect torch` or `collect nsys` makes it of a process that it has attached to,
    with fewer steps."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = CapturePlan(
        folder=str(folder),
        recorder=recorder,
        operators=recorder == "nsys",
        wait=n(4, 1),
        unprofiled_steps=n(10, 1),
        light_steps=n(3, 1) * (not short),
        active=n(2 if short else 3, 1),
    )
    attached = Attached(plan)
    found = pair.found and not (short and pair.remedy == "cuda_graph")
    if found:
        attached.begin()
    most = (
        plan.wait
        + plan.unprofiled_most
        + LIGHT_WARMUP
        + plan.light_steps
        + plan.warmup
        + plan.active
        + 2
    )
    until = time.monotonic() + RECORD_S
    for _ in range(most):
        step()
        if not found:
            attached._step()
        # ranks stay together, finished or not
        if WORLD == 1 and (attached._recorder.finished or time.monotonic() > until):
            break
    # a rank that left with exchanges under way would keep the other waiting
    synchronize()
    attached._recorder.close()


def run(pair: Pair | Good, part: str, folder: Path, made: dict[str, Step]) -> dict[str, object]:
    """Time or record a version of the program."""
    torch.manual_seed(0)
    version = VERSION.get(part, part)
    step = made[version] if version in made else pair.version(version)
    if part in CAPTURES:
        for _ in range(0 if pair.once else min(WARM_UP, 3)):
            step()
        capture = folder / "captures" / f"{pair.name}{CAPTURES[part]}"
        recorder = "nsys" if part == "nsys" else "torch"
        record(pair, step, capture, short=part == "good", recorder=recorder)
        return {}
    return {f"{part}_ms": [one / pair.share(part) for one in rounds_ms(step, once=pair.once)]}


def main() -> None:
    """Load, wait, and run the parts asked for."""
    name = sys.argv[1]
    folder = Path(sys.argv[2])
    pair = next(one for sets_name in names() for one in programs(sets_name) if one.name == name)
    only_timed = bool(os.environ.get("PAIRS_COMPILED"))
    pair = compiled.also(pair) if only_timed else pair
    for library in pair.libraries:
        with suppress(Exception):
            importlib.import_module(library)
    # Ranks cannot run before they have met: they compile when it is their turn.
    early = WORLD == 1
    with compiled.slot(folder) if only_timed and early else nullcontext():
        made = make_early(pair) if early else {}
        if only_timed:  # what was compiled stays on disk: its memory is for others
            made.clear()
            empty()
    wait(f"{name}.{sys.argv[3]}", folder)
    if DEVICE == "cuda":
        torch.cuda.set_device(RANK)
    if WORLD > 1:
        dist.init_process_group("nccl" if DEVICE == "cuda" else "gloo")
    failed = False
    for part in sys.argv[3:]:
        try:
            row = run(pair, part, folder, made)
        except Exception:
            # ranks would wait for one that went on alone
            if WORLD > 1:
                raise
            traceback.print_exc()
            row = {f"{part}_failed": True}
            failed = True
        empty()
        (folder / f"{name}.{part}.rank{RANK}.json").write_text(json.dumps(row))
    # no farewells: NCCL's may wait for ever
    sys.stdout.flush()
    os._exit(failed)


if __name__ == "__main__":
    main()
