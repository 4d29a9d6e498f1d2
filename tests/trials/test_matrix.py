"""Many ways to start and to end: the first run under `try` has the output, the files and the end
that the program has alone, and what is left of it is ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.collect import warm
from traceanalyzer.trials import launch
from traceanalyzer.trials.session import NoBaseError, Options, TrialSession

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
PRELUDE = """
import os, signal, sys, time
import torch

torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def train(steps=60):
    for _ in range(steps):
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()
"""
ENDS = {
    "a status": ("train()\nsys.exit(5)", "ended with status 5"),
    "an exception": ("train()\nraise KeyError('mine')", "ended with status 1"),
    "SIGTERM": ("train()\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(9)", "signal 15"),
    "an abort": ("train()\nos.abort()", "signal 6"),
    "no step": ("print('no step')", "no step was found"),
    "the back door": ("train()\nos._exit(0)", "none lived to tell"),
    "no file that it may write": (
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\ntrain()",
        "no process of it imported torch, or none lived to tell",
    ),
}
WAYS = {
    "reads its input": "print(repr(sys.stdin.read()))\ntrain()",
    "closes its output": "os.close(1)\nos.open(os.devnull, os.O_WRONLY)\ntrain()",
    "writes files": "open('checkpoint', 'w').write('weights')\ntrain()\nprint(1)",
    "has handlers and masks": (
        "signal.signal(signal.SIGTERM, lambda *a: print('asked'))\ntrain()\n"
        "os.kill(os.getpid(), signal.SIGTERM)\nprint(signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    ),
    "leads its session": "print(os.getsid(0) == os.getpid() == os.getpgid(0))\ntrain()",
    "executes itself anew": (
        "train()\nif 'again' not in sys.argv:\n    sys.stdout.flush()\n"
        "    os.execv(sys.executable, [sys.executable, sys.argv[0], 'again'])\nprint('again')"
    ),
}
LEAVES_A_PROCESS = """
train()
child = os.fork()
if not child:
    time.sleep(600)
open('child', 'w').write(str(child))
"""


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(launch, "subprocess", warm.STARTING)


def _session(tmp_path, code):
    (tmp_path / "train.py").write_text(PRELUDE + code)
    (tmp_path / "runs").mkdir()
    command = (sys.executable, "train.py")
    return TrialSession(Options(command, tmp_path / "runs", 600.0), lambda line: None)


def _made(folder):
    names = {file.name for file in folder.iterdir()} - {"train.py", "runs"}
    return {name: (folder / name).read_text() for name in names}


@pytest.mark.parametrize("end", ENDS)
def test_an_end_that_is_no_answer_is_said_in_a_clause(tmp_path, monkeypatch, capfd, end):
    code, why = ENDS[end]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NoBaseError, match=why):
        _session(tmp_path, code).base()
    assert "traceanalyzer" not in capfd.readouterr().err


COLD = {"has handlers and masks"}
"""What a new process has of its parent is tested where it starts anew."""


@pytest.mark.parametrize("way", WAYS)
def test_it_is_the_same_with_try_and_without(tmp_path, monkeypatch, capfd, way):
    folders = [tmp_path / name for name in ("alone", "tried")]
    for folder in folders:
        folder.mkdir()
    alone, tried = folders
    (alone / "train.py").write_text(PRELUDE + WAYS[way])
    done = warm.run([sys.executable, "train.py"], alone, given="")
    assert done.returncode == 0, done.stderr
    monkeypatch.chdir(tried)
    if way in COLD:
        monkeypatch.setattr(launch, "subprocess", subprocess)
    assert _session(tried, WAYS[way]).base().ok
    printed = capfd.readouterr()
    assert printed.out == done.stdout
    assert _made(tried) == _made(alone)


def test_what_a_run_leaves_behind_is_ended_with_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert _session(tmp_path, LEAVES_A_PROCESS).base().ok
    child = int((tmp_path / "child").read_text())
    ends = time.monotonic() + 10
    while os.path.exists(f"/proc/{child}") and time.monotonic() < ends:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{child}")
