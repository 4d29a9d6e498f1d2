"""Forty ways to start, stop and fork: status, output and files are the same with `collect`
and without, with real PyTorch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.collect.running import ONE_THREAD, collect_command

pytest.importorskip("torch")

OPTIONS = ("--wait", "2", "--unprofiled-steps", "5", "--warmup", "1", "--active", "40")
PRELUDE = """
import atexit, copy, io, os, pickle, signal, sys, threading, time
import torch

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def infer(calls=5):
    with torch.no_grad():
        for _ in range(calls):
            model(torch.ones(2, 8))

def train(steps=30):
    for _ in range(steps):
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()
"""
RUNS = {
    "copies its model": "infer()\ncopy.deepcopy(model)\ntrain()\ncopy.deepcopy(model)\nprint(1)",
    "saves its model": "infer()\ntorch.save(model, io.BytesIO())\ntrain()\nprint(1)",
    "pickles its model": "infer()\nprint(len(pickle.dumps(model)))\ntrain()",
    "scripts its model": "infer()\ntorch.jit.script(model)\nprint(1)",
    "traces its model": "infer()\ntorch.jit.trace(model, torch.ones(2, 8))\nprint(1)",
    "counts its hooks": (
        "infer()\nprint(len(model._forward_hooks), len(model._forward_pre_hooks))\ntrain()\n"
        "print(len(model._forward_hooks), len(model._forward_pre_hooks))"
    ),
    "has modules without a hash": (
        "class M(torch.nn.Linear):\n    __hash__ = None\n    def __eq__(self, other): return False\n"
        "m = M(8, 8)\nfor _ in range(20): m(torch.ones(2, 8))\nprint(1)"
    ),
    "has hooks of its own kind": (
        "class M(torch.nn.Linear):\n    def register_forward_hook(self, hook): raise ValueError\n"
        "m = M(8, 8)\nfor _ in range(20): m(torch.ones(2, 8))\nprint(1)"
    ),
    "prints in parameters()": (
        "class M(torch.nn.Linear):\n    def parameters(self, recurse=True):\n"
        "        print('asked')\n        return super().parameters(recurse)\n"
        "model = M(8, 8)\noptimizer = torch.optim.SGD(model.weight[None].detach(), lr=1)\ntrain()"
    ),
    "raises in its forward": (
        "class M(torch.nn.Linear):\n    def forward(self, x): raise KeyError('mine')\n"
        "m = M(8, 8)\nfor _ in range(5):\n    try: m(1)\n    except KeyError: print('caught')\ntrain()"
    ),
    "exits with 7": "train()\nsys.exit(7)",
    "raises": "train()\nraise ValueError('as asked')",
    "exits at once": "train()\nprint('out', flush=True)\nos._exit(5)",
    "aborts": "train()\nos.abort()",
    "is killed": "train()\nos.kill(os.getpid(), signal.SIGKILL)",
    "is ended": "train()\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(9)",
    "is hung up": "train()\nos.kill(os.getpid(), signal.SIGHUP)\ntime.sleep(9)",
    "is asked by SIGUSR1": "train()\nos.kill(os.getpid(), signal.SIGUSR1)\ntime.sleep(9)",
    "is asked by SIGUSR2": "train()\nos.kill(os.getpid(), signal.SIGUSR2)\ntime.sleep(9)",
    "handles SIGTERM while recorded": (
        "train()\nsignal.signal(signal.SIGTERM, lambda *a: (time.sleep(1), print('saved'), "
        "sys.exit(0)))\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(9)"
    ),
    "looks who handles signals": (
        "train()\nprint([signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGUSR1, "
        "signal.SIGUSR2)])"
    ),
    "chains handlers": (
        "train()\nold = signal.signal(signal.SIGTERM, lambda *a: print('first', callable(old)))\n"
        "os.kill(os.getpid(), signal.SIGTERM)\ntrain(60)\nos.kill(os.getpid(), signal.SIGTERM)"
    ),
    "has a wakeup descriptor": (
        "a, b = os.pipe()\nos.set_blocking(b, False)\ntrain()\nsignal.set_wakeup_fd(b)\n"
        "signal.signal(signal.SIGUSR1, lambda *a: None)\ntrain(60)\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\nprint(os.read(a, 9)[:1], signal.set_wakeup_fd(-1) == b)"
    ),
    "runs asyncio": (
        "import asyncio\nasync def main():\n    got = asyncio.Event()\n    train()\n"
        "    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, got.set)\n    train(60)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n    await asyncio.wait_for(got.wait(), 5)\n"
        "    print('heard')\nasyncio.run(main())"
    ),
    "counts its threads": "train(20)\nprint(threading.active_count())\ntrain()",
    "closes all descriptors": "train(20)\nos.closerange(3, 1000)\ntrain()\nprint(1)",
    "opens files after closing all": (
        "train(20)\nos.closerange(3, 1000)\nf = open('mine', 'w+')\ntrain(60)\n"
        "f.seek(0)\nprint(repr(f.read()))"
    ),
    "profiles with cProfile": (
        "import cProfile\np = cProfile.Profile()\np.enable()\ntrain()\np.disable()\n"
        "print(sum(e.callcount for e in p.getstats() if '<code object train ' in str(e.code)))"
    ),
    "forks": (
        "train(20)\nchild = os.fork()\nif not child:\n    train(5)\n    os._exit(4)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\ntrain()"
    ),
    "ends its forks": (
        "train(20)\nchild = os.fork()\nif not child:\n    time.sleep(30)\n"
        "time.sleep(0.2)\nos.kill(child, signal.SIGTERM)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\ntrain()\nprint('lives')"
    ),
    "waits for all its children": (
        "import subprocess\ntrain()\nsubprocess.Popen(['true'])\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(-1, 0)[1]))"
    ),
    "has no other children": "train()\ntry: os.waitpid(-1, 0)\nexcept ChildProcessError: print('none')",
    "runs a pool": (
        "import multiprocessing\ntrain(20)\nwith multiprocessing.get_context('fork').Pool(2) as p:\n"
        "    print(p.map(abs, [-1, -2]))\ntrain()"
    ),
    "executes itself anew": (
        "if 'again' not in sys.argv:\n    train()\n    sys.stdout.flush()\n"
        "    os.execv(sys.executable, [sys.executable, sys.argv[0], 'again'])\ntrain()\nprint('again')"
    ),
    "removes the capture": (
        "import shutil\ntrain()\nshutil.rmtree('capture', ignore_errors=True)\ntrain(60)\nsys.exit(5)"
    ),
    "writes files": "train()\nopen('checkpoint', 'w').write('weights')\nprint(sorted(os.listdir('.')))",
    "reads its input": "train()\nprint(sys.stdin.read())",
    "is in its session": "train()\nprint(os.getsid(0) == int(os.environ['SID']), os.getpgid(0) == os.getsid(0))",
    "is in the foreground": "train()\nprint(os.getppid() > 1, os.isatty(0))",
    "has work at its end": "atexit.register(print, 'last')\ntrain()\natexit.register(print, 'first')",
    "evaluates between steps": (
        "train(12)\nends = time.time() + 4\nx = torch.ones(8)\nwhile time.time() < ends: x = x * 1.0\n"
        "train()\nprint('evaluated')"
    ),
}


def _run(folder, code, words):
    folder.mkdir()
    (folder / "script.py").write_text(PRELUDE + code)
    with subprocess.Popen(
        ["/bin/bash", "-c", 'SID=$$ "$@"; exit $?', "-", *words, sys.executable, "script.py"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ONE_THREAD,
        start_new_session=True,
    ) as process:
        out, said = process.communicate("given", timeout=120)
    capture = {"capture", "script.py"}
    files = {file.name: file.read_text() for file in folder.iterdir() if file.name not in capture}
    return (process.returncode, out.replace(" 'capture',", ""), files), said


@pytest.mark.parametrize("name", RUNS)
def test_it_is_the_same_with_collect_and_without(tmp_path, name):
    alone, _ = _run(tmp_path / "alone", RUNS[name], [])
    words = collect_command("torch", "-o", "capture", *OPTIONS, "--")
    recorded, said = _run(tmp_path / "recorded", RUNS[name], words)
    assert recorded == alone, said
    assert "Traceback" not in said or "Traceback" in _
