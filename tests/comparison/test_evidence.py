"""What tells a change of the program from a faster host or GPU: verdicts of small hand-built
reports."""

from dataclasses import replace

import pytest

from tests.comparison.build import idle, part, report
from traceanalyzer.analysis.ranks.compare import RankRow
from traceanalyzer.analysis.tables.step_figures import Unprofiled
from traceanalyzer.comparison.compare import compare_reports
from traceanalyzer.comparison.document import Several
from traceanalyzer.replay.host_parts import HostPart

GEMM = part("aten::mm", "gemm", 1)


def host(op, calls=60.0, us=50.0, *, waits=0.0, stretch=0.0, python=10.0):
    """A row of host time: `stretch` ms of other work before every call."""
    return HostPart(
        op,
        "cudaLaunchKernel",
        calls,
        waits,
        calls * us / 1e3,
        us,
        python,
        calls * (stretch > 0),
        stretch,
    )


def run(step_ms, hosts, *parts, bound=1.0):
    """A report whose step without the profiler takes so long; `bound`: by how much the host bounds
    it."""
    made = report(*(parts or (GEMM, idle("launch", step_ms - 1, "aten::mm"))))
    of = Unprofiled(
        step_ms,
        step_ms,
        step_ms,
        "estimated",
        made.metrics.budget_ms,
        made.metrics.idle_ms,
        None,
        if_host_slower=bound,
        if_host_faster=bound,
    )
    metrics = replace(
        made.metrics, unprofiled=of, unprofiled_step_time_ms=step_ms, unprofiled_source="estimated"
    )
    return replace(made, metrics=metrics, host_parts=list(hosts))


BASE = run(10.0, [host("aten::mm"), host("aten::add"), host("aten::relu")])


def test_a_host_that_is_faster_everywhere_alike_changes_nothing():
    fast = run(7.0, [host(f"aten::{op}", us=35.0, python=7.0) for op in ("mm", "add", "relu")])
    found = compare_reports(BASE, fast)
    assert found.verdict == "no_change"
    assert found.host_factor == pytest.approx(0.7)
    assert "the host of B was 43% faster" in found.headline
    assert compare_reports(fast, BASE).verdict == "no_change"


def test_calls_that_are_gone_are_the_programs():
    fewer = run(7.0, [host("aten::mm"), host("aten::add")])
    assert compare_reports(BASE, fewer).verdict == "faster"
    assert compare_reports(fewer, BASE).verdict == "slower"


def test_a_slower_host_hides_no_removed_work():
    """Fewer calls by a host that takes half as long again: as long as before, and shorter at A's
    speed."""
    slow = run(
        10.0, [host("aten::mm", us=75.0, python=15.0), host("aten::add", us=75.0, python=15.0)]
    )
    found = compare_reports(BASE, slow)
    assert found.verdict == "likely_faster"
    assert "at A's speed" in found.headline
    assert "Record 20 steps" in found.headline


def test_of_two_recorders_the_hosts_speed_is_theirs():
    """A host that one recorder slows by half, and a step that takes as long without either."""
    slow = run(
        10.2, [host("aten::mm", us=75.0), host("aten::add", us=75.0), host("aten::relu", us=75.0)]
    )
    other = replace(slow, inputs=[replace(item, kind="nsys") for item in slow.inputs])
    assert compare_reports(BASE, other).verdict in ("no_change", "not_comparable")


@pytest.mark.parametrize("gone", [{"stretch": 3.0}, {"python": 70.0, "us": 110.0}])
def test_work_of_the_host_in_certain_places_is_the_programs(gone):
    before = run(13.0, [host("aten::mm", **gone), host("aten::add"), host("aten::relu")])
    assert compare_reports(before, BASE).verdict == "faster"


def test_a_wait_that_is_gone_is_the_programs():
    parts = GEMM, idle("sync", 9, "aten::item", "cudaStreamSynchronize")
    before = run(10.0, [host("aten::mm"), host("aten::item", waits=60.0)], *parts)
    after = run(7.0, [host("aten::mm"), host("aten::item")], GEMM, idle("sync", 1))
    after = replace(
        after, metrics=replace(after.metrics, unprofiled=replace(after.metrics.unprofiled))
    )
    assert compare_reports(before, after).verdict == "faster"


