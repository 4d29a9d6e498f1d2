"""Many ways to start, stop and fork: status, output and files are the same with `collect`
and without, with real PyTorch."""

from __future__ import annotations

import sys

import pytest

from tests.collect import warm
from tests.collect.more_runs import MORE_RUNS
from tests.collect.running import collect_command

pytest.importorskip("torch")

OPTIONS = (
    *("--wait", "2", "--unprofiled-steps", "5", "--warmup", "1", "--active", "40"),
    "--no-verdict",
)
COLLECT = collect_command("torch", "-o", "capture", *OPTIONS, "--")
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
        "model = M(8, 8)\noptimizer = torch.optim.SGD([model.weight], lr=1)\ntrain()"
    ),
    "raises in its forward": (
        "class M(torch.nn.Linear):\n    def forward(self, x): raise KeyError('mine')\n"
        "m = M(8, 8)\nfor _ in range(5):\n    try: m(1)\n    except KeyError: print('caught')\ntrain()"
    ),
    "aborts": "train()\nos.abort()",
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
        "import subprocess\ntrain()\nchild = subprocess.Popen(['true'])\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(-1, 0)[1]))"
    ),
    "has no other children": "train()\ntry: os.waitpid(-1, 0)\nexcept ChildProcessError: print('none')",
    "executes itself anew": (
        "if 'again' not in sys.argv:\n    train()\n    sys.stdout.flush()\n"
        "    os.execv(sys.executable, [sys.executable, sys.argv[0], 'again'])\ntrain()\nprint('again')"
    ),
    "removes the capture": (
        "import shutil\ntrain()\nshutil.rmtree('capture', ignore_errors=True)\ntrain(60)\nsys.exit(5)"
    ),
    "writes files": (
        "train()\nopen('checkpoint', 'w').write('weights')\n"
        "print(sorted({*os.listdir('.')} - {'capture'}))"
    ),
    "is in its session": "train()\nprint(os.getsid(0) in (os.getpid(), os.getppid()), os.getpgid(0) == os.getsid(0))",
    "is in the foreground": "train()\nprint(os.getppid() > 1, os.isatty(0))",
    "evaluates between steps": (
        "train(12)\nends = time.time() + 4\nx = torch.ones(8)\nwhile time.time() < ends: x = x * 1.0\n"
        "train()\nprint('evaluated')"
    ),
    "is asked by SIGALRM": "train()\nsignal.setitimer(signal.ITIMER_REAL, 0.1)\ntime.sleep(9)",
    "has alarms of its own": (
        "got = []\nsignal.signal(signal.SIGALRM, lambda *a: got.append(1))\ntrain(20)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.05)\ntrain(60)\ntime.sleep(0.3)\nprint(got)"
    ),
    "is asked by SIGXCPU": "train()\nos.kill(os.getpid(), signal.SIGXCPU)\ntime.sleep(9)",
    "is asked by SIGQUIT": (
        "import resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\ntrain()\n"
        "os.kill(os.getpid(), signal.SIGQUIT)\ntime.sleep(9)"
    ),
    "is interrupted in a step": (
        "train(12)\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n    train(100)\n"
        "except KeyboardInterrupt: print('interrupted')\ntrain()"
    ),
    "ends by an interrupt": "train(12)\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)",
    "ignores a signal": (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntrain(12)\nos.kill(os.getpid(), signal.SIGTERM)\n"
        "train()\nprint('lives', signal.getsignal(signal.SIGTERM))"
    ),
    "blocks a signal": (
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\ntrain(12)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\ntrain()\nprint(signal.sigwait([signal.SIGTERM]))"
    ),
    "looks at its signal masks": (
        "train(12)\nprint(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.getitimer(signal.ITIMER_REAL))"
    ),
    "spawns": (
        "import multiprocessing as m\nif __name__ == '__main__':\n    train()\n"
        "    with m.get_context('spawn').Pool(1) as pool: print(pool.map(abs, [-3]))"
    ),
    "has a fork server": (
        "import multiprocessing as m\nif __name__ == '__main__':\n    train()\n"
        "    with m.get_context('forkserver').Pool(1) as pool: print(pool.map(abs, [-4]))"
    ),
    "shares its model with a process": (
        "import multiprocessing as m\ndef work(model, queue): queue.put(float(model(torch.ones(1, 8)).sum()) > -99)\n"
        "if __name__ == '__main__':\n    infer()\n    q = m.get_context('fork').Queue()\n"
        "    p = m.get_context('fork').Process(target=work, args=(model, q))\n    p.start()\n"
        "    print(q.get(timeout=20))\n    p.join()\n    print(p.exitcode)\n    train()"
    ),
    "loads in workers": (
        "data = torch.utils.data.TensorDataset(torch.ones(16, 8))\nif __name__ == '__main__':\n"
        "    for (x,) in torch.utils.data.DataLoader(data, batch_size=4, num_workers=1):\n"
        "        model(x).sum().backward()\n        optimizer.step()\n    print('loaded')"
    ),
    "leaves a daemon": (
        "train()\nr, w = os.pipe()\nif not os.fork():\n    os.setsid()\n    if os.fork(): os._exit(0)\n"
        "    os.write(w, b'daemon')\n    os._exit(0)\nos.wait()\nprint(os.read(r, 9))"
    ),
    "ends in a fork's exception": (
        "train(20)\nif not os.fork():\n    raise SystemExit(6)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))"
    ),
    "becomes another program": "train()\nsys.stdout.flush()\nos.execvp('sh', ['sh', '-c', 'echo other; exit 9'])",
    "inherits descriptors": (
        "print(sorted(n for n in range(3, 40) if os.path.exists(f'/proc/self/fd/{n}') and "
        "os.fstat(n).st_ino == os.fstat(0).st_ino))\ntrain()"
    ),
    "is socket activated": "print(os.environ.get('LISTEN_FDS'), os.environ.get('LISTEN_PID'))\ntrain()",
    "sets a profile function": (
        "seen = []\ndef look(frame, event, arg):\n    if frame.f_code.co_name == 'train': seen.append(event)\n"
        "sys.setprofile(look)\ntrain()\nprint(sys.getprofile() is look)\nsys.setprofile(None)\nprint(seen)"
    ),
    "sets a trace function": (
        "sys.settrace(lambda *a: None)\ntrain(3)\nprint(sys.gettrace() is not None)\nsys.settrace(None)\ntrain()"
    ),
    "has exit handlers": "atexit.register(print, 'first')\ntrain()\natexit.register(print, 'second')",
    "ends with a text": "train()\nsys.exit('a sentence')",
    "raises at its end": "train()\nraise RuntimeError('mine')",
    "is out of memory": (
        "import resource\ntrain(12)\nresource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))\n"
        "try: bytearray(1 << 33)\nexcept MemoryError: print('none left')\ntrain()"
    ),
    "runs a thread to its end": (
        "def late():\n    time.sleep(0.5)\n    print('late')\ntrain()\nthreading.Thread(target=late).start()"
    ),
    "trains in a thread": "t = threading.Thread(target=train)\nt.start()\nt.join()\nprint('trained')",
    "changes its folder": (
        "os.mkdir('deep')\nos.chdir('deep')\ntrain()\nos.chdir('..')\nos.rmdir('deep')\n"
        "print(os.listdir('.') != [])"
    ),
    "reads its input": "train()\nprint(sys.stdin.read())",
    "closes its output": "train()\nos.close(1)\nos.open(os.devnull, os.O_WRONLY)\nsys.exit(3)",
    "clears its environment": (
        "os.environ.clear()\ntrain()\nimport subprocess\n"
        "print(subprocess.call([sys.executable, '-c', 'import sys; sys.exit(2)']))"
    ),
    "compares modules' dictionaries": (
        "before = {k: set(vars(m)) for k, m in model.named_modules()}\ninfer()\ntrain()\n"
        "print(before == {k: set(vars(m)) for k, m in model.named_modules()})"
    ),
    "exports its model": (
        "infer()\nprint(len(list(torch.export.export(model, (torch.ones(2, 8),)).graph.nodes)) > 3)\ntrain()"
    ),
    "loads a state": (
        "infer()\nstate = copy.deepcopy(model.state_dict())\ntrain()\nprint(model.load_state_dict(state))\ntrain()"
    ),
    "changes its recursion limit": (
        "train(12)\nsys.setrecursionlimit(5000)\ndef deep(n): return n and deep(n - 1)\nprint(deep(4000))\ntrain()"
    ),
    "warns as errors": "import warnings\nwarnings.simplefilter('error')\ntrain()\nprint('no warning')",
} | MORE_RUNS

