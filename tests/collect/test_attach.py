"""Being a guest in somebody else's process: signals, forks, and a sitecustomize that was there
before."""

from __future__ import annotations

import signal
import sys
import time

import pytest

from tests.collect.running import HANGS_S, SCRIPTS, alive, collect, recorded_steps, running


def _wait_for(condition, seconds=HANGS_S):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_signal_records_now_and_again_beside_forked_workers(tmp_path):
    pytest.importorskip("torch")
    folder = tmp_path / "capture"
    stop = tmp_path / "stop"
    options = ("--on-signal", "--unprofiled-steps", 3, "--warmup", 1, "--active", 6)
    command = (SCRIPTS / "wait_then_train.py", stop)
    with running("torch", "-o", folder, *options, "--", *command) as process:
        assert process.stdout.readline() == "started\n"
        for name in ("trace.rank0.json.gz", "trace.rank0.part2.json.gz"):
            process.send_signal(signal.SIGUSR2)
            _wait_for((folder / name).exists)
        stop.touch()
        out, said = process.communicate(timeout=HANGS_S)
    assert (process.returncode, out) == (0, "ended\n"), said
    assert recorded_steps(folder / "trace.rank0.json.gz") == 6
    assert recorded_steps(folder / "trace.rank0.part2.json.gz") == 6
    assert {file.name.split(".")[0] for file in folder.iterdir()} == {
        "trace",
        "unprofiled",
        "environment",
    }
    assert "failed" not in said
    assert not alive(str(stop))


def test_the_sitecustomize_that_we_hide_still_runs_and_ours_leaves_no_trace(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('theirs')")
    # the first one greets `traceanalyzer` itself
    code = "import sys, sitecustomize; print(sitecustomize.__file__, any('injected' in p for p in sys.path))"
    done = collect(
        "torch",
        "-o",
        tmp_path / "capture",
        "--",
        sys.executable,
        "-c",
        code,
        PYTHONPATH=str(tmp_path),
    )
    assert done.stdout.split()[1:] == ["theirs", str(tmp_path / "sitecustomize.py"), "False"]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--", "no-such-program"), 1, "no such program"),
        (("--",), 2, "Missing argument"),
        (("--active", "0", "--", "true"), 2, "--active"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_made(tmp_path, words, status, said):
    done = collect("torch", "-o", tmp_path / "capture", *words)
    assert done.returncode == status
    assert said in done.stderr
    assert not (tmp_path / "capture").exists()


def test_a_folder_that_holds_a_capture_is_refused(tmp_path):
    (tmp_path / "trace.rank0.json.gz").write_text("")
    done = collect("torch", "-o", tmp_path, "--", "true")
    assert done.returncode == 1
    assert "holds a capture already" in done.stderr


def test_a_command_ended_by_a_signal_ends_us_by_it(tmp_path):
    done = collect("torch", "-o", tmp_path, "--", "sh", "-c", "kill -KILL $$")
    assert done.returncode == -signal.SIGKILL
    assert "ended by signal 9" in done.stderr