def test_clocks_change_every_kernel_and_a_change_of_one_does_not():
    gpu = [part("aten::mm", "gemm", 6), part("aten::add", "add", 4), part("aten::relu", "relu", 3)]
    before = run(13.0, [host("aten::mm")], *gpu, bound=0.0)
    clocks = run(11.7, [host("aten::mm")], *(replace(p, ms=0.9 * p.ms) for p in gpu), bound=0.0)
    found = compare_reports(before, clocks)
    assert (found.verdict, found.gpu_factor) == ("no_change", pytest.approx(0.9))
    better = run(
        10.0, [host("aten::mm")], replace(gpu[0], ms=3.0, batch_ms=[3.0] * 3), *gpu[1:], bound=0.0
    )
    assert compare_reports(before, better).verdict == "faster"


def test_what_cannot_be_told_says_what_could_have_been_seen():
    hosts = [host("aten::mm", us=20.0), host("aten::add", us=50.0), host("aten::relu", us=120.0)]
    other = run(10.0, [*hosts, host("aten::mul", us=90.0)])
    found = compare_reports(BASE, other)
    assert found.verdict == "not_comparable"
    assert found.could_see > 0.03
    assert found.headline.startswith("Cannot tell")
    assert f"below {found.could_see:.0%} would not be seen" in found.headline


def test_without_the_hosts_parts_counts_and_idle_time_decide():
    old = [replace(one, host_parts=[]) for one in (BASE, run(9.0, []))]
    assert compare_reports(*old).verdict == "no_change"


def test_several_runs_have_a_best():
    fewer = run(7.0, [host("aten::mm"), host("aten::add")])
    fast = run(7.0, BASE.host_parts)
    table = Several(
        [
            compare_reports(BASE, one, ("base", name))
            for name, one in (("try1", fewer), ("try2", fast))
        ]
    )
    assert table.best is not None
    assert table.best.b.name == "try1"
    assert table.headline == "try1 is 1.43 times as fast as base, the best of 2."
    assert [row.verdict for row in table.rows] == ["the first", "faster, best", "no change"]
    assert "| try1 |" in table.markdown()
    assert Several(table.comparisons[1:]).headline == "None of 1 runs is faster than base."


def timed(run):
    return replace(run, metrics=replace(run.metrics, unprofiled_source="measured"))


def test_a_step_that_a_stopwatch_halves_at_the_same_work_is_not_called_unchanged():
    """Another rank's loader, or the input, made it: the recording of this rank cannot tell."""
    hosts = [host("aten::mm"), host("aten::add"), host("aten::relu")]
    found = compare_reports(timed(BASE), timed(run(5.0, hosts)))
    assert found.verdict == "not_comparable"
    assert "input, other ranks, the host or the machine made the difference" in found.headline
    little = compare_reports(timed(BASE), timed(run(9.4, hosts)))
    assert little.verdict == "no_change"


def with_ranks(made, *late_ms):
    """The same of several ranks, of which the first is reported, each so late."""
    step_ms = made.metrics.unprofiled_step_time_ms
    rows = [
        RankRow(i, 0, step_ms, step_ms, 1.0, 1.0, 0.0, 0.0, 0.0, False, gain_ms=late)
        for i, late in enumerate(late_ms)
    ]
    return replace(made, tables=made.tables | {"ranks": rows})


def test_what_another_rank_does_is_a_change_of_the_program():
    hosts = [host("aten::mm"), host("aten::add"), host("aten::relu")]
    even = with_ranks(timed(run(5.0, hosts)), 0.0, 0.0, 0.0)
    found = compare_reports(with_ranks(timed(BASE), 0.0, 5.0, 0.0), even)
    assert found.verdict == "faster"
    assert "Rank 1 became faster: it holds up each step by 5 → 0 ms." in found.headline
    found = compare_reports(with_ranks(timed(BASE), 0.0, 0.0, 0.0), even)
    assert found.verdict == "not_comparable"


def test_a_stopwatch_that_the_hosts_speed_explains_is_no_change():
    fast = [host(f"aten::{op}", us=35.0, python=7.0) for op in ("mm", "add", "relu")]
    assert compare_reports(timed(BASE), timed(run(7.0, fast))).verdict == "no_change"
