from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from tests.analysis.build import TraceBuilder
from tests.recorded import CASES, recording
from traceanalyzer.analysis.time.steps import Steps, count_warmup
from traceanalyzer.base.errors import EmptyRecordingError
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.trace import DeviceRanges


def steps_of(builder: TraceBuilder, **fields: object) -> Steps:
    return measure(builder.build(**fields)).timed.steps


def device_behind(steps: int = 4, host: float = 10, period: float = 100) -> TraceBuilder:
    """The host needs 10 us a step, the device 100 us: its work runs ever further behind."""
    b = TraceBuilder()
    for i in range(steps):
        b.annotation(f"ProfilerStep#{i}", i * host, (i + 1) * host)
        b.call("cudaLaunchKernel", i * host + 1, i * host + 3, i + 1)
        b.kernel("k", 5 + i * period, 5 + (i + 1) * period, i + 1)
    return b


def test_a_device_behind_the_host_sets_the_step_time() -> None:
    steps = steps_of(device_behind())
    assert steps.source == "profiler_step"
    assert steps.duration.tolist() == [100_000, 100_000, 100_000, 100_000]
    assert steps.of_op.tolist() == [0, 1, 2, 3]


def test_a_host_behind_the_device_sets_the_step_time() -> None:
    """The device works 10 us at the end of each 100 us step, also in the last one."""
    b = TraceBuilder()
    for i in range(3):
        b.annotation(f"ProfilerStep#{i}", i * 100, (i + 1) * 100)
        b.call("cudaLaunchKernel", i * 100 + 80, i * 100 + 85, i + 1)
        b.kernel("k", i * 100 + 86, i * 100 + 96, i + 1)
    assert steps_of(b).duration.tolist() == [100_000, 100_000, 100_000]


def test_work_of_earlier_steps_that_drains_inside_the_window_is_not_the_first_steps() -> None:
    b = device_behind()
    b.kernel("warm-up", -400, 5, 99)
    steps = steps_of(b)
    assert steps.start[0] == 5_000
    assert steps.of_op.tolist() == [-1, 0, 1, 2, 3]


def test_the_recorders_shutdown_is_not_the_last_steps() -> None:
    """The profiler stops, and waits for the device, before the last step's range is closed."""
    b = TraceBuilder()
    for i in range(4):
        b.annotation(f"ProfilerStep#{i}", i * 100, (i + 1) * 100 + (3000 if i == 3 else 0))
        b.call("cudaLaunchKernel", i * 100 + 80, i * 100 + 85, i + 1)
        b.kernel("k", i * 100 + 86, i * 100 + 96, i + 1)
    b.call("cudaDeviceSynchronize", 700, 3300)
    assert steps_of(b).duration.tolist() == [100_000] * 4


def test_ops_without_a_launch_belong_with_the_op_before_them() -> None:
    b = device_behind()
    b.kernel("lost launch", 150, 160)
    assert steps_of(b).of_op.tolist() == [0, 1, 1, 2, 3]


def test_steps_from_a_repeated_annotation_that_holds_the_launches() -> None:
    b = TraceBuilder()
    for i in range(4):
        b.annotation(f"iteration {i}", i * 100, i * 100 + 90)
        b.annotation("forward", i * 100, i * 100 + 40)
        for j in range(2):
            at = i * 100 + 10 + 50 * j
            correlation = 2 * i + j + 1
            b.call("cudaLaunchKernel", at, at + 2, correlation).kernel(
                "k", at + 3, at + 9, correlation
            )
    steps = steps_of(b)
    assert steps.source == "annotation"
    assert steps.names == ("iteration 0", "iteration 1", "iteration 2", "iteration 3")


def test_steps_between_optimizer_steps() -> None:
    b = TraceBuilder()
    for i in range(4):
        for j in range(3):
            at = i * 100 + 20 * j
            correlation = 3 * i + j + 1
            b.call("cudaLaunchKernel", at, at + 2, correlation).kernel(
                "k", at + 3, at + 9, correlation
            )
        b.annotation("Optimizer.step#AdamW.step", i * 100 + 70, i * 100 + 90)
    steps = steps_of(b)
    assert steps.source == "annotation"
    assert len(steps) == 3
    assert steps.duration.tolist() == [100_000] * 3


def test_steps_from_the_period_of_the_device_work() -> None:
    """Five ops repeat; the pause before `embed` is the widest. How long the last one took is not
    recorded."""
    b = TraceBuilder()
    for i in range(6):
        for j, name in enumerate(("embed", "mm", "relu", "mm", "head")):
            b.kernel(name, i * 100 + 10 * j, i * 100 + 10 * j + 8)
    steps = steps_of(b)
    assert steps.source == "periodicity"
    assert len(steps) == 5
    assert np.diff(steps.start).tolist()[1:] == [100_000] * 3
    assert steps.of_op.tolist() == [i for i in (*range(5), -1) for _ in range(5)]


