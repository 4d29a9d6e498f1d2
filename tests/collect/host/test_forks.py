"""A child that gets SIGTERM as soon as it is forked ends alone, and nothing of the fork is left in
the signal mask."""

from __future__ import annotations

import signal
import subprocess
import sys

FORKS = """
import os, signal, sys, time
from traceanalyzer.collect.host import forks, rescue
armed = rescue.Rescue(lambda: print("finished"), print)
armed.arm()
forks.in_each_child(lambda: armed.disarm(forked=True))
for _ in range(50):
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    os.kill(child, signal.SIGTERM)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
armed.disarm()
print("alive", flush=True)
"""

MASKS = """
import os, signal
from traceanalyzer.collect.host import forks
forks.in_each_child(lambda: None)
for held in ([], [signal.SIGTERM]):
    signal.pthread_sigmask(signal.SIG_SETMASK, held)
    child = os.fork()
    same = signal.pthread_sigmask(signal.SIG_BLOCK, []) == set(held)
    os.write(1, b"same " if same else b"other ")
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_child_that_gets_sigterm_at_once_ends_alone():
    done = run(FORKS)
    assert done.stderr == ""
    assert done.stdout == "alive\n"
    assert done.returncode == 0


def test_parent_and_child_have_the_mask_from_before_the_fork():
    done = run(MASKS)
    assert done.stderr == ""
    assert done.stdout.split() == ["same"] * 4
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
