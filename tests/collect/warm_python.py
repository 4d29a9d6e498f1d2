"""A Python that has imported PyTorch, and forks for each program that `warm.py` asks for.

A fork is what a new Python would be: environment, search path, arguments, descriptors and session
are the program's, `sitecustomize` is imported. When the program imports PyTorch, it gets what is
there, and what waits for that import is called. A program is a script, or `collect` with a script:
that takes two forks, of which the one that runs our command forgets PyTorch."""

import ctypes
import gc
import importlib.abc
import importlib.util
import json
import multiprocessing.process
import os
import signal
import socket
import subprocess
import sys
import time
import types
from contextlib import suppress

SEARCH_PATH = sys.path[1:]
HELD = "torch"
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
MOST_BYTES = 1 << 18
"""Of a request."""


def taken():
    """The modules of PyTorch, which are as if not imported from now on."""
    names = [name for name in sys.modules if name.partition(".")[0] == HELD]
    return {name: sys.modules.pop(name) for name in names}


class Held(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the PyTorch that was imported before to the program that imports it."""

    def __init__(self):
        self._modules = taken()
        self._spec = self._modules[HELD].__spec__

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name == HELD else None

    def create_module(self, spec):
        return self._modules[HELD]

    def exec_module(self, module):
        sys.meta_path.remove(self)
        module.__spec__ = self._spec
        sys.modules.update(self._modules)


class Reserved(subprocess.Popen):
    """Starts the script that `collect` records in the fork that waits for it; all else as ever."""

    waiting = None
    """The process, and where it hears what it is to run."""

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest):
        is_script = args[0] == sys.executable and args[1].endswith(".py")
        if Reserved.waiting is None or not is_script:
            given = (args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest)
            super()._execute_child(*given)
            return
        self.pid, heard = Reserved.waiting
        Reserved.waiting = None
        with open(heard, "w") as file:
            file.write(json.dumps([args, env]) + "\n")
        self._child_created = True


def set_environment(environment):
    os.environ.clear()
    os.environ.update(environment)


def as_script(words, environment):
    """The code of a script and its names at the beginning; all around it is as Python has it."""
    set_environment(environment)
    sys.argv = words[1:]
    multiprocessing.process.ORIGINAL_DIR = os.getcwd()
    own = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [*filter(None, own), *SEARCH_PATH]
    sys.meta_path.insert(0, Held())
    with suppress(ImportError):
        import sitecustomize  # noqa: F401
    sys.path.insert(0, os.path.dirname(os.path.abspath(words[1])))
    main = types.ModuleType("__main__")
    main.__file__ = words[1]
    sys.modules["__main__"] = main
    with open(words[1], encoding="utf-8") as file:
        return compile(file.read(), words[1], "exec"), vars(main)


def as_collect(words, environment):
    """The same of our command. Returns twice: the script that is recorded is a child."""
    hears, heard = os.pipe()
    child = os.fork()
    if not child:
        os.close(heard)
        with open(hears) as file:
            line = file.readline()
        if not line:
            os._exit(0)
        ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
        return as_script(*json.loads(line))
    os.close(hears)
    Reserved.waiting = child, heard
    subprocess.Popen = Reserved
    taken()
    set_environment(environment)
    sys.path[:] = ["", *SEARCH_PATH]
    sys.argv = ["-c", *words]
    return "from traceanalyzer.cli import main; main()", {"__name__": "__main__"}


def adopted():
    """True in a new process, when it is a child of the one who asks; False in this one."""
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)
        return False
    middle = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == middle:
        time.sleep(0.0005)
    return True


def asked(requests):
    """What to run, in the process that is to run it; None in this one, after the last request."""
    while True:
        text, given, _, _ = socket.recv_fds(requests, MOST_BYTES, 3)
        if not text:
            return None
        if adopted():
            break
        for file in given:
            os.close(file)
    requests.send(str(os.getpid()).encode())
    requests.close()
    for number, file in enumerate(given):
        os.dup2(file, number)
        os.close(file)
    return json.loads(text)


def begun(request):
    """What to run, in the place and the session where it is to run."""
    os.setsid()
    if request["dies"]:
        ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    os.chdir(request["folder"])
    given = request["words"], request["environment"]
    return as_collect(*given) if request["collect"] else as_script(*given)


if __name__ == "__main__":
    import torch._dynamo  # noqa: F401  # which the first optimizer would import

    gc.collect()
    gc.freeze()
    request = asked(socket.socket(fileno=int(sys.argv[1])))
    if request is not None:
        exec(*begun(request))  # noqa: S102
