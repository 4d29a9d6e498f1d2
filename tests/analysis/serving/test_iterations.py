"""Iterations of serving engines: cut by their device work, whatever the host did meanwhile."""

from __future__ import annotations

import re

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.analysis.names.serving import Split, split
from traceanalyzer.analysis.serving.fit import decode_fit
from traceanalyzer.analysis.serving.gap_causes import serving_stage
from traceanalyzer.analysis.serving.rows import IterationRow
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.diagnosis.serving.sentences import sentences, serving_values
from traceanalyzer.trace import CopyKind, DeviceOpKind

DECODE = "execute_{0}_context_0(sq0sk0sqsq0sqsk0)_generation_{0}(sq{0}sk{1}sqsq{0}sqsk{1})"


def rows(b: TraceBuilder, name: str | None = None) -> list[IterationRow]:
    return measure(b.build(), Knowledge(iteration_name=name)).iterations


def decode(
    b: TraceBuilder, i: int, at: float, busy: float, *, late: float = 10, stage: str = ""
) -> None:
    """One synchronous iteration: prepare, replay, copy the tokens back, wait; then a stage until
    the next."""
    number = 10 * i + 1
    b.call("cudaMemcpyAsync", at, at + 2, number)
    b.kernel(
        "Memcpy HtoD",
        at + 3,
        at + 4,
        number,
        kind=DeviceOpKind.MEMCPY,
        copy_kind=CopyKind.HOST_TO_DEVICE,
    )
    b.annotation(DECODE.format(8, 100 + i), at + 5, at + 12)
    b.call("cudaGraphLaunch", at + 6, at + 10, number + 1)
    b.kernel("gemm", at + 10, at + 10 + busy, number + 1)
    b.call("cudaMemcpyAsync", at + 13, at + 14, number + 2)
    end = at + 10 + busy
    b.kernel(
        "Memcpy DtoH",
        end,
        end + 1,
        number + 2,
        kind=DeviceOpKind.MEMCPY,
        copy_kind=CopyKind.DEVICE_TO_HOST,
    )
    b.call("cudaStreamSynchronize", at + 15, end + 1)
    if stage:
        b.annotation(stage, end + 1, end + 1 + late)


def test_inputs_belong_to_the_iteration_that_they_prepare() -> None:
    b = TraceBuilder()
    for i in range(3):
        decode(b, i, 100 * i, 50, late=35, stage="scheduler: schedule")
    found = rows(b)
    assert [row.gpu_ops for row in found[1:]] == [3, 3]
    assert [row.gpu_busy_ms for row in found[1:]] == [0.052, 0.052]
    assert [row.gpu_span_ms for row in found[1:]] == [0.058, 0.058]
    assert [row.gap_ms for row in found] == [0.042, 0.042, None]
    assert [row.gap_cause for row in found] == ["scheduling", "scheduling", None]
    assert [row.graph for row in found] == ["replayed"] * 3
    assert [(row.requests, row.generation_tokens, row.kv_tokens) for row in found] == [
        (8, 8, 100 + i) for i in range(3)
    ]


def test_a_host_that_runs_ahead_overlaps_its_iterations() -> None:
    b = TraceBuilder()
    for i in range(3):
        b.annotation(DECODE.format(4, 50), 10 * i, 10 * i + 8)
        b.call("cudaGraphLaunch", 10 * i + 1, 10 * i + 3, i + 1)
        b.kernel("gemm", 20 + 100 * i, 120 + 100 * i, i + 1)
    found = rows(b)
    assert [(row.gpu_span_ms, row.gap_ms) for row in found] == [(0.1, 0.0), (0.1, 0.0), (0.1, None)]
    assert [row.period_ms for row in found] == [None, 0.1, 0.1]


def test_marks_that_overlap_on_two_threads_are_two_iterations() -> None:
    b = TraceBuilder()
    for i in range(2):
        b.annotation(DECODE.format(4 + i, 50), 10 * i, 10 * i + 15, thread=i)
        b.call("cudaGraphLaunch", 10 * i + 1, 10 * i + 3, i + 1, thread=i)
        b.kernel("gemm", 20 + 100 * i, 120 + 100 * i, i + 1)
    assert [row.requests for row in rows(b)] == [4, 5]