COLD = {"closes all descriptors", "inherits descriptors", "is in the foreground"}
"""What a new process has of its parent is tested where it starts anew."""


def _files(folder):
    names = {file.name for file in folder.iterdir()} - {"capture", "script.py"}
    return {name: (folder / name).read_text() for name in names}


def _run(folder, name, *start):
    """How a script ends, what it prints and leaves; and what is said on standard error."""
    folder.mkdir()
    (folder / "script.py").write_text(PRELUDE + RUNS[name])
    words = [*start, sys.executable, "script.py"]
    done = warm.run(words, folder, cold=name in COLD)
    return (done.returncode, done.stdout, _files(folder)), done.stderr


KIN = {
    "saves its model",
    "scripts its model",
    "traces its model",
    "has hooks of its own kind",
    "prints in parameters()",
    "raises in its forward",
    "is asked by SIGUSR2",
    "looks who handles signals",
    "counts its threads",
    "opens files after closing all",
    "ends its forks",
    "has no other children",
    "is in its session",
    "is asked by SIGALRM",
    "is asked by SIGXCPU",
    "is asked by SIGQUIT",
    "ends by an interrupt",
    "ignores a signal",
    "blocks a signal",
    "looks at its signal masks",
    "has a fork server",
    "shares its model with a process",
    "loads in workers",
    "leaves a daemon",
    "is socket activated",
    "sets a trace function",
    "ends with a text",
    "raises at its end",
    "is out of memory",
    "trains in a thread",
    "changes its folder",
    "reads its input",
    "clears its environment",
    "compares modules' dictionaries",
    "exports its model",
    "loads a state",
    "changes its recursion limit",
    "warns as errors",
    "averages its model",
    "copies its optimizer",
    "looks at all handlers",
    "has a thousand files",
    "recurses at the edge",
    "wants the signal of its limit on files",
}
"""Kin of others in the table: CI, which has fifteen minutes, runs the forty others."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in KIN else name for name in RUNS]
)
def test_it_is_the_same_with_collect_and_without(tmp_path, name):
    alone, said_alone = _run(tmp_path / "alone", name)
    recorded, said = _run(tmp_path / "recorded", name, *COLLECT)
    assert recorded == alone, said
    assert "Traceback" not in said or "Traceback" in said_alone
    knows = "the capture" not in name
    assert not knows or "no process of the command imported torch" not in said