def test_a_recording_without_rhythm_is_one_step() -> None:
    b = TraceBuilder().kernel("a", 0, 10).kernel("b", 20, 25).kernel("c", 30, 31)
    steps = steps_of(b)
    assert steps.source == "recording"
    assert not steps.found
    assert steps.duration.tolist() == [31_000]


def test_gpu_only_recordings_use_the_projected_steps() -> None:
    b = TraceBuilder()
    for i in range(3):
        b.kernel("k", i * 100, i * 100 + 80)
    codes = [b.code(f"ProfilerStep#{i}") for i in range(3)]
    ranges = DeviceRanges.from_columns(
        {
            "name": codes,
            "start": [0, 100_000, 200_000],
            "end": [80_000, 180_000, 280_000],
            "device": [0] * 3,
        }
    )
    steps = steps_of(b, device_ranges=ranges)
    assert steps.source == "profiler_step"
    assert steps.of_op.tolist() == [0, 1, 2]


def test_an_empty_recording_has_one_empty_step() -> None:
    assert steps_of(TraceBuilder()).duration.tolist() == [0]


@pytest.mark.parametrize(
    ("durations", "warmup"),
    [
        ([10, 10, 10], 0),
        ([100, 10, 10], 1),
        ([100, 40, 10, 10, 10], 2),
        ([100, 10], 1),
        ([100], 0),
        ([10, 100], 0),
    ],
)
def test_slow_leading_steps_are_warmup(durations: list[int], warmup: int) -> None:
    assert count_warmup(np.array(durations)) == warmup


def test_one_step_alone_keeps_its_index_and_window() -> None:
    one = steps_of(device_behind()).only(2)
    assert (one.first, len(one), one.of_op.tolist()) == (2, 1, [-1, -1, 0, -1])
    assert one.duration.tolist() == [100_000]
    with pytest.raises(EmptyRecordingError, match="no step 9"):
        steps_of(device_behind()).only(9)


GPU_BOUND = (
    "gpt_large_batch.base",
    "gemm_fp32.base",
    "gemm_fp32.fix",
    "manual_layernorm.base",
    "adam_big.base",
)


@pytest.mark.parametrize("name", GPU_BOUND)
def test_gpu_bound_steps_agree_with_the_stopwatch(name: str) -> None:
    from traceanalyzer.ingest import load

    truth = CASES[f"kineto/{name}"]["step_ms_unprofiled"]
    steps = measure(load([recording(f"kineto/{name}")]).traces[0]).timed.steps
    assert steps.duration[steps.steady].mean() / 1e6 == pytest.approx(truth, rel=0.03)


@pytest.mark.parametrize(
    "name", ["gpt_large_batch.base", "vit_small_batch.base", "slow_dataloader.base"]
)
def test_the_period_of_the_device_work_finds_the_same_steps(name: str, tmp_path: Path) -> None:
    """With every annotation taken out, the step time from periodicity is that of the profiler's own
    steps."""
    from traceanalyzer.ingest import load

    path = recording(f"kineto/{name}")
    whole = json.loads(gzip.decompress(path.read_bytes()))
    kept = [
        e
        for e in whole["traceEvents"]
        if e.get("cat") not in ("user_annotation", "gpu_user_annotation")
    ]
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(whole | {"traceEvents": kept}))
    found = measure(load([bare]).traces[0]).timed.steps
    truth = measure(load([path]).traces[0]).timed.steps
    assert found.source == "periodicity"
    assert 0.98 * truth.duration.min() < np.median(found.duration) < 1.02 * truth.duration.max()


@pytest.mark.parametrize(("last", "steps"), [(5, 5), (2, 4)])
def test_a_last_repetition_without_the_pause_behind_it_is_no_step(last: int, steps: int) -> None:
    """Repetitions of 50 us and a pause of 50 us; of the last one the work of 80, or of 50, us is
    recorded."""
    b = TraceBuilder()
    for i in range(5):
        for j, name in enumerate(("embed", "mm", "relu", "mm", "head")):
            busy = 16 if i == 4 and last == 5 else 10
            b.kernel(name, i * 100 + busy * j, i * 100 + busy * j + busy - 2)
    found = steps_of(b)
    assert found.source == "periodicity"
    assert len(found) == steps
    assert found.duration[:4].tolist() == [100_000] * 4


def test_a_profiler_that_was_started_twice_has_the_steps_of_the_last_time() -> None:
    """In one file, 900 ms apart: the pause is no step."""
    b = TraceBuilder()
    for start in (0, 900_000):
        for step in range(3):
            at = start + step * 10_000
            b.annotation(f"ProfilerStep#{step + 3}", at, at + 9_990)
            number = start + step + 1
            b.call("cudaLaunchKernel", at + 10, at + 15, number)
            b.kernel("gemm", at + 30, at + 8_000, number)
    found = measure(b.build()).timed.steps
    assert found.names == ("ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5")
    assert found.duration.max() <= 10_100_000