def test_nested_and_doubled_marks_are_one_and_tell_what_the_other_does_not() -> None:
    b = (
        TraceBuilder()
        .annotation("step[DECODE bs=32]", 0, 50)
        .annotation(DECODE.format(32, 900), 1, 49)
    )
    b.annotation("step[DECODE bs=32]", 0, 50, thread=1)
    b.call("cudaGraphLaunch", 2, 4, 1).kernel("gemm", 5, 60, 1)
    (row,) = rows(b)
    assert (row.requests, row.kv_tokens) == (32, 900)
    assert serving_values(measure(b.build()))["server"] == "sglang"


def test_a_draft_is_part_of_the_iteration_that_verifies_it() -> None:
    b = TraceBuilder()
    for i in range(2):
        at = 100 * i
        b.annotation("draft", at, at + 10).annotation("step[DECODE bs=4]", at + 1, at + 9)
        b.annotation("step[TARGET_VERIFY bs=4 c_sq=16]", at + 20, at + 40)
        b.annotation("step[DRAFT_EXTEND_V2 bs=4]", at + 50, at + 60)
        for j, begins in enumerate((2, 22, 52)):
            b.call("cudaGraphLaunch", at + begins, at + begins + 2, 10 * i + j + 1)
            b.kernel("gemm", at + begins + 3, at + begins + 8, 10 * i + j + 1)
    found = rows(b)
    assert [(row.phase, row.generation_tokens) for row in found] == [("verify", 16)] * 2


def test_the_capture_of_graphs_is_no_iteration() -> None:
    b = TraceBuilder().annotation("capture_32_FULL", 0, 50).annotation(DECODE.format(32, 0), 1, 49)
    b.call("cudaLaunchKernel", 2, 3, 1)
    b.annotation(DECODE.format(8, 64), 100, 150).call("cudaGraphLaunch", 102, 104, 2).kernel(
        "gemm", 105, 145, 2
    )
    assert [row.requests for row in rows(b)] == [8]


def test_graphs_of_parts_of_the_model_are_piecewise() -> None:
    b = TraceBuilder().annotation(DECODE.format(8, 64), 0, 1000)
    for i in range(12):
        name = "cudaGraphLaunch" if i % 2 == 0 else "cudaLaunchKernel"
        b.call(name, 10 * i + 1, 10 * i + 2, i + 1).kernel("k", 10 * i + 3, 10 * i + 9, i + 1)
    (row,) = rows(b)
    assert (row.graph, row.graph_launches, row.launches) == ("piecewise", 6, 6)


def test_what_was_launched_in_time_waits_for_what_is_not_recorded() -> None:
    b = TraceBuilder()
    for i, starts in enumerate((5, 5000)):
        b.annotation(DECODE.format(8, 64), 20 * i, 20 * i + 10)
        b.call("cudaGraphLaunch", 20 * i + 1, 20 * i + 3, i + 1).kernel(
            "gemm", starts, starts + 10, i + 1
        )
    assert rows(b)[0].gap_cause == "unknown"


