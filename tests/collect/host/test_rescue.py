"""A process that hangs while its recording is cut short still ends by the signal that it was
sent."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

HANGS = """
import ctypes, sys, time
from traceanalyzer.collect.host import rescue
rescue.START_SECONDS = rescue.GRACE_SECONDS = rescue.EXIT_SECONDS = 0.2
def finish():
    print("finishing", flush=True)
    if sys.argv[1] in ("finish", "exit"):
        time.sleep(30)
rescue.Rescue(finish, print).arm()
print("armed", flush=True)
if sys.argv[1] == "exit":
    sys.exit()
if sys.argv[1] == "main thread":
    # locked twice it waits for ever in C, without the GIL, and no signal interrupts it: as a CUDA call would
    libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("where", "finishes"), [("finish", True), ("nowhere", True), ("main thread", False)]
)
def test_it_ends_by_sigterm(where, finishes):
    with subprocess.Popen(
        [sys.executable, "-c", HANGS, where], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "armed\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert out == ("finishing\n" if finishes else "")


def test_a_process_that_ends_by_itself_does_not_hang_either():
    done = subprocess.run(
        [sys.executable, "-c", HANGS, "exit"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "armed\nfinishing\n"
    assert done.returncode == 1
