"""Real hangs: six ranks of `torchrun` with gloo on the CPU, a fault in each run, and what `hang`
says of the dumps.

    python -m benchmarks.gloo_hangs [FOLDER]

gloo's Flight Recorder (PyTorch 2.8 and later) has collectives with their lines; it leaves out
sends, receives and the ranks of groups, and never changes a state: `retired` says what is complete.
There is no GPU to be stuck, and no link to be cut without being root.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

WORLD = 6
TENSOR = 2
STEPS = 5
FAULTY_STEP = 2
SETTLE_S = 4.0
MOST_S = 40
EXPECTED = {
    "storage": ({3}, "cpu_stopped"),
    "gil": ({2}, "no_dump"),
    "killed": ({4}, "no_dump"),
    "sigstop": ({5}, "no_dump"),
    "skip": ({1}, "order"),
    "kind": ({2}, "mismatch"),
    "size": ({4}, "no_dump"),  # gloo ends a process whose peers send another size
    "two": ({1, 4}, "cpu_stopped"),
    "slow": (set(), "nothing_wrong"),
}
"""Faults, and culprits and kind of what is to be found."""


def run(folder: Path, fault: str) -> None:
    """One rank, until everybody has dumped. `slow`: all wait for a moment, and nothing is wrong."""
    import torch
    import torch.distributed as dist

    (folder / f"pid_{os.getpid()}").touch()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    pairs = [dist.new_group(list(range(i, i + TENSOR))) for i in range(0, WORLD, TENSOR)]
    columns = [dist.new_group(list(range(i, WORLD, TENSOR))) for i in range(TENSOR)]
    pair = pairs[rank // TENSOR]
    column = columns[rank % TENSOR]
    threading.Thread(target=_dump, args=(folder, rank), daemon=True).start()
    x = torch.ones(64)
    strike = rank in EXPECTED[fault][0]
    try:
        for step in range(STEPS):
            now = strike and step == FAULTY_STEP
            dist.all_reduce(x, group=pair)
            if now and fault in ("storage", "two", "gil", "killed", "sigstop"):
                _stop(folder, fault)
            dist.all_reduce(x, group=pair)
            if not (now and fault == "skip"):
                _collective(x, column, fault if now else "")
            dist.all_reduce(x)
    except (
        RuntimeError
    ):  # gloo sees a peer that is gone, or sends another size: this rank goes no further
        pass
    time.sleep(MOST_S)


def _collective(x: object, group: object, fault: str) -> None:
    import torch
    import torch.distributed as dist

    if fault == "kind":
        dist.all_gather([torch.ones(64) for _ in range(WORLD // TENSOR)], x, group=group)
    else:
        dist.all_reduce(torch.ones(32) if fault == "size" else x, group=group)


def _stop(folder: Path, fault: str) -> None:
    if fault == "gil":
        ctypes.PyDLL(None).sleep(MOST_S)
    elif fault in ("killed", "sigstop"):
        os.kill(os.getpid(), signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
    else:  # storage that does not answer
        pipe = folder / f"pipe{os.getpid()}"
        os.mkfifo(pipe)
        pipe.read_bytes()


def _dump(folder: Path, rank: int) -> None:
    from torch._C._distributed_c10d import _dump_fr_trace

    time.sleep(SETTLE_S)
    data = _dump_fr_trace(includeCollectives=True, includeStackTraces=True, onlyActive=False)
    (folder / f"rank_{rank}").write_bytes(data)


def record(folder: Path, fault: str) -> None:
    """The dumps of a run with this fault."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--monitor-interval=600",
        f"--nproc-per-node={WORLD}",
        __file__,
        str(folder),
        fault,
    ]
    env = {**os.environ, "TORCH_FR_BUFFER_SIZE": "2000", "OMP_NUM_THREADS": "1"}
    expected = WORLD - (len(EXPECTED[fault][0]) if EXPECTED[fault][1] == "no_dump" else 0)
    job = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + MOST_S
    while len(list(folder.glob("rank_*"))) < expected and time.monotonic() < end:
        time.sleep(0.2)
    time.sleep(0.5)
    for pid in [
        job.pid,
        *(int(path.name[4:]) for path in folder.glob("pid_*")),
    ]:  # workers outlive their launcher
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    job.wait()
    for other in folder.iterdir():
        if not other.name.startswith("rank_"):
            other.unlink()


def main(folder: Path) -> int:
    """Record and explain each; the number of wrong answers."""
    from traceanalyzer.fleet.hang.document import hang_headline
    from traceanalyzer.fleet.hang.model import hang_of
    from traceanalyzer.ingest.flight_recorder.folder import read_flight

    wrong = 0
    for fault, (ranks, kind) in EXPECTED.items():
        record(folder / fault, fault)
        hang = hang_of(read_flight(folder / fault, world=WORLD))
        right = set(hang.verdict.culprits) == ranks and hang.verdict.kind == kind
        wrong += not right
        print(
            f"{fault:8} {'right' if right else 'WRONG'} {hang.verdict.confidence:10} {hang_headline(hang)}",
            flush=True,
        )
    return wrong


if __name__ == "__main__":
    if "RANK" in os.environ:
        run(Path(sys.argv[1]), sys.argv[2])
    elif len(sys.argv) > 1:
        sys.exit(main(Path(sys.argv[1])))
    else:
        with tempfile.TemporaryDirectory() as made:
            sys.exit(main(Path(made)))
