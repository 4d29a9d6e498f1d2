"""Signals of a recorded command, with real PyTorch: each reaches it once, and none outlives
`collect`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.collect.running import HANGS_S, ONE_THREAD, collect_command

pytest.importorskip("torch")

NUMBERS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGQUIT,
    signal.SIGALRM,
    signal.SIGXCPU,
    signal.SIGHUP,
    signal.SIGABRT,
    signal.SIGURG,
)
AWAITS_EACH = f"""
import signal, time
import torch
got = []
numbers = {[int(number) for number in NUMBERS]}
for number in numbers:
    signal.signal(number, lambda number, frame: got.append(number))
for _ in numbers:
    print('ready', flush=True)
    ends = time.time() + 30
    while not got and time.time() < ends: time.sleep(0.02)
    time.sleep(0.8)  # a second one, if it came, would be here
    print(*got, flush=True)
    got.clear()
"""


@pytest.mark.parametrize("send", [os.killpg, os.kill], ids=["group", "alone"])
def test_each_signal_reaches_the_command_once(tmp_path, send):
    (tmp_path / "script.py").write_text(AWAITS_EACH)
    words = collect_command("torch", "-o", "capture", "--", sys.executable, "script.py")
    with subprocess.Popen(
        words,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=ONE_THREAD,
        start_new_session=True,
    ) as process:
        for number in NUMBERS:
            assert process.stdout.readline() == "ready\n"
            send(process.pid, number)
            assert process.stdout.readline() == f"{int(number)}\n", number.name
        out, _ = process.communicate(timeout=HANGS_S)
    assert out == ""
    assert process.returncode == 0


def test_a_killed_collect_takes_the_command_along(tmp_path):
    (tmp_path / "script.py").write_text(
        "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)"
    )
    words = collect_command("torch", "-o", "capture", "--", sys.executable, "script.py")
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
        process.kill()
        process.wait()
        ends = time.monotonic() + 10
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < ends:
            time.sleep(0.05)
        assert not os.path.exists(f"/proc/{pid}")


def test_who_starts_us_may_ignore_how_children_end(tmp_path):
    words = collect_command("torch", "-o", "capture", "--", "bash", "-c", "exit 5")
    done = subprocess.run(
        words,
        cwd=tmp_path,
        capture_output=True,
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
        timeout=HANGS_S,
        check=False,
    )
    assert done.returncode == 5
