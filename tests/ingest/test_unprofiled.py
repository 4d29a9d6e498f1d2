"""What a capture knows of the step without the profiler, and what speaks against it."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.ingest.test_capture import capture, event
from traceanalyzer import load
from traceanalyzer.ingest.unprofiled import light_of

STEADY = {
    "step_time_ms": 1.6,
    "steady": True,
    "low_ms": 1.5,
    "high_ms": 1.7,
    "unit": "step of SGD",
    "clock": "host",
}
BASE_NS = 10**18


def write_light(folder, *, unit="step of SGD", ends=None, events=None):
    """Five steps of 2 ms on the host; each launches a kernel of 1 ms, a copy inside it, and one of
    0.5 ms later."""
    made = []
    for i in range(5):
        at = i * 2000
        for j, (category, start, duration) in enumerate(
            (("kernel", 400, 1000), ("gpu_memcpy", 500, 100), ("kernel", 1500, 500))
        ):
            made.append(
                event(
                    "cuda_runtime", "cudaLaunchKernel", at + 10 + j, 1, 1, correlation=3 * i + j + 1
                )
            )
            work = {"correlation": 3 * i + j + 1, "device": 0, "stream": 7 + j % 2}
            made.append(event(category, "x", at + start, duration, 7, **work))
    ends = [BASE_NS + i * 2_000_000 for i in range(6)] if ends is None else ends
    text = json.dumps(
        {
            "schemaVersion": 1,
            "traceanalyzer_step": unit,
            "traceanalyzer_light": {"step_ends_ns": ends},
            "baseTimeNanoseconds": BASE_NS,
            "traceEvents": made if events is None else events,
        }
    )
    path = folder / "light.rank0.json.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def unprofiled(folder, **changes):
    (folder / "unprofiled.rank0.json").write_text(json.dumps(STEADY | changes))


def test_a_light_recording_gives_the_step(tmp_path):
    capture(tmp_path)
    write_light(tmp_path)
    unprofiled(tmp_path)
    (trace,) = load(tmp_path).traces
    assert trace.path.endswith("trace.rank0.json")
    assert trace.light.step_ns == 2_000_000
    assert trace.light.unit == "step of SGD"
    assert trace.unprofiled_step_ns == trace.stopwatch.step_ns == 1_600_000
    assert (trace.stopwatch.low_ns, trace.stopwatch.high_ns) == (1_500_000, 1_700_000)


def test_the_light_recording_is_read_by_itself_where_it_is_named(tmp_path):
    capture(tmp_path)
    (trace,) = load(write_light(tmp_path)).traces
    assert trace.path.endswith("light.rank0.json.gz")
    assert len(trace.device_ops) == 15
    assert trace.light is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"steady": False}, "were not steady (median 1.6 ms)"),
        ({"steady": None, "host_ms": {"min": 0.1, "median": 1.6}}, "were not steady"),
        ({"after_profiler": True, "clock": "cuda_events"}, "timed after another profile"),
        (
            {"unit": "call of Linear"},
            "The timed step was a call of Linear, the recorded one a step of SGD",
        ),
        (
            {"step_time_ms": 46.0, "low_ms": 44.0, "high_ms": 48.0},
            "Recorded steps (2 ms) were faster",
        ),
    ],
)
def test_what_speaks_against_the_stopwatch_is_said_and_the_step_is_not_measured(
    tmp_path, changes, said
):
    capture(tmp_path)
    write_light(tmp_path)
    unprofiled(tmp_path, **changes)
    (trace,) = load(tmp_path).traces
    assert trace.unprofiled_step_ns is None
    assert trace.stopwatch is not None
    assert any(said in note for note in trace.health.notes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"after_profiler": True},
        {"steady": None, "host_ms": {"min": 1.0, "median": 1.6}},
        {"steady": None, "host_ms": "x"},
        {"low_ms": 3.0, "unit": 7},
        {"low_ms": None},
    ],
)
def test_nothing_speaks_against_it(tmp_path, changes):
    capture(tmp_path)
    write_light(tmp_path)
    unprofiled(tmp_path, **changes)
    (trace,) = load(tmp_path).traces
    assert trace.unprofiled_step_ns == 1_600_000


@pytest.mark.parametrize("time", [1e307, 10**400, 1e-300, -1, True, "1", None])
def test_times_that_make_no_sense_are_no_times(tmp_path, time):
    capture(tmp_path)
    unprofiled(tmp_path, step_time_ms=time)
    (trace,) = load(tmp_path).traces
    assert trace.stopwatch is None
    assert any("holds no step time" in note for note in trace.health.notes)


@pytest.mark.parametrize(
    "changes",
    [
        {"ends": []},
        {"ends": ["x"]},
        {"ends": [10**30, 10**31, 10**32]},
        {"ends": [3, 2, 1]},
        {"ends": [1, 2, 3, 4]},
        {"events": []},
        {"events": [event("kernel", "x", 1, 1, 7, device=0, stream=7)]},
    ],
)
def test_a_damaged_light_recording_is_none(tmp_path, changes):
    assert light_of(write_light(tmp_path, **changes)) is None


def test_a_cut_off_light_recording_and_one_that_is_none(tmp_path):
    path = write_light(tmp_path)
    path.write_bytes(path.read_bytes()[:60])
    assert light_of(path) is None
    path.write_text("no recording")
    assert light_of(path) is None


@pytest.mark.parametrize(("longest_ms", "is_told"), [(12.0, True), (2.4, False)])
def test_long_steps_that_the_median_leaves_out_are_told(tmp_path, longest_ms, is_told):
    """A program that collects garbage now and then has its time in each step of a long run."""
    capture(tmp_path)
    summary = {"count": 20, "median": 2.0, "mean": 1.9 + longest_ms / 20, "max": longest_ms}
    unprofiled(tmp_path, step_time_ms=2.0, low_ms=1.9, high_ms=2.1, cuda_ms=summary)
    (trace,) = load(tmp_path).traces
    told = [note for note in trace.health.notes if "The mean is" in note]
    assert bool(told) == is_told
    assert (
        not told
        or "is the median, 2 ms. The mean is 2.5 ms: the longest of 20 took 12 ms" in told[0]
    )


UNSETTLED = {"steady": False, "step_time_ms": 2.0, "low_ms": 1.9, "high_ms": 2.1}


def test_steps_that_did_not_settle_tell_a_step_by_a_range(tmp_path):
    capture(tmp_path)
    unprofiled(tmp_path, **UNSETTLED, series_ms=[1.5, 2.5, *[1.9, 2.0, 2.1] * 6])
    (trace,) = load(tmp_path).traces
    assert trace.unprofiled_step_ns == 2_000_000
    assert (trace.stopwatch.low_ns, trace.stopwatch.high_ns) == (1_880_000, 2_120_000)
    assert any(
        "were not steady: nine of ten took 1.88 to 2.12 ms" in note for note in trace.health.notes
    )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"series_ms": [2.0] * 9},
        {"series_ms": "x"},
        {"series_ms": [None, True, "2"] * 9},
        {"series_ms": [1.0, 3.0] * 9, "low_ms": 1.0, "high_ms": 3.0},
        {"series_ms": [9.0] * 20},
    ],
)
def test_steps_of_many_lengths_tell_none(tmp_path, changes):
    capture(tmp_path)
    unprofiled(tmp_path, **(UNSETTLED | changes))
    (trace,) = load(tmp_path).traces
    assert trace.unprofiled_step_ns is None


def test_steps_that_workers_feed_may_be_faster_when_they_are_recorded(tmp_path):
    capture(tmp_path)
    write_light(tmp_path)
    unprofiled(tmp_path, step_time_ms=46.0, low_ms=44.0, high_ms=48.0)
    (trace,) = load(tmp_path).traces
    assert trace.unprofiled_step_ns is None
    recorded = next(tmp_path.glob("trace.rank0.json*"))
    values = json.loads(recorded.read_text())
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    values["traceEvents"].append(event("user_annotation", name, 1, 1, 1))
    recorded.write_text(json.dumps(values))
    (trace,) = load(tmp_path).traces
    assert trace.fed_by_workers
    assert trace.unprofiled_step_ns == 46_000_000
