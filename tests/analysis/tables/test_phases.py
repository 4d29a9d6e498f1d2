from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.analysis.collectives import GEMM, Ranked
from tests.recorded import recording
from traceanalyzer.analysis.causes.gaps import idle_by_cause
from traceanalyzer.analysis.names.phase_names import INPUT_NAMES
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.trace import RangeKind


def phases(builder: Ranked):
    return {row.name: row for row in measure(builder.trace()).phase_rows}


def recorded(path: Path) -> Measurements:
    from traceanalyzer.ingest import load

    return measure(load([path]).traces[0])


def stepped() -> Ranked:
    """Three steps of 1000 us with a forward phase of 300 us that launches one kernel."""
    builder = Ranked()
    for step in range(3):
        at = 1000 * step
        builder.annotation(f"ProfilerStep#{step}", at, at + 1000).annotation(
            "forward", at + 100, at + 400
        )
        builder.launched(GEMM, at + 500, at + 600, at + 200)
    return builder


def test_a_phase_has_what_was_launched_inside_it():
    (row,) = measure(stepped().trace()).phase_rows
    assert (row.name, row.depth, row.calls, row.derived) == ("forward", 0, 1, False)
    assert row.host_ms == pytest.approx(0.3)
    assert row.device_ms == pytest.approx(0.1)
    assert row.device_span_ms == pytest.approx(0.1)
    assert (row.host_share, row.device_share) == pytest.approx((0.3, 0.1))


def test_the_largest_cause_of_idle_time_is_that_of_the_gaps():
    m = measure(stepped().trace())
    idle = idle_by_cause(m.timed, m.causes.gaps, 0)
    for i, row in enumerate(m.step_rows):
        largest = max(idle, key=lambda cause: idle[cause][i])
        assert row.largest_idle_cause == largest.label


def test_the_step_and_what_holds_it_are_not_phases():
    builder = stepped().annotation("training loop", -10, 3010).annotation("train_step", 0, 1000)
    assert set(phases(builder)) == {"forward"}


@pytest.mark.parametrize("name", ["nccl:all_reduce", "record_param_comms", "ncclGroupEnd"])
def test_ranges_of_collectives_are_not_phases(name):
    assert set(phases(stepped().annotation(name, 120, 130))) == {"forward"}


def test_phases_inside_phases_follow_them():
    builder = stepped()
    for step in range(3):
        builder.annotation("attention", 1000 * step + 150, 1000 * step + 250)
    builder.annotation("loss", 410, 420)
    rows = measure(builder.trace()).phase_rows
    assert [(row.name, row.depth, row.within) for row in rows] == [
        ("forward", 0, None),
        ("attention", 1, "forward"),
        ("loss", 0, None),
    ]
    assert rows[0].device_ms == rows[1].device_ms == pytest.approx(0.1)


def test_numbers_are_dropped_only_where_instances_differ_in_them():
    builder = stepped()
    for step in range(3):
        builder.annotation(f"micro batch {step}", 1000 * step + 500, 1000 * step + 510)
        builder.annotation("resnet18", 1000 * step + 600, 1000 * step + 610)
    assert set(phases(builder)) == {"forward", "micro batch #", "resnet18"}


def test_repeated_phases_count_their_union_on_the_device():
    builder = Ranked()
    for i in range(2):
        builder.annotation("micro", 100 * i, 100 * i + 50).launched(
            GEMM, 200 + 50 * i, 300 + 50 * i, 100 * i + 10
        )
    builder.launched(GEMM, 1000, 1001, 900)
    row = phases(builder)["micro"]
    assert row.calls == 2
    assert row.device_ms == pytest.approx(0.15)
    assert row.device_span_ms == pytest.approx(0.2)


def test_a_blocked_thread_owns_what_autograd_launches_for_it():
    builder = stepped()
    for step in range(3):
        at = 1000 * step
        builder.annotation("backward", at + 420, at + 900).op("aten::ones_like", at + 421, at + 430)
        builder.launched(GEMM, at + 700, at + 750, at + 600, thread=1)
    assert phases(builder)["backward"].device_ms == pytest.approx(0.05)


def test_a_thread_that_works_does_not_own_what_others_launch():
    builder = stepped()
    for step in range(3):
        at = 1000 * step
        builder.annotation("backward", at + 420, at + 900)
        for i in range(6):
            builder.op("aten::mm", at + 425 + 80 * i, at + 440 + 80 * i)
        builder.launched(GEMM, at + 700, at + 750, at + 600, thread=1)
    assert phases(builder)["backward"].device_ms == 0


def test_a_thread_in_a_phase_of_its_own_works_for_that_one():
    builder = stepped()
    for step in range(3):
        at = 1000 * step
        builder.annotation("wait", at + 420, at + 900).annotation(
            "prefetch", at + 580, at + 650, thread=1
        )
        builder.launched(GEMM, at + 700, at + 750, at + 600, thread=1)
    rows = phases(builder)
    assert rows["wait"].device_ms == 0
    assert rows["prefetch"].device_ms == pytest.approx(0.05)


def test_input_loading_is_told_by_its_name():
    builder = stepped().annotation(
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, 90
    )
    assert [row.is_input for row in measure(builder.trace()).phase_rows] == [True, False]