def test_without_a_mark_the_unit_is_unknown_and_a_name_tells_it() -> None:
    b = TraceBuilder()
    for i in range(4):
        b.annotation(f"my forward {i}", 100 * i, 100 * i + 50)
        b.call("cudaGraphLaunch", 100 * i + 1, 100 * i + 3, i + 1).kernel(
            "gemm", 100 * i + 5, 100 * i + 60, i + 1
        )
    assert rows(b) == []
    assert [row.phase for row in rows(b, "^my forward")] == [None] * 4


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (
            "execute_8192_context_9(sq8155sk8430sqsq7sqsk7)_generation_37(sq37sk34489sqsq37sqsk4)",
            (9, 8155, 37, 37),
        ),
        ("execute_context_1(888_788544)_generation_0(0)", (1, 888, 0, 0)),
        ("execute_new_2_cached_30", (None, None, None, None)),
        ("step[EXTEND bs=15 toks=15360]", (15, 15360, 0, 0)),
        ("step[MIXED bs=66 c=2 g=64 c_sq=900 g_sq=64 c_sqsq=1 g_sqsq=64]", (2, 900, 64, 64)),
        ("step[DECODE bs=64 g_sq=128 g_sqsq=256]", (0, 0, 64, 128)),
        ("step[TARGET_VERIFY bs=4 c_sq=16]", (0, 0, 4, 16)),
        ("step[idle]", (0, 0, 0, 0)),
        ("decode[bs=8/16 tok=8 sk=100]", (0, 0, 8, 8)),
        ("[Executor] _forward_step 9: 2 ctx reqs, 30 ctx tokens, 5 gen reqs", (2, 30, 5, 5)),
        ("ProfilerStep#3", (None, None, None, None)),
    ],
)
def test_prefills_and_decodes_of_a_mark(name: str, parts: tuple[int | None, ...]) -> None:
    assert split(name) == Split(*parts)


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("vllm/v1/core/sched/scheduler.py(168): schedule", "scheduling"),
        (
            "/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py(2200): get_next_batch_to_run",
            "scheduling",
        ),
        (
            "/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py(900): event_loop_overlap",
            None,
        ),
        ("vllm/v1/worker/gpu_model_runner.py(931): _update_states", "input preparation"),
        ("vllm/v1/sample/sampler.py(60): forward", "sampling"),
        ("vllm/v1/engine/output_processor.py(300): process_outputs", "detokenising"),
        ("step[idle]", "nothing to do"),
        ("aten::mm", None),
    ],
)
def test_stages_of_a_servers_loop(name: str, stage: str | None) -> None:
    assert serving_stage(name) == stage


def made(requests: int, kv: int, a: float, b: float, c: float) -> IterationRow:
    time = a + b * requests + c * kv
    return IterationRow(
        0,
        0.0,
        "decode",
        requests,
        0,
        requests,
        kv,
        1,
        time,
        time,
        time + 0.5,
        0,
        0,
        None,
        None,
        1,
        0,
        1,
        None,
    )


def test_decode_time_is_taken_apart() -> None:
    batches = [(r, r * n) for r in (4, 8, 16, 32) for n in (100, 1000, 5000)]
    fit = decode_fit([made(*batch, 2.0, 0.01, 2e-5) for batch in batches])
    assert fit is not None
    assert (fit.a_ms, fit.per_request_ms, fit.per_kv_token_ms) == pytest.approx((2.0, 0.01, 2e-5))
    assert fit.gpu_ms(64, 100_000) == pytest.approx(2.0 + 0.64 + 2.0)
    assert fit.error_share < 1e-6


def test_a_term_below_zero_is_no_term_and_few_batches_make_no_fit() -> None:
    batches = [(r, r * n) for r in (4, 8, 16, 32) for n in (100, 1000, 5000)]
    fit = decode_fit([made(*batch, 2.0, -0.01, 2e-5) for batch in batches])
    assert fit is not None
    assert fit.per_request_ms is None
    assert decode_fit([made(8, 100 * n, 2.0, 0.01, 2e-5) for n in range(20)]) is None


def test_sentences_tell_waiting_for_the_cpu_from_an_unknown_wait() -> None:
    late = TraceBuilder()
    unknown = TraceBuilder()
    for i in range(3):
        decode(late, i, 1000 * i, 50)
        unknown.annotation(DECODE.format(8, 64), 20 * i, 20 * i + 10)
        unknown.call("cudaGraphLaunch", 20 * i + 1, 20 * i + 3, i + 1).kernel(
            "g", 5 + 5000 * i, 20 + 5000 * i, i + 1
        )
    assert re.search(
        "3 decode iterations .*: 1 ms, .* waiting for the CPU",
        next(sentences(measure(late.build()))),
    )
    assert "waiting for what the recording does not show" in next(
        sentences(measure(unknown.build()))
    )
