"""`collect torch` on scripts of every kind: each ends, prints and answers as it does without us.

A script is what follows `PRELUDE`. What it prints and how it ends stands beside it, as Python alone
would have it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import NamedTuple

import pytest

from tests.collect import running, warm
from tests.collect.running import (
    HANGS_S,
    SMALL,
    collect,
    collect_command,
    recorded_steps,
)

pytest.importorskip("torch")

PRELUDE = """
import atexit, os, signal, sys, threading, time
import torch
from torch.profiler import ProfilerActivity, profile, schedule

torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def train(steps, after=lambda: None):
    for _ in range(steps):
        model(torch.randn(2, 8)).sum().backward()
        optimizer.step()
        after()

def own(steps=6):
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        train(steps)
    profiler.export_chrome_trace(os.path.join(sys.argv[1], "own.json"))
    print("own", sum(event.name == "aten::addmm" for event in profiler.events()), flush=True)
"""
BEGUN = 30
"""Steps after which a recording with `OPTIONS` is on, however unsteady the steps are."""
OPTIONS = (
    *("--wait", "2", "--unprofiled-steps", "5", "--warmup", "1", "--active", "60"),
    "--no-verdict",
)


class Script(NamedTuple):
    """A script, its output, its status, and whether it leaves a recording."""

    code: str
    out: str = ""
    status: int | None = 0
    """None: whatever it is without us."""
    recorded: bool | None = True
    """None: depends on how far it gets."""
    said: str = ""
    """Part of what we say on standard error."""


SCRIPTS = {
    "ends": Script("train(120)\nprint('done')", "done\n"),
    "never steps": Script("print('nothing')", "nothing\n", recorded=False),
    "exits with a status": Script("train(40)\nsys.exit(7)", status=7),
    "raises": Script("train(40)\nraise ValueError('as asked')", status=1),
    "leaves without cleaning up": Script(
        "train(40)\nprint('out', flush=True)\nos._exit(5)", "out\n", 5, None
    ),
    "crashes": Script(
        "train(40)\nos.kill(os.getpid(), signal.SIGSEGV)", status=-signal.SIGSEGV, recorded=None
    ),
    "is killed": Script(
        "train(40)\nos.kill(os.getpid(), signal.SIGKILL)", status=-signal.SIGKILL, recorded=None
    ),
    "is ended": Script(
        "train(40)\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(9)", status=-signal.SIGTERM
    ),
    "handles SIGTERM itself": Script(
        "signal.signal(signal.SIGTERM, lambda *a: sys.exit(3))\ntrain(40)\nos.kill(os.getpid(), signal.SIGTERM)\n"
        "time.sleep(9)",
        status=3,
    ),
    "handles SIGUSR2 itself": Script(
        "signal.signal(signal.SIGUSR2, lambda *a: print('usr2'))\ntrain(40)\nos.kill(os.getpid(), signal.SIGUSR2)\n"
        "train(60)",
        "usr2\n",
    ),
    "uses SIGURG": Script(
        "signal.signal(signal.SIGURG, lambda *a: print('urg'))\ntrain(40)\nos.kill(os.getpid(), signal.SIGURG)",
        "urg\n",
    ),
    "is interrupted": Script(
        # A shell's background jobs ignore SIGINT.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "train(40)\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(9)\n"
        "except KeyboardInterrupt:\n    print('interrupted')",
        "interrupted\n",
    ),
    "forks": Script(
        f"train({BEGUN})\nchild = os.fork()\nif not child:\n    train(5)\n    os._exit(4)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\ntrain(60)",
        "4\n",
    ),
    "forks a child that profiles": Script(
        f"train({BEGUN})\nchild = os.fork()\nif not child:\n    own()\n    os._exit(4)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\ntrain(80)",
        "own 6\n4\n",
    ),
    "uses a pool": Script(
        f"train({BEGUN})\nimport multiprocessing\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n    print(pool.map(abs, [-1, -2]))\ntrain(60)",
        "[1, 2]\n",
    ),
    "spawns": Script(
        "if __name__ == '__main__':\n    import multiprocessing\n    train(40)\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n        print(pool.map(abs, [-3]))",
        "[3]\n",
    ),
    "trains in a thread": Script(
        "t = threading.Thread(target=train, args=(120,))\nt.start()\nt.join()\nprint(1)", "1\n"
    ),
    "ends while its thread trains": Script(
        "forever = threading.Event()\ndef run():\n    train(40)\n    forever.wait()\n"
        "threading.Thread(target=run, daemon=True).start()\ntime.sleep(1)\nprint('left')",
        "left\n",
        recorded=None,
    ),
    "trains in threads": Script(
        "ts = [threading.Thread(target=train, args=(60,)) for _ in range(3)]\n[t.start() for t in ts]\n"
        "[t.join() for t in ts]\nprint('joined')",
        "joined\n",
        recorded=None,
    ),
    "closes its output": Script("os.close(1)\ntrain(40)\nos.close(2)"),
    "changes its folder": Script("os.chdir('/')\ntrain(40)\nprint(os.getcwd())", "/\n"),
    "has work to do at its end": Script(
        "atexit.register(lambda: print('last'))\ntrain(40)\natexit.register(lambda: print('first'))",
        "first\nlast\n",
    ),
    "has a hook for errors": Script(
        "sys.excepthook = lambda *a: print('hooked', a[0].__name__)\ntrain(40)\n1 / 0",
        "hooked ZeroDivisionError\n",
        1,
    ),
    "reads its input": Script("train(40)\nprint(sys.stdin.read())", "given\n"),
    "takes warnings for errors": Script(
        "import warnings\nwarnings.simplefilter('error')\ntrain(120)\nprint(1)", "1\n"
    ),
    "profiles before": Script("own()\ntrain(120)", "own 6\n"),
    "profiles afterwards": Script("train(120)\nown()", "own 6\n"),
    "profiles all along": Script(
        "own(120)", "own 120\n", recorded=False, said="nothing is recorded while that is on"
    ),
    "profiles while we do": Script(
        f"train({BEGUN})\nown()\nown()\ntrain(120)\nown()",
        "own 6\n" * 3,
        said="the recording ended there",
    ),
    "profiles all the time anew": Script(
        "for _ in range(40): own(3)", "own 3\n" * 40, recorded=False
    ),
    "profiles by a schedule": Script(
        "made = []\nwith profile(schedule=schedule(wait=9, warmup=1, active=2), on_trace_ready=made.append) as p:\n"
        "    train(120, p.step)\nprint(len(made))",
        "10\n",
        recorded=None,
    ),
    "profiles in another thread": Script(
        f"train({BEGUN})\nt = threading.Thread(target=own)\nt.start()\nt.join()\ntrain(120)\nown()",
        "own 6\n" * 2,
    ),
    "profiles beside a thread that trains": Script(
        "t = threading.Thread(target=train, args=(200, lambda: time.sleep(0.002)))\nt.start()\ntime.sleep(0.15)\n"
        "own(1)\nt.join()\nown()",
        "own 1\nown 6\n",
        recorded=None,
    ),
    "profiles the old way": Script(
        f"train({BEGUN})\nwith torch.autograd.profiler.profile() as p:\n    train(6)\n"
        "print(sum(e.name == 'aten::addmm' for e in p.function_events))\ntrain(120)",
        "6\n",
    ),
    "never ends its profiler": Script(
        f"train({BEGUN})\np = profile(activities=[ProfilerActivity.CPU])\np.start()\ntrain(60)\nprint('on')",
        "on\n",
        None,
    ),
    "prepares a profiler and forgets it": Script(
        f"train({BEGUN})\n"
        "p = profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=0, warmup=9, active=1))\n"
        "p.start()\ntrain(60)\nprint('on')",
        "on\n",
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs_as_it_does_without_us(tmp_path, name):
    script = SCRIPTS[name]
    file = tmp_path / "script.py"
    capture = tmp_path / "capture"
    file.write_text(PRELUDE + script.code)
    command = collect_command(
        "torch", "-o", capture, *OPTIONS, "--", sys.executable, file, tmp_path
    )
    done = warm.run(command)
    status = script.status
    if status is None:
        status = warm.run([sys.executable, file, tmp_path]).returncode
    assert (done.returncode, done.stdout) == (status, script.out), done.stderr
    assert "Error: traceanalyzer" not in done.stderr
    assert script.said in done.stderr
    if script.recorded is not None:
        recorded = list(capture.glob("trace.*"))
        assert bool(recorded) == script.recorded, done.stderr
        assert not recorded or recorded_steps(recorded[0]) > 0
    assert not (capture / ".processes").exists()


def test_a_full_disk_behind_the_output_is_the_scripts_own_trouble(tmp_path):
    file = tmp_path / "script.py"
    file.write_text(
        PRELUDE + "train(40)\ntry:\n    print('x', flush=True)\nexcept OSError:\n    os._exit(9)"
    )
    with open("/dev/full", "w") as full:
        command = collect_command(
            "torch", "-o", tmp_path / "capture", *OPTIONS, "--", sys.executable, file
        )
        assert (
            subprocess.run(
                command, stdout=full, stderr=subprocess.DEVNULL, timeout=HANGS_S, check=False
            ).returncode
            == 9
        )


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    done = collect("torch", "-o", tmp_path / "file" / "capture", "--", "true")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("what", ["train", "infer"])
def test_scripted_modules_take_no_hooks_of_their_own(tmp_path, what):
    done = collect(
        "torch",
        "-o",
        tmp_path,
        *SMALL,
        "--",
        sys.executable,
        running.SCRIPTS / "scripted.py",
        what,
        60,
    )
    assert done.returncode == 0, done.stderr
    assert recorded_steps(tmp_path / "trace.rank0.json.gz") == 2
