"""PyTorch's operators are named for nsys while it captures, whatever the script does meanwhile."""

from __future__ import annotations

import threading

import pytest

torch = pytest.importorskip("torch")

from torch.autograd import profiler  # noqa: E402

from traceanalyzer.collect.plan import CapturePlan  # noqa: E402
from traceanalyzer.collect.profilers.operator_names import OperatorNames  # noqa: E402
from traceanalyzer.collect.profilers.other_profilers import WATCH  # noqa: E402
from traceanalyzer.collect.profilers.profiler_range import CudaProfiler  # noqa: E402

PLAN = CapturePlan("capture", recorder="nsys", operators=True)


class Emitting:
    """In the place of `emit_nvtx`, which needs a GPU; what happens to it stands in `said`."""

    said: list[str] = []  # noqa: RUF012

    def __init__(self, record_shapes):
        self.said.append(f"shapes {record_shapes}")

    def __enter__(self):
        self.said.append("begun")

    def __exit__(self, *raised):
        self.said.append("ended")


@pytest.fixture
def said(monkeypatch):
    monkeypatch.setattr(Emitting, "said", [])
    monkeypatch.setattr(profiler, "emit_nvtx", Emitting)
    yield Emitting.said
    WATCH.give_way = None


def test_names_begin_and_end_once_with_shapes(said):
    names = OperatorNames(PLAN)
    names.begin()
    names.end()
    names.end()
    assert said == ["shapes True", "begun", "ended"]


def test_they_give_way_to_a_profiler_of_the_script(said):
    names = OperatorNames(PLAN)
    names.begin()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert said[-1] == "ended"
    names.end()
    assert said.count("ended") == 1


def test_nothing_is_named_while_a_profiler_of_the_script_is_on(said):
    names = OperatorNames(PLAN)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        names.begin()
    names.end()
    assert said == ["shapes True"]


def test_ranges_that_outlive_the_names_end_before_them(said, monkeypatch):
    """A step ends inside of the optimizer's range."""
    exits = []
    original = torch.ops.profiler._record_function_exit._RecordFunction

    def exit_of(record):
        exits.append(said[-1])
        return original(record)

    entered = profiler.record_function.__enter__
    names = OperatorNames(PLAN)
    with profiler.record_function("before"):
        names.begin()
        with profiler.record_function("has ended"):
            pass
        with profiler.record_function("epoch"), profiler.record_function("Optimizer.step"):
            with monkeypatch.context() as patched:
                patched.setattr(
                    torch.ops.profiler._record_function_exit, "_RecordFunction", exit_of
                )
                names.end()
            assert exits == ["begun", "begun"]
    assert said[-1] == "ended"
    assert profiler.record_function.__enter__ is entered


def test_another_thread_ends_nothing(said):
    names = OperatorNames(PLAN)
    names.begin()
    other = threading.Thread(target=names.end)
    other.start()
    other.join()
    assert "ended" not in said
    names.end()
    assert said[-1] == "ended"


def test_without_a_gpu_the_capture_goes_on_without_names():
    names = OperatorNames(PLAN)
    names.begin()
    names.end()
    names.forked()
    assert WATCH.give_way is None
    assert not WATCH.busy()


def test_steps_are_no_part_of_the_stack_of_ranges(said, monkeypatch):
    calls = []
    for name in ("range_start", "range_end", "range_push", "range_pop"):
        monkeypatch.setattr(
            torch.cuda.nvtx, name, lambda *values, name=name: calls.append((name, *values)) or 7
        )
    named = CudaProfiler(PLAN)
    named.push(3)
    named.pop()
    bare = CudaProfiler(CapturePlan("capture", recorder="ncu"))
    bare.push(4)
    bare.pop()
    assert calls == [
        ("range_start", "step 3"),
        ("range_end", 7),
        ("range_push", "step 4"),
        ("range_pop",),
    ]
