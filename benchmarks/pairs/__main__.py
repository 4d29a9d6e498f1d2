"""Programs with and without a remedy, timed and recorded: `python -m benchmarks.pairs OUT [--set
SET] [NAME ...]`.

For a host with a GPU (sets whose names begin with `ranks`: two), timm, torchvision, transformers,
peft and torch_geometric. Every program has a process of its own: it is timed with a stopwatch
without and with its remedy in random order, then recorded without it as `collect torch` does, steps
found by the collector where an optimizer ends them. All processes load first and then take turns,
so that none disturbs another; one that fails or hangs is ended and does not stop the others. OUT
gets `pairs.json` (the mean step of each round, ms, by version) and the captures, packed. `--early`
lets the programs start the device while they load, where that admits several processes (compute
mode "Default"). `--compiled` only times them: as they are, and with their models compiled.
`--device cpu --quick` tries the programs in small, `--seconds N` bounds the run.
"""

import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pairs.compiled import also
from benchmarks.pairs.program import Good, Pair
from benchmarks.pairs.sets import of_two_ranks, programs

LOADING_S = 90.0
LIMIT_S = 30.0
COMPILING_S = 80.0
LEFT_S = 8.0
SLOW_S = 200.0
PACK_BYTES = 15 * 2**20
PACKS = 4
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


class Process:
    """A process of a pair (several with ranks), loaded and waiting for its turn."""

    def __init__(
        self,
        pair: Pair | Good,
        parts: tuple[str, ...],
        folder: Path,
        *,
        together: bool,
        under: Sequence[str] = (),
    ) -> None:
        self.pair = pair
        self.parts = parts
        self.folder = folder
        self.ranks = 2 if together else 1
        self.name = f"{pair.name}.{parts[0]}"
        words = [
            *under,
            sys.executable,
            *(TORCHRUN if together else ()),
            "-m",
            "benchmarks.pairs.one",
        ]
        self.log = folder / f"{self.name}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*words, pair.name, str(folder), *parts], stdout=log, stderr=subprocess.STDOUT
            )

    @property
    def pids(self) -> list[int]:
        """Of the processes that have loaded."""
        return [int(file.suffix[1:]) for file in self.folder.glob(f"{self.name}.ready.*")]

    @property
    def ready(self) -> bool:
        """Whether it waits for its turn, or will never."""
        return len(self.pids) >= self.ranks or self.process.poll() is not None

    def take_turn(self, limit_s: float) -> str | None:
        """Run it; what went wrong, if anything."""
        (self.folder / f"{self.name}.go").touch()
        try:
            code = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.end()
            return f"took more than {limit_s:.0f} s"
        return None if code == 0 else f"exit {code}: {self.last_words()}"

    def last_words(self) -> str:
        """Its own error, in short."""
        lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines()]
        told = [line for line in lines if "Error" in line and "ChildFailedError" not in line]
        return (told or lines or [""])[-1][-300:]

    def end(self) -> None:
        """End it and its ranks."""
        if self.process.poll() is not None:
            return
        for pid in (*self.pids, self.process.pid):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(10)


def processes(pairs: list[Pair | Good], folder: Path, *, together: bool) -> Iterator[Process]:
    """Those of all pairs: one, or three where a program's steps are different the first time."""
    for pair in pairs:
        order = np.random.default_rng(list(pair.name.encode())).permutation(len(pair.timed))
        timed = [pair.timed[one] for one in order]
        whole = (*timed, *(("record",) if together or pair.once else pair.recorded))
        for parts in [(part,) for part in whole] if pair.once else [whole]:
            yield Process(pair, parts, folder, together=together)


def load(waiting: list[Process], limit_s: float) -> None:
    """Wait until all have loaded, for a while."""
    until = time.monotonic() + limit_s
    while not all(one.ready for one in waiting) and time.monotonic() < until:
        time.sleep(0.2)


def run(waiting: list[Process], out: Path, until: float) -> dict[str, dict[str, Any]]:
    """Give each process its turn; a row for each pair."""
    found: dict[str, dict[str, Any]] = {}
    for one in waiting:
        row = found.setdefault(one.pair.name, dict(one.pair.row))
        begin = time.monotonic()
        limit = COMPILING_S if one.pair.remedy == "compile" else LIMIT_S
        limit = SLOW_S if os.environ["PAIRS_DEVICE"] == "cpu" else limit
        left = until - begin - LEFT_S
        failed = "no time was left" if left < LEFT_S else one.take_turn(min(limit, left))
        if failed:
            row["failed"] = failed
        for file in sorted(one.folder.glob(f"{one.pair.name}.*.rank0.json")):
            row |= json.loads(file.read_text())
        (out / "pairs.json").write_text(json.dumps(found, indent=1))
        print(
            f"{time.monotonic() - begin:5.1f} s {one.name}",
            row.get("failed", ""),
            *_medians(row),
            flush=True,
        )
    return found


def _medians(row: dict[str, Any]) -> Iterator[str]:
    for key in row:
        if key.endswith("_ms"):
            yield f"{key} {sorted(row[key])[len(row[key]) // 2]:.3f}"


def pack(captures: Path, out: Path, *, stem: str = "captures", packs: int = PACKS) -> list[str]:
    """The files of the captures in a few of bounded size; what did not fit."""
    files = sorted(
        (file for file in captures.glob("*/*") if file.is_file()),
        key=lambda file: file.stat().st_size,
    )
    packed: list[list[Path]] = [[] for _ in range(packs)]
    full = [0] * packs
    left_out = []
    for file in files:
        size = file.stat().st_size
        into = full.index(min(full))
        if full[into] + size > PACK_BYTES:
            left_out.append(f"{file.relative_to(captures)}: {size} bytes")
            continue
        packed[into].append(file)
        full[into] += size
    for number, some in enumerate(packed):
        with tarfile.open(out / f"{stem}{number}.tar", "w") as tar:
            for file in sorted(some):
                tar.add(file, file.relative_to(captures))
    return left_out


def main() -> None:
    """Load all, run one after the other, pack."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--set", default="first")
    parser.add_argument("--early", action="store_true")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float)
    options = parser.parse_intermixed_args()
    together = of_two_ranks(options.set)
    until = time.monotonic() + (options.seconds or (235 if together else 350))
    os.environ |= {"PAIRS_DEVICE": options.device} | ({"PAIRS_QUICK": "1"} if options.quick else {})
    os.environ |= {"PAIRS_EARLY": "1"} if options.early else {}
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")
    os.environ |= {"PAIRS_COMPILED": "1"} if options.compiled else {}
    sets = itertools.chain(*(programs(name) for name in options.set.split(",")))
    chosen = [p for p in sets if not options.names or p.name in options.names]
    chosen = [also(p) for p in chosen] if options.compiled else chosen
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "captures").mkdir()
        waiting = list(processes(chosen, folder, together=together))
        try:
            load(waiting, LOADING_S * (2 if options.compiled else 1))
            print(f"loaded, {until - time.monotonic():.1f} s left", flush=True)
            found = run(waiting, options.out, until)
        finally:
            for one in waiting:
                one.end()
        for line in pack(folder / "captures", options.out):
            print("left out:", line)
        print(sum("failed" not in row for row in found.values()), "of", len(found), "pairs")


if __name__ == "__main__":
    main()
