"""`collect torch -- torchrun`: every rank its own file, whatever becomes of the ranks."""

from __future__ import annotations

import signal
import sys
import time

import pytest

from tests.collect.running import HANGS_S, SCRIPTS, SMALL, alive, collect, recorded_steps, running

pytest.importorskip("torch")
DISTRIBUTED = SCRIPTS / "distributed.py"
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
LONG = (*SMALL[:-1], "1000")
"""A recording that is still going on when the script ends."""


def test_each_rank_writes_its_file_and_a_crash_keeps_its_status(tmp_path):
    folder = tmp_path / "capture"
    done = collect("torch", "-o", folder, *LONG, "--", *TORCHRUN, DISTRIBUTED, 35, "crash")
    assert done.returncode == 1
    for rank in (0, 1):
        assert recorded_steps(folder / f"trace.rank{rank}.json.gz") >= 5, (
            "rank 0 is ended by torchrun's SIGTERM"
        )
    assert not alive(str(DISTRIBUTED))
    assert not (folder / ".processes").exists()


@pytest.mark.parametrize("script", ["distributed", "train"])
def test_sigterm_leaves_a_capture_and_ends_everything(tmp_path, script):
    folder = tmp_path / "capture"
    command = (
        (*TORCHRUN, DISTRIBUTED, 35, "hang")
        if script == "distributed"
        else (SCRIPTS / "train.py", 35, "hang")
    )
    with running("torch", "-o", folder, *LONG, "--", *command) as process:
        marker = "stepped" if script == "distributed" else "trained"
        assert any(marker in line for line in process.stdout)
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=HANGS_S)
    assert process.returncode == (1 if script == "distributed" else -signal.SIGTERM), said
    assert recorded_steps(folder / "trace.rank0.json.gz") >= 5
    assert not alive(str(folder))
