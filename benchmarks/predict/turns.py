"""Programs take turns on a GPU: one is recorded or timed at a time, while those that were recorded are
predicted on cores of their own."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.predict.names import ranks_of

PARTS = ("record", "time")
LOADING_S = 150.0
LIMIT_S = {"record": 45.0, "time": 60.0, "kernels": 25.0}
QUICKLY = 20.0  # times as long without a GPU
LEFT_S = 6.0
BEHIND = 4  # one core in so many is for what is predicted


class Process:
    """A part of a program, in one process or in one for each rank."""

    def __init__(self, name: str, part: str, folder: Path) -> None:
        self.name = name
        self.part = part
        self._folder = folder
        world = ranks_of(name)
        variables = os.environ | {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1"}
        variables |= {"MASTER_PORT": str(_free_port())}
        words = [sys.executable, "-m", "benchmarks.predict.one", part, name, str(folder)]
        self._ranks = []
        for rank in range(world):
            with self._log(rank).open("w") as log:
                own = variables | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
                self._ranks.append(
                    subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=own)
                )

    def _log(self, rank: int) -> Path:
        return self._folder / f"{self.name}.{self.part}.{rank}.log"

    @property
    def ended(self) -> bool:
        """Whether a rank has ended."""
        return any(one.poll() is not None for one in self._ranks)

    @property
    def is_over(self) -> bool:
        """Whether the first rank, which predicts and writes, has ended."""
        return self._ranks[0].poll() is not None

    def all_have(self, turn: str, what: str) -> bool:
        """Whether every rank is `ready` for a turn, or `done` with it."""
        return all(self._has(turn, what, rank) for rank in range(len(self._ranks)))

    def _has(self, turn: str, what: str, rank: int) -> bool:
        return (self._folder / f"{self.name}.{turn}.{what}.{rank}").exists()

    def _lost(self, turn: str) -> bool:
        """Whether a rank has ended before it was done."""
        ended = [rank for rank, one in enumerate(self._ranks) if one.poll() is not None]
        return not all(self._has(turn, "done", rank) for rank in ended)

    def take(self, turn: str, limit_s: float) -> str:
        """Give it the GPU; what came of that."""
        (self._folder / f"{self.name}.{turn}.go").touch()
        until = time.monotonic() + limit_s
        while not self.all_have(turn, "done"):
            if self._lost(turn):
                self.end()
                return f"ended: {self._last_words()}"
            if time.monotonic() > until:
                self.end()
                return f"took more than {limit_s:.0f} s"
            time.sleep(0.02)
        return "done"

    def _last_words(self) -> str:
        logs = [self._log(rank).read_text(errors="replace") for rank in range(len(self._ranks))]
        lines = [line.strip() for text in logs for line in text.splitlines() if line.strip()]
        return ([line for line in lines if "Error" in line] or lines or [""])[-1][-300:]

    def end(self) -> None:
        """End it where it has not ended."""
        for one in self._ranks:
            if one.poll() is None:
                one.kill()
        for one in self._ranks:
            with suppress(subprocess.TimeoutExpired):
                one.wait(5)

    def found(self) -> dict[str, Any] | None:
        """What it wrote; None where there is nothing yet."""
        file = self._folder / f"{self.name}.{self.part}.json"
        return json.loads(file.read_text()) if file.exists() else None


class Schedule:
    """The programs' processes, and whose turn it is."""

    def __init__(self, names: Sequence[str], folder: Path, out: Path, until: float) -> None:
        self._names = list(names)
        self._out = out
        self._until = until
        self._of = {
            (name, part): Process(name, part, folder) for name in self._names for part in PARTS
        }
        self._sealed: set[str] = set()

    def load(self) -> None:
        """Wait until all are ready, for a while."""
        until = time.monotonic() + LOADING_S * (QUICKLY if _quick() else 1)
        while time.monotonic() < until and not all(
            process.all_have(part, "ready") or process.ended
            for (_, part), process in self._of.items()
        ):
            time.sleep(0.2)

    def run(self, *, seal_all_first: bool) -> None:
        """Record each; time it as soon as its predictions are sealed, or when those of all are."""
        to_record = list(self._names)
        to_time: list[str] = []
        while to_record or to_time:
            self._note_seals()
            ready = self._ready(to_time, held=seal_all_first and bool(to_record))
            if ready:
                self._time(ready[0])
                to_time.remove(ready[0])
            elif to_record:
                to_time += self._recorded(to_record.pop(0))
            else:
                to_time = self._still_predicted(to_time)

    def _ready(self, to_time: list[str], *, held: bool) -> list[str]:
        return [] if held else [name for name in to_time if name in self._sealed]

    def _recorded(self, name: str) -> list[str]:
        """Record a program; it alone, where that worked."""
        return [name] if self._turn(name, "record", "record") == "done" else []

    def _still_predicted(self, to_time: list[str]) -> list[str]:
        """Wait a moment for predictions; the programs of which some can still come."""
        time.sleep(0.1)
        over = all(self._of[name, "record"].is_over for name in to_time)
        if not over and time.monotonic() < self._until:
            return to_time
        self._note_seals()
        lost = [name for name in to_time if name not in self._sealed]
        if lost:
            print("not predicted:", *lost, flush=True)
        return [name for name in to_time if name in self._sealed]

    def trace_kernels(self) -> None:
        """What time is left is for the kernels of the timed settings."""
        for name in self._names:
            process = self._of[name, "time"]
            if not process.ended and process.all_have("kernels", "ready"):
                self._turn(name, "time", "kernels")

    def end(self) -> None:
        """End all."""
        for process in self._of.values():
            process.end()

    def _turn(self, name: str, part: str, turn: str) -> str:
        begin = time.monotonic()
        left = self._until - begin - LEFT_S
        limit = LIMIT_S[turn] * (QUICKLY if _quick() else 1)
        said = "no time was left"
        if left > LEFT_S:
            said = self._of[name, part].take(turn, min(limit, left))
        print(f"{time.monotonic() - begin:5.1f} s {name} {turn} {said}", flush=True)
        return said

    def _note_seals(self) -> None:
        """Write down hashes of predictions that are new."""
        for name in self._names:
            row = self._of[name, "record"].found()
            if row is None or name in self._sealed:
                continue
            self._sealed.add(name)
            line = f"{name} {row['sealed']['sha256']} {row['sealed']['at']:.3f}"
            print("sealed", line, flush=True)
            _append(self._out / "sealed.txt", line)

    def _time(self, name: str) -> None:
        """Time a program and keep its row."""
        self._turn(name, "time", "time")
        row = self._of[name, "record"].found() or {}
        timed = self._of[name, "time"].found() or {"timed": {}}
        _append(self._out / "results.jsonl", json.dumps(row | timed))


def own_cores(part: int, parts: int) -> None:
    """Keep to this part's share of the cores; some of them are for what is predicted."""
    cores = sorted(os.sched_getaffinity(0))
    count = len(cores) // parts
    share = cores[part * count : (part + 1) * count]
    behind = share[len(share) - len(share) // BEHIND :]
    if not behind:
        return
    os.environ["PREDICT_CORES"] = ",".join(map(str, behind))
    os.sched_setaffinity(0, share[: -len(behind)])


def _append(file: Path, line: str) -> None:
    """A line at the end of a file that other processes write too."""
    with file.open("ab", buffering=0) as opened:
        opened.write(f"{line}\n".encode())


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _quick() -> bool:
    return bool(os.environ.get("PREDICT_QUICK"))
