"""Calls of modules are named in a recording, and nothing that the program does changes."""

from __future__ import annotations

import sys
import warnings

import pytest

from tests.collect.running import SCRIPTS, SMALL, trace_events
from tests.collect.warm import collect

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from traceanalyzer.collect.module_names import ModuleNames  # noqa: E402

TRAIN = SCRIPTS / "train.py"
X = torch.ones(2, 4)


class Ends(nn.Module):
    """A module whose call ends by an exception."""

    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self.error = error

    def forward(self, x):
        raise self.error


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU())


def names_of(call, times=1):
    names = ModuleNames()
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        names.install()
        for _ in range(times):
            call()
        names.remove()
    return [event.name for event in recorded.events() if event.name.startswith("nn.Module: ")]


def frames_compiled():
    import torch._dynamo as dynamo

    return dynamo.utils.counters["frames"]["total"]


@pytest.fixture
def dynamo():
    dynamo = pytest.importorskip("torch._dynamo")
    dynamo.reset()
    dynamo.utils.counters.clear()
    yield dynamo
    dynamo.reset()
    dynamo.utils.counters.clear()


def test_each_instance_keeps_its_name(model):
    once = ["nn.Module: Sequential_0", "nn.Module: Linear_0", "nn.Module: ReLU_0"]
    assert names_of(lambda: model(X), times=2) == once * 2


def test_no_hook_stays(model):
    names_of(lambda: model(X))
    assert not torch.nn.modules.module._global_forward_hooks
    assert not torch.nn.modules.module._global_forward_pre_hooks


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_calls_that_raise_end_with_those_around_them(model, error):
    failing = nn.Sequential(nn.ReLU(), Ends(error))

    def call():
        with pytest.raises(error):
            failing(X)
        model(X)

    assert names_of(call)[-3:] == [
        "nn.Module: Sequential_1",
        "nn.Module: Linear_0",
        "nn.Module: ReLU_1",
    ]


def test_the_profiler_may_begin_inside_a_call():
    class Begins(nn.Module):
        def forward(self, x):
            self.profiler = profile(activities=[ProfilerActivity.CPU])
            self.profiler.start()
            return x

    names = ModuleNames()
    begins = Begins()
    names.install()
    begins(X)
    names.remove()
    begins.profiler.stop()


def test_dispatch_modes_and_tracing_see_nothing_of_it(model):
    class Seen(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.names.append(str(function))
            return function(*args, **(kwargs or {}))

    seen = []
    codes = []

    def call():
        with Seen() as mode:
            model(X)
        seen.append(mode.names)
        codes.append(torch.fx.symbolic_trace(model).code)

    call()
    names_of(call)
    assert seen[0] == seen[1]
    assert codes[0] == codes[1]


def test_scripted_modules_run_as_before(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(model)
    assert names_of(lambda: scripted(X)) == ["nn.Module: RecursiveScriptModule_0"]


def test_what_is_compiled_is_not_compiled_again(model, dynamo):
    compiled = torch.compile(model, backend="eager")
    compiled(X)
    assert names_of(lambda: compiled(X)) == []
    compiled(X)
    assert frames_compiled() == 1


@pytest.mark.filterwarnings("error:Using `torch.compile")
def test_hooks_go_when_the_compiler_begins(model, dynamo):
    compiled = torch.compile(model, backend="eager")
    outer = nn.Sequential(nn.ReLU(), compiled)
    before = ["nn.Module: Sequential_0", "nn.Module: ReLU_0", "nn.Module: OptimizedModule_0"]
    assert names_of(lambda: outer(X), times=2)[:3] == before
    compiled(X)
    assert frames_compiled() == 1


@pytest.mark.parametrize(("flags", "named"), [((), 4), (("--no-modules",), 0)])
def test_recordings_name_modules_unless_told_not_to(tmp_path, flags, named):
    collect("torch", "-o", tmp_path, *SMALL, *flags, "--", sys.executable, TRAIN, 40)
    events = trace_events(tmp_path / "trace.rank0.json.gz")
    names = {event["name"] for event in events if str(event.get("name")).startswith("nn.Module: ")}
    assert len(names) == named