@pytest.mark.parametrize(
    ("name", "is_input"),
    [
        ("data_loading", True),
        ("prefetch", True),
        ("FSDP::backward_prefetch for transformer.h.3", False),
        ("FullyShardedDataParallel._pre_forward_prefetch", False),
        ("prefetch_params", False),
    ],
)
def test_prefetched_parameters_are_no_input(name: str, is_input: bool):
    assert bool(INPUT_NAMES.search(name)) is is_input


def autograd(*, annotated: bool = False) -> Ranked:
    builder = Ranked()
    builder.op("aten::linear", 0, 20, sequence=5).launched(GEMM, 100, 130, 10)
    builder.op("autograd::engine::evaluate_function: AddmmBackward0", 30, 60, thread=1)
    builder.op("AddmmBackward0", 31, 59, thread=1, sequence=5, forward_thread=1)
    builder.launched(GEMM, 130, 190, 40, thread=1)
    builder.op("aten::_foreach_add_", 70, 80).launched("multi_tensor_apply_kernel", 190, 200, 75)
    builder.op("aten::zeros", 81, 90, sequence=6).launched("fill", 200, 201, 85)
    return builder.annotation("forward", 0, 25) if annotated else builder


def test_autograd_tells_the_phases_where_nobody_annotated():
    rows = phases(autograd())
    assert {name: row.device_ms for name, row in rows.items()} == pytest.approx(
        {"forward": 0.03, "backward": 0.06, "optimizer": 0.01}
    )
    assert rows["backward"].host_ms == pytest.approx(0.03)
    assert all(
        row.derived and row.calls is None and row.device_span_ms is None for row in rows.values()
    )


def test_a_phase_that_lies_outside_of_the_steps_waits_for_nothing():
    builder = autograd()
    for at in (1000, 2000, 3000):
        builder.annotation(f"ProfilerStep#{at}", at, at + 1000).launched(
            GEMM, at + 500, at + 600, at + 200
        )
        builder.call("cudaDeviceSynchronize", at + 300, at + 600)
    rows = phases(builder)
    assert [(rows[name].host_ms, rows[name].waits) for name in ("forward", "backward")] == [
        (0.0, 0.0)
    ] * 2


def test_nothing_is_derived_where_the_program_annotates():
    assert [row.derived for row in measure(autograd(annotated=True).trace()).phase_rows] == [False]


def test_an_annotated_optimizer_is_not_derived_as_well():
    builder = autograd().annotation("Optimizer.step#AdamW.step", 69, 80)
    assert [row.name for row in measure(builder.trace()).phase_rows] == [
        "Optimizer.step#AdamW.step",
        "forward",
        "backward",
    ]


@pytest.mark.parametrize("name", ["kineto/gpt_large_batch.base", "kineto/vit_small_batch.base"])
def test_derived_phases_agree_with_annotated_ones(name):
    ctx = recorded(recording(name))
    ranges = ctx.trace.host_ranges
    marks = [
        i for i, s in enumerate(ctx.trace.strings) if s in ("forward", "backward", "optimizer")
    ]
    without = replace(ctx.trace, host_ranges=ranges.take(~np.isin(ranges.name, marks)))
    annotated = {row.name: row for row in ctx.phase_rows}
    derived = {row.name: row for row in measure(without).phase_rows if row.derived}
    assert set(derived) == {"forward", "backward"}
    for phase, row in derived.items():
        assert row.device_ms == pytest.approx(annotated[phase].device_ms, rel=0.001)


def test_phases_against_a_search_through_every_range():
    ctx = recorded(recording("ranks2/ddp_accum_sync.base.rank0"))
    trace = ctx.trace
    steps = ctx.timed.steps
    ranges = trace.host_ranges
    calls = trace.api_calls
    ops = trace.device_ops
    rows = {row.name: row for row in ctx.phase_rows}
    for name in ("forward", "DistributedDataParallel.forward", "optimizer", "backward"):
        marks = [
            i
            for i in range(len(ranges))
            if ranges.kind[i] == RangeKind.ANNOTATION and trace.strings[ranges.name[i]] == name
        ]
        covered = []
        for op in range(len(ops)):
            call = ctx.linked.launch[op]
            if call < 0 or steps.of_op[op] < 0:
                continue
            for i in marks:
                inside = ranges.start[i] <= calls.start[call] < ranges.end[i]
                # The backward pass is launched by autograd's thread, all else by the annotating
                # one.
                if inside and (calls.thread[call] == ranges.thread[i] or name == "backward"):
                    covered.append((int(ops.start[op]), int(ops.end[op])))
        covered.sort()
        total = 0
        reach = 0
        for start, end in covered:
            total += max(end - max(start, reach), 0)
            reach = max(reach, end)
        assert rows[name].device_ms == pytest.approx(total / 1e6 / len(steps), rel=1e-9), name
        assert rows[name].calls == len(marks) / len(steps)


def test_the_device_time_of_a_training_step_is_in_its_phases():
    rows = {
        row.name: row
        for row in recorded(recording("kineto/gpt_large_batch.base")).phase_rows
        if row.depth == 0
    }
    assert [rows[n].device_ms for n in ("forward", "backward", "optimizer")] == pytest.approx(
        [31.289, 69.105, 3.618], abs=1e-3
    )
