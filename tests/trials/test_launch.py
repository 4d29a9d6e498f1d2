"""How the program is started and ended."""

from __future__ import annotations

import signal
import subprocess
import sys

CODE = """
import os, signal
from traceanalyzer.trials.launch import run_group

signal.signal(signal.SIGINT, signal.default_int_handler)
os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    run_group(["sleep", "60"], os.environ, 30.0, None)
except KeyboardInterrupt:
    print("heard")
"""


def test_an_interrupt_while_the_program_starts_is_heard():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("heard\n", 0), done.stderr


def test_the_program_hears_interrupts(tmp_path):
    code = """
import sys
from pathlib import Path
from traceanalyzer.trials.launch import run_group

words = [sys.executable, "-c", "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []))"]
print(run_group(words, {}, 60.0, Path(sys.argv[1])).output)
"""
    held = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "output"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert held.stdout.strip() == str(signal.pthread_sigmask(signal.SIG_BLOCK, []))
