"""Real hangs on four GPUs: `torchrun` with NCCL, a fault in each run, the Flight Recorder's dumps.

    python -m benchmarks.nccl_hangs record FOLDER      on a machine of four GPUs
    python -m benchmarks.nccl_hangs explain FOLDER     what `hang` says of the dumps, anywhere

Ranks 0 and 1, 2 and 3 are pairs; all reduce within their pair twice, across the pairs, and with
everybody. In the third of five steps the fault strikes one rank.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

WORLD = 4
STEPS = 5
FAULTY_STEP = 2
SETTLE_S = 6.0
MOST_S = 90
STRUCK = {"skip": 1, "size": 2, "order": 3, "killed": 2, "blocked": 1}
"""The rank that each fault strikes."""


def run(folder: Path, fault: str) -> None:
    """One rank, until everybody has dumped."""
    import torch
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    (folder / f"pid_{os.getpid()}").touch()
    dist.init_process_group("nccl", device_id=device)
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    columns = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    pair = pairs[rank // 2]
    column = columns[rank % 2]
    x = torch.ones(1 << 20, device=device)
    for group in (pair, column, None):
        dist.all_reduce(x, group=group)
    torch.cuda.synchronize()
    threading.Thread(target=_dump, args=(folder, rank), daemon=True).start()
    for step in range(STEPS):
        struck = rank == STRUCK[fault] and step == FAULTY_STEP
        dist.all_reduce(x, group=pair)
        if struck and fault in ("killed", "blocked"):
            _stop(folder, fault)
        dist.all_reduce(x, group=pair)
        _across_and_all(x, column, fault if struck else "")
        torch.cuda.synchronize()
    time.sleep(MOST_S)


def _across_and_all(x: object, column: object, fault: str) -> None:
    import torch.distributed as dist

    if fault == "order":
        dist.all_reduce(x)
        dist.all_reduce(x, group=column)
        return
    if fault == "size":
        dist.all_reduce(x[: 1 << 18], group=column)
    elif fault != "skip":
        dist.all_reduce(x, group=column)
    dist.all_reduce(x)


def _stop(folder: Path, fault: str) -> None:
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    pipe = folder / f"pipe{os.getpid()}"
    os.mkfifo(pipe)
    pipe.read_bytes()


def _dump(folder: Path, rank: int) -> None:
    from torch._C._distributed_c10d import _dump_nccl_trace

    time.sleep(SETTLE_S)
    data = _dump_nccl_trace(includeCollectives=True, includeStackTraces=True, onlyActive=False)
    (folder / f"rank_{rank}").write_bytes(data)


def record(folder: Path, fault: str) -> None:
    """The dumps of a run with this fault."""
    folder.mkdir(parents=True, exist_ok=True)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    options = ["--monitor-interval=600", f"--nproc-per-node={WORLD}"]
    environment = {
        **os.environ,
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
        "OMP_NUM_THREADS": "1",
    }
    log = (folder / "log.txt").open("w")
    job = subprocess.Popen(
        [*launcher, *options, __file__, str(folder), fault],
        env=environment,
        stdout=log,
        stderr=log,
    )
    dumps = WORLD - (fault == "killed")
    end = time.monotonic() + MOST_S
    while len(list(folder.glob("rank_*"))) < dumps and time.monotonic() < end:
        time.sleep(0.2)
    time.sleep(0.5)
    workers = [int(path.name[4:]) for path in folder.glob("pid_*")]
    for pid in (job.pid, *workers):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    job.wait()
    log.close()
    for other in (*folder.glob("pid_*"), *folder.glob("pipe*")):
        other.unlink()


def explain(folder: Path) -> None:
    """What `hang` says of the dumps of each fault."""
    from traceanalyzer.fleet.hang.document import hang_headline
    from traceanalyzer.fleet.hang.model import hang_of
    from traceanalyzer.ingest.flight_recorder.folder import read_flight

    for fault, rank in STRUCK.items():
        hang = hang_of(read_flight(folder / fault, world=WORLD))
        right = rank in hang.verdict.culprits and len(hang.verdict.culprits) == 1
        print(f"{fault:8} rank {rank}: {'right' if right else 'WRONG'} {hang_headline(hang)}")


if __name__ == "__main__":
    if "RANK" in os.environ:
        run(Path(sys.argv[1]), sys.argv[2])
    elif sys.argv[1] == "record":
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda fault: record(Path(sys.argv[2]) / fault, fault), STRUCK))
    else:
        explain(Path(sys.argv[2]))
