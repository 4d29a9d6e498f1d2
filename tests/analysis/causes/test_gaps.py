from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.build import US, TraceBuilder
from traceanalyzer.analysis.causes.details import IdleDetail
from traceanalyzer.analysis.causes.draining import REFILL_LAUNCHES
from traceanalyzer.analysis.causes.gaps import GapSide, find_gaps
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.tables.budget import step_budgets
from traceanalyzer.analysis.tables.gap_rows import gap_histogram, gap_places, gap_rows
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.replay.scenarios import LAUNCHES_FREE
from traceanalyzer.trace import CopyKind, DeviceOpKind, MemoryKind, OverheadKind

KERNEL_US = 5


class Program(TraceBuilder):
    """A host that goes along a timeline: every action begins where the last one ended."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.device_free = 0.0
        self.launched = 0

    def spend(self, us: float) -> Program:
        self.now += us
        return self

    def launch(
        self, name: str = "k", us: float = KERNEL_US, call: str = "cudaLaunchKernel", kind: int = 1
    ) -> Program:
        return self._launched(name, us, 4, call, kind)

    def launch_slowly(self, name: str, call_us: float, us: float = KERNEL_US) -> Program:
        """A launch whose call takes so long."""
        return self._launched(name, us, call_us, "cudaLaunchKernel", 1)

    def _launched(self, name: str, us: float, call_us: float, call: str, kind: int) -> Program:
        self.launched += 1
        self.call(call, self.now, self.now + call_us, self.launched)
        start = max(self.now + call_us + 2, self.device_free + 1)
        self.kernel(name, start, start + us, self.launched, kind=kind)
        self.device_free = start + us
        return self.spend(call_us)

    def within(self, name: str, us: float) -> Program:
        """A stretch inside an annotation."""
        self.annotation(name, self.now, self.now + us)
        return self.spend(us)

    def sync(self, name: str = "cudaStreamSynchronize") -> Program:
        end = max(self.now, self.device_free) + 3
        self.call(name, self.now, end)
        self.now = end
        return self


def causes(program: TraceBuilder) -> list[str]:
    gaps = find_gaps(measure(program.build()).started)
    return [IdleCause(c).label for c in gaps.cause[gaps.side == GapSide.INSIDE]]


def test_a_host_that_dispatches_too_slowly() -> None:
    program = Program()
    for _ in range(3):
        program.op("aten::mm", program.now, program.now + 30)
        program.spend(20).launch().spend(6)
    assert causes(program) == ["launch", "launch"]


def test_a_queued_op_starts_after_the_devices_own_latency() -> None:
    program = Program().launch(us=50).launch().launch()
    ctx = measure(program.build())
    gaps = find_gaps(ctx.started)
    inside = gaps.side == GapSide.INSIDE
    assert gaps.queued[inside].tolist() == [1, 1]
    assert causes(program) == ["launch", "launch"]


def test_a_long_pause_of_a_queued_op_is_not_explained() -> None:
    b = TraceBuilder()
    b.call("cudaLaunchKernel", 0, 4, 1).kernel("a", 6, 10, 1)
    b.call("cudaLaunchKernel", 5, 9, 2).kernel("b", 500, 510, 2)
    assert causes(b) == ["other"]


def test_a_wait_that_drains_the_queue_owns_the_idle_time_after_it() -> None:
    program = Program().launch(us=50).sync().spend(20).launch()
    assert causes(program) == ["sync"]
    ctx = measure(program.build())
    gaps = find_gaps(ctx.started)
    call = gaps.sync[gaps.side == GapSide.INSIDE][0]
    assert ctx.trace.strings[ctx.trace.api_calls.name[call]] == "cudaStreamSynchronize"


def test_a_wait_is_forgiven_once_the_host_could_have_refilled_the_queue() -> None:
    program = Program().launch(us=50).sync()
    for _ in range(REFILL_LAUNCHES + 4):
        program.spend(20).launch(us=12)
    found = causes(program)
    assert found[:REFILL_LAUNCHES] == ["sync"] * REFILL_LAUNCHES
    assert set(found[REFILL_LAUNCHES:]) == {"launch"}


def test_waiting_for_a_busy_device_costs_nothing() -> None:
    """The other stream keeps the device busy during the wait and after it."""
    b = TraceBuilder()
    b.call("cudaLaunchKernel", 0, 4, 1).kernel("long", 5, 500, 1, stream=7)
    b.call("cudaLaunchKernel", 5, 9, 2).kernel("short", 10, 20, 2, stream=8)
    b.call("cudaStreamSynchronize", 10, 22)
    b.call("cudaLaunchKernel", 60, 64, 3).kernel("next", 66, 70, 3, stream=8)
    assert causes(b) == []


def test_a_blocking_copy_is_a_wait() -> None:
    b = TraceBuilder()
    b.call("cudaLaunchKernel", 0, 4, 1).kernel("k", 6, 50, 1)
    b.call("cudaMemcpyAsync", 5, 70, 2)
    b.kernel("Memcpy DtoH (Device -> Pageable)", 51, 65, 2, kind=DeviceOpKind.MEMCPY)
    b.call("cudaLaunchKernel", 90, 94, 3).kernel("k", 96, 100, 3)
    assert causes(b)[-1] == "sync"


def test_an_asynchronous_copy_is_not() -> None:
    b = TraceBuilder()
    b.call("cudaMemcpyAsync", 0, 5, 1)
    b.kernel("Memcpy HtoD (Pinned -> Device)", 6, 60, 1, kind=DeviceOpKind.MEMCPY)
    b.call("cudaLaunchKernel", 90, 94, 2).kernel("k", 96, 100, 2)
    assert causes(b) == ["launch"]


def test_loading_input_owns_the_gap_also_after_a_wait() -> None:
    program = Program().launch(us=50).sync()
    program.within("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 900).spend(
        10
    ).launch()
    assert causes(program) == ["input"]


def test_a_long_stretch_without_operators_is_host_work() -> None:
    program = Program().launch().spend(800).launch()
    assert causes(program) == ["host"]


def loading_steps(nbytes: int = 1 << 20, *, answers: bool = False, steps: int = 3) -> Program:
    """Steps of host work, a copy to the device and a kernel; with `answers` each copies its results
    back first."""
    program = Program()
    for i in range(steps):
        start = program.now
        if answers:
            program.launch(
                "Memcpy DtoH (Device -> Pinned)", call="cudaMemcpyAsync", kind=DeviceOpKind.MEMCPY
            )
            program.rows["op"][-1] |= {"copy_kind": CopyKind.DEVICE_TO_HOST, "bytes": 1 << 20}
        program.spend(800)
        program.launch(
            "Memcpy HtoD (Pageable -> Device)", call="cudaMemcpyAsync", kind=DeviceOpKind.MEMCPY
        )
        program.rows["op"][-1] |= {"copy_kind": CopyKind.HOST_TO_DEVICE, "bytes": nbytes}
        program.launch()
        program.annotation(f"ProfilerStep#{i}", start, program.now)
    return program


def test_host_work_before_a_copy_that_every_step_makes_is_input() -> None:
    assert "input" in causes(loading_steps())
    assert "input" not in causes(loading_steps(8)), "eight bytes are no data"
    assert "input" not in causes(loading_steps(answers=True)), (
        "its results went back first: the host computes"
    )
    assert "input" not in causes(loading_steps(steps=1)), "once is no habit"


def test_without_steps_nothing_is_input() -> None:
    program = Program().launch().spend(800)
    program.launch(
        "Memcpy HtoD (Pageable -> Device)", call="cudaMemcpyAsync", kind=DeviceOpKind.MEMCPY
    )
    program.rows["op"][-1] |= {"copy_kind": CopyKind.HOST_TO_DEVICE, "bytes": 1 << 20}
    assert causes(program) == ["host"]


def test_a_loaders_functions_are_evidence_in_a_single_step() -> None:
    program = loading_steps(steps=1)
    program.launch().python("train.py(7): preprocess", 0, 805)
    assert "input" not in causes(program), "the gap lies before the first op"
    program = Program().launch()
    start = program.now
    program.spend(800)
    program.launch(
        "Memcpy HtoD (Pageable -> Device)", call="cudaMemcpyAsync", kind=DeviceOpKind.MEMCPY
    )
    program.rows["op"][-1] |= {"copy_kind": CopyKind.HOST_TO_DEVICE, "bytes": 1 << 20}
    program.annotation("ProfilerStep#0", 0, program.now).python(
        "train.py(7): preprocess", start, program.now
    )
    assert causes(program) == ["input"]


def test_a_wait_that_found_the_device_idle_took_nothing_away() -> None:
    program = Program().launch(us=50).spend(90).sync().spend(20).launch()
    assert causes(program) == ["launch"]


def test_a_host_too_slow_to_get_ahead_is_not_held_up_by_waits() -> None:
    program = Program()
    for _ in range(30):
        program.spend(40).launch(us=3)
    program.sync().spend(40).launch(us=3)
    assert set(causes(program)) == {"launch"}


@pytest.mark.parametrize(
    ("copy_kind", "operator", "cause"),
    [
        (CopyKind.HOST_TO_DEVICE, "aten::copy_", "launch"),
        (CopyKind.DEVICE_TO_HOST, "aten::_local_scalar_dense", "sync"),
    ],
)
def test_waits_of_copies_from_pageable_memory_are_not_what_a_slow_host_waits_for(
    copy_kind: CopyKind, operator: str, cause: str
) -> None:
    """Every few launches a small copy and a wait for it; launching takes far longer than the work."""
    program = Program()
    for turn in range(6):
        begin = program.now
        program.launch("Memcpy", us=1, kind=DeviceOpKind.MEMCPY).sync()
        program.rows["op"][-1] |= {"copy_kind": copy_kind, "source_memory": MemoryKind.PAGEABLE}
        program.op(operator, begin, program.now)
        for _ in range(5):
            program.spend(40).launch(us=2)
        program.annotation(f"ProfilerStep#{turn}", begin, program.now)
    found = causes(program)
    assert found.count(cause) > len(found) / 2


@pytest.mark.parametrize(
    ("call", "us", "detail"),
    [
        ("cudaMalloc", 400, IdleDetail.ALLOCATION),
        ("cuModuleLoadData", 400, IdleDetail.LOADING),
        ("cudaStreamCreateWithFlags", 4000, IdleDetail.LOADING),
        ("cudaGraphInstantiate", 400, IdleDetail.GRAPHS),
    ],
)
def test_calls_that_have_remedies_of_their_own(call: str, us: float, detail: IdleDetail) -> None:
    program = Program().launch()
    program.call(call, program.now, program.now + us)
    program.spend(us).launch("k")
    gaps = find_gaps(measure(program.build()).started)
    (gap,) = (gaps.side == GapSide.INSIDE).nonzero()[0]
    assert (gaps.cause[gap], gaps.detail[gap]) == (IdleCause.HOST, detail)


def test_a_first_launch_that_takes_long_loads_its_kernel() -> None:
    program = Program().launch()
    program.call("cudaLaunchKernel", 50, 5050, 90).kernel("new", 5060, 5070, 90)
    program.call("cudaLaunchKernel", 5100, 10_100, 91).kernel("new", 10_110, 10_120, 91)
    gaps = find_gaps(measure(program.build()).started)
    inside = gaps.side == GapSide.INSIDE
    assert gaps.detail[inside].tolist() == [IdleDetail.LOADING, IdleDetail.NONE]
    assert causes(program) == ["host", "launch"]


def test_pages_that_migrate_are_not_unexplained() -> None:
    b = TraceBuilder().call("cudaLaunchKernel", 0, 4, 1).kernel("k", 6, 50, 1)
    b.kernel(
        "Unified DtoH",
        200,
        210,
        kind=DeviceOpKind.MEMCPY,
        copy_kind=CopyKind.UNIFIED_DEVICE_TO_HOST,
    )
    gaps = find_gaps(measure(b.build()).started)
    assert gaps.detail[gaps.side == GapSide.INSIDE].tolist() == [IdleDetail.PAGE_MIGRATION]


def test_a_gap_with_lost_kernels_is_not_explained() -> None:
    b = TraceBuilder().call("cudaLaunchKernel", 0, 4, 1).kernel("k", 6, 50, 1)
    b.call("cudaLaunchKernel", 60, 64, 2)
    b.call("cudaLaunchKernel", 400, 404, 3).kernel("k", 406, 450, 3)
    gaps = find_gaps(measure(b.build()).started)
    assert causes(b) == ["other"]
    assert gaps.detail[gaps.side == GapSide.INSIDE].tolist() == [IdleDetail.LOST]


def test_launches_into_a_capture_are_not_lost() -> None:
    b = TraceBuilder().call("cudaLaunchKernel", 0, 4, 1).kernel("k", 6, 50, 1)
    b.call("cudaStreamBeginCapture", 55, 58)
    b.call("cudaLaunchKernel", 60, 64, 2).call("cudaLaunchKernel", 70, 74, 4)
    b.call("cudaStreamEndCapture", 200, 210)
    b.call("cudaGraphLaunch", 230, 234, 3).kernel("k", 236, 250, 3)
    m = measure(b.build())
    gaps = find_gaps(m.started)
    assert gaps.detail[gaps.side == GapSide.INSIDE].tolist() == [IdleDetail.GRAPHS]
    assert m.launches is not None
    assert m.launches.fruitless_share == 0
    assert m.launches.captured_calls == 2


@pytest.mark.parametrize(
    ("operator", "cause"), [("aten::to", "input"), ("aten::_chunk_cat", "host")]
)
def test_what_an_operator_copies_for_itself_is_no_input(operator: str, cause: str) -> None:
    program = loading_steps()
    copies = [row["correlation"] for row in program.rows["op"] if "bytes" in row]
    for row in [row for row in program.rows["call"] if row["correlation"] in copies]:
        at = row["start"] / US
        end = row["end"] / US
        program.op(operator, at - 5, end + 5).op("aten::copy_", at - 4, end + 4)
    assert cause in causes(program)
    assert {"host", "input"} - {cause} - set(causes(program))


def test_short_python_between_operators_is_dispatch() -> None:
    program = Program().launch().spend(60).launch()
    assert causes(program) == ["launch"]


def test_allocation_is_host_work() -> None:
    program = Program().launch()
    program.call("cudaMalloc", program.now + 10, program.now + 90)
    program.spend(95).launch()
    assert causes(program) == ["host"]


def test_waiting_in_a_communication_operator() -> None:
    program = Program().launch()
    program.op("c10d::barrier", program.now, program.now + 700)
    program.spend(700).launch()
    assert causes(program) == ["communication"]


def test_the_profilers_own_work() -> None:
    program = Program().launch()
    program.overhead(OverheadKind.PROFILER, program.now, program.now + 400)
    program.spend(400).launch()
    assert causes(program) == ["profiler"]


def test_a_thread_that_waits_for_the_autograd_thread_does_not_count() -> None:
    """Thread 0 sits in backward(); thread 1 dispatches and launches."""
    b = TraceBuilder()
    b.call("cudaLaunchKernel", 0, 4, 1, thread=0).kernel("forward", 6, 10, 1)
    for i in range(5):
        at = 20 + 60 * i
        b.op("MmBackward0", at, at + 58, thread=1)
        b.call("cudaLaunchKernel", at + 40, at + 44, i + 2, thread=1).kernel(
            "backward", at + 46, at + 50, i + 2
        )
    b.call("cudaLaunchKernel", 330, 334, 7, thread=0).kernel("optimizer", 336, 340, 7)
    assert set(causes(b)) == {"launch"}


def test_without_api_calls_the_cause_is_not_known() -> None:
    assert causes(TraceBuilder().kernel("a", 0, 10).kernel("b", 300, 310)) == ["other"]


def test_the_wait_the_profiler_adds_is_nobodys() -> None:
    program = Program().launch().sync("cudaDeviceSynchronize")
    assert not measure(program.build()).joined.blocks.any()


def test_idle_by_cause_partitions_the_idle_time_of_every_step() -> None:
    b = Program()
    for i in range(3):
        start = b.now
        b.within("enumerate(DataLoader)#x.__next__", 300).launch(us=20).spend(150).launch(
            us=20
        ).sync().spend(30)
        b.annotation(f"ProfilerStep#{i}", start, b.now)
    ctx = measure(b.build())
    budgets = step_budgets(ctx.timed, find_gaps(ctx.started), 0)
    assert sum(budgets.idle_by_cause.values()).tolist() == budgets.idle.tolist()
    parts = budgets.compute + budgets.exposed_communication + budgets.exposed_copy + budgets.idle
    assert parts.tolist() == budgets.duration.tolist()
    assert budgets.idle_by_cause[IdleCause.INPUT][1] > 0
    assert budgets.idle_by_cause[IdleCause.HOST][1] > 0


def test_rows_say_what_the_host_did_and_what_ended_the_gap() -> None:
    program = Program().launch("first").within("load_batch", 900).launch("second")
    ctx = measure(program.build())
    gaps = find_gaps(ctx.started)
    (row,) = gap_rows(ctx.timed, gaps, np.flatnonzero(gaps.side == GapSide.INSIDE))
    assert row.cause == "input"
    assert row.detail == "host in load_batch on thread 0; ended by second"
    assert (row.start_ns, row.duration_ns) == (11_000, 899_000)


def test_the_histogram_holds_all_idle_time() -> None:
    program = Program().launch().spend(20).launch().spend(800).launch()
    ctx = measure(program.build())
    gaps = find_gaps(ctx.started)
    rows = gap_histogram(ctx.timed, gaps)
    assert sum(r.idle_ms for r in rows) * 1e6 == pytest.approx(gaps.duration.sum())
    assert [r.scale for r in rows] == ["macro"] * len(rows)


def test_no_device_work_means_no_gaps() -> None:
    assert len(find_gaps(measure(TraceBuilder().op("aten::mm", 0, 10).build()).started)) == 0


def test_a_gap_is_described_by_the_thread_that_works_not_by_one_that_rests() -> None:
    b = TraceBuilder()
    b.annotation("ProfilerStep#0", 0, 3000)
    b.op("aten::relu", 0, 20).call("cudaLaunchKernel", 5, 10, 1).kernel("k1", 10, 50, 1)
    b.op("aten::conv2d", 60, 1000, thread=1)
    for i in range(9):
        b.call("cudaFuncGetAttributes", 100 + 90 * i, 110 + 90 * i, thread=1)
    b.call("cudaLaunchKernel", 950, 960, 2, thread=1).kernel("k2", 960, 1100, 2)
    # the first thread comes back and launches: it rested for all of the last gap as well
    b.op("aten::add_", 2000, 2020).call("cudaLaunchKernel", 2005, 2010, 3).kernel(
        "k3", 2010, 3000, 3
    )
    ctx = measure(b.build())
    gaps = find_gaps(ctx.started)
    details = [
        row.detail for row in gap_rows(ctx.timed, gaps, (gaps.side == GapSide.INSIDE).nonzero()[0])
    ]
    assert details == [
        "host in aten::conv2d on thread 1; ended by k2",
        "host in ProfilerStep#0 on thread 0; ended by k3",
    ]


def test_the_histogram_says_what_its_gaps_were_for() -> None:
    """Of three gaps of one length one is a wait's, one slow launching's, one the program's own
    work."""
    program = Program().launch(us=50).sync().spend(141).launch(us=200).within("aten::long", 0)
    ctx = measure(program.build())
    gaps = find_gaps(ctx.started)
    steps = ctx.timed.steps.steady_count
    idle = gaps.duration / 1e6
    for row in gap_histogram(ctx.timed, gaps):
        assert row.idle_ms == pytest.approx(
            row.launch_ms + row.sync_ms + row.host_ms + row.other_ms
        )
    by_cause = {cause: idle[gaps.cause == cause].sum() / steps for cause in IdleCause}
    rows = gap_histogram(ctx.timed, gaps)
    assert sum(row.sync_ms for row in rows) == pytest.approx(by_cause[IdleCause.SYNC])
    assert sum(row.launch_ms for row in rows) == pytest.approx(by_cause[IdleCause.LAUNCH])
    rest = sum(
        spent
        for cause, spent in by_cause.items()
        if cause not in (IdleCause.SYNC, IdleCause.LAUNCH, IdleCause.HOST)
    )
    assert sum(row.host_ms for row in rows) == pytest.approx(by_cause[IdleCause.HOST])
    assert by_cause[IdleCause.HOST] > 0.1
    assert sum(row.other_ms for row in rows) == pytest.approx(rest)


def test_idle_time_by_place_adds_up_to_all_of_it() -> None:
    program = (
        Program()
        .launch(us=50)
        .sync()
        .spend(141)
        .launch(us=200)
        .sync()
        .spend(60)
        .launch()
        .within("load_batch", 300)
    )
    ctx = measure(program.within("load_batch", 300).launch("last").build())
    gaps = ctx.causes.gaps
    steps = ctx.timed.steps.steady_count
    rows = gap_places(ctx.causes)
    assert sum(row.idle_ms for row in rows) * steps * 1e6 == pytest.approx(gaps.duration.sum())
    assert sum(row.share_of_idle for row in rows) == pytest.approx(1.0)
    assert [row.idle_ms for row in rows] == sorted((row.idle_ms for row in rows), reverse=True)
    waits = gaps.cause == IdleCause.SYNC
    (sync,) = [row for row in rows if row.cause == "sync"]
    assert (sync.name, sync.gaps * steps) == ("cudaStreamSynchronize", waits.sum())
    assert sync.idle_ms * steps * 1e6 == pytest.approx(gaps.duration[waits].sum())
    assert sync.longest_us * 1e3 == pytest.approx(gaps.duration[waits].max())


def test_what_waited_after_its_launch_returned_is_not_launch_bound() -> None:
    """The kernel is launched 38 us after the gap began, and starts 20 ms later: it waited for
    something else."""
    program = Program()
    for _ in range(3):
        program.launch().spend(38).launch(us=5)
        program.rows["op"][-1] |= {"start": program.rows["op"][-1]["start"] + 20_000 * US}
        program.rows["op"][-1] |= {"end": program.rows["op"][-1]["end"] + 20_000 * US}
        program.device_free += 20_000
        program.sync()
    m = measure(program.build())
    assert causes(program).count("other") == 3
    assert m.idle is not None
    assert m.idle.other == pytest.approx(60, rel=0.01)
    assert m.replay is not None
    assert m.replay.faithful
    assert m.unprofiled is not None
    assert m.unprofiled.idle_ms.other == pytest.approx(60, rel=0.02)
    assert m.replay.predict(LAUNCHES_FREE).speedup == pytest.approx(1.0, abs=0.02)


def test_a_place_is_where_the_host_was() -> None:
    """Between two kernels the host frees memory for 5 ms, and then launches a copy."""
    program = Program()
    for _ in range(3):
        program.launch().sync()
        program.call("cudaFree", program.now, program.now + 5000)
        program.spend(5000).launch("Memcpy HtoD", call="cudaMemcpyAsync", kind=DeviceOpKind.MEMCPY)
    m = measure(program.build())
    top = gap_places(m.causes)[0]
    assert (top.cause, top.name) == ("host", "cudaFree")
    assert {row.name for row in gap_places(m.causes, min_us=1000)} == {"cudaFree"}


def test_memory_is_freed_once_the_device_is_done() -> None:
    """Two frees begin while a kernel of 20 ms runs: one ends 0.2 ms after it, one 5 ms."""
    program = Program()
    for after_us in (200, 5000):
        program.launch(us=20_000)
        program.call("cudaFree", program.now, program.device_free + after_us)
        program.now = program.device_free + after_us
    m = measure(program.launch().build())
    frees = [
        i
        for i, name in enumerate(m.trace.api_calls.name)
        if m.trace.strings[int(name)] == "cudaFree"
    ]
    assert m.joined.blocks[frees].tolist() == [True, False]
