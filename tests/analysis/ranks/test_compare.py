from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.analysis.collectives import GEMM, Ranked
from tests.recorded import ranks
from traceanalyzer.analysis.ranks.compare import compare_ranks
from traceanalyzer.analysis.ranks.digested import digest_of
from traceanalyzer.analysis.ranks.matches import match_collectives
from traceanalyzer.analysis.ranks.rank_clocks import align_clocks
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.ingest import load

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace

RUNS = [
    f"{program}.{side}"
    for program in ("ddp_accum_sync", "straggler", "tensor_parallel")
    for side in ("base", "fix")
]
EPOCH = 1_700_000_000_000_000_000
STEP = 1000


def rank_trace(
    rank: int,
    *,
    compute: float,
    step: float = STEP,
    steps: int = 4,
    clock: float = 0.0,
    last: float = 0.0,
    collectives: int = 1,
    kernel: str = "allreduce",
    ranks: int = 2,
    world: int = 2,
    epoch: int = EPOCH,
) -> Trace:
    """Steps of `compute` us of work, then collectives that all end at 950 us; `clock` is added to
    every time."""
    builder = Ranked()
    for i in range(steps):
        at = step * i + clock
        builder.annotation(f"ProfilerStep#{i}", at, at + step)
        builder.launched(GEMM, at + 20, at + 20 + compute, at + 5)
        for c in range(collectives):
            end = at + step - 50 - 10 * (collectives - 1 - c)
            start = max(at + 20 + compute, end - 10 if c else 0)
            builder.collective(start, end, at + 10 + 5 * c, name=kernel, ranks=ranks)
        builder.launched(GEMM, at + step - 40, at + step - 30 + last, at + 40)
    return builder.trace(rank, world, epoch_ns=epoch)


def parts(end, present):
    """The ends of collectives (rows) on ranks (columns) one after the other."""
    return (
        np.append(0, np.cumsum(present.sum(axis=1))),
        np.nonzero(present)[1].astype(np.int32),
        end[present.astype(bool)],
    )


def compare(*traces: Trace):
    return compare_ranks([digest_of(measure(trace).timed) for trace in traces])


def test_the_rank_that_the_others_wait_for_is_critical():
    result = compare(rank_trace(0, compute=200), rank_trace(1, compute=700))
    first, second = result.rows
    assert result.critical == 1
    assert [row.straggler for row in result.rows] == [False, True]
    assert first.waiting_ms == pytest.approx(0.5)
    assert second.waiting_ms == 0
    # The collective runs from 720 us, when the last rank arrives, to 950 us.
    assert first.transfer_ms == second.transfer_ms == pytest.approx(0.230)
    assert first.communication_ms == pytest.approx(first.waiting_ms + first.transfer_ms)
    assert first.step_mean_ms == second.step_mean_ms == pytest.approx(1.0)
    assert first.step_median_ms == second.step_median_ms == pytest.approx(1.0)


def test_a_collective_is_skew_or_transfer():
    (late,) = compare(rank_trace(0, compute=200), rank_trace(1, compute=700)).collectives
    assert (late.cause, late.last_rank, late.last_share, late.count) == ("arrival skew", 1, 1.0, 1)
    assert late.skew_ms == pytest.approx(0.5)
    assert (late.skew_p95_us, late.transfer_us) == (pytest.approx(500), pytest.approx(230))
    (even,) = compare(rank_trace(0, compute=200), rank_trace(1, compute=210)).collectives
    assert (even.cause, even.message_bytes) == ("transfer", 4000)
    (between,) = compare(rank_trace(0, compute=200), rank_trace(1, compute=580)).collectives
    assert between.cause == "inconclusive"


def test_too_few_collectives_are_inconclusive():
    (row,) = compare(
        rank_trace(0, compute=200, steps=2), rank_trace(1, compute=210, steps=2)
    ).collectives
    assert row.cause == "inconclusive"


def test_missing_ranks_may_have_arrived_later_still():
    result = compare(
        rank_trace(0, compute=200, ranks=4, world=4), rank_trace(2, compute=210, ranks=4, world=4)
    )
    assert (result.collectives[0].ranks, result.collectives[0].group_size) == (2, 4)
    assert result.collectives[0].cause == "inconclusive"
    assert "2 of 4 ranks are missing (1, 3)" in result.notes[0]


def test_equal_ranks_have_no_straggler():
    result = compare(rank_trace(0, compute=500), rank_trace(1, compute=505))
    assert result.critical == 0
    assert not any(row.straggler for row in result.rows)


def test_the_longest_step_is_critical_where_nothing_keeps_ranks_together():
    slow = rank_trace(1, compute=200, step=1500, collectives=0)
    result = compare(rank_trace(0, compute=200, collectives=0), slow)
    assert result.critical == 1
    assert result.rows[1].straggler
    assert result.rows[0].waiting_ms is None
    assert result.collectives == ()


def test_clocks_are_aligned_by_the_ends_of_collectives():
    result = compare(rank_trace(0, compute=200), rank_trace(1, compute=700, clock=300))
    assert result.rows[0].waiting_ms == pytest.approx(0.5)
    assert result.rows[1].waiting_ms == 0
    assert "rank 1 by +300.0 us" in result.notes[-1]


def test_epochs_are_taken_off_first():
    late = rank_trace(1, compute=700, clock=300, epoch=EPOCH - 300_000)
    result = compare(rank_trace(0, compute=200), late)
    assert result.rows[0].waiting_ms == pytest.approx(0.5)
    assert result.notes == ()


def test_without_epochs_the_collectives_alone_tell_the_clocks():
    result = compare(
        rank_trace(0, compute=200, epoch=0), rank_trace(1, compute=700, clock=5e6, epoch=0)
    )
    assert result.rows[0].waiting_ms == pytest.approx(0.5)


def test_a_difference_within_noise_is_left_alone():
    end = np.array([[0, 0], [1000, 1100], [2000, 1950], [3000, 3020]], np.int64) * 1000
    clocks = align_clocks([EPOCH, EPOCH], *parts(end, np.ones((4, 2), bool)))
    assert clocks.offset.tolist() == clocks.corrected.tolist() == [0, 0]
    assert clocks.spread_ns > 0


def test_clocks_of_ranks_that_share_nothing_with_the_first_go_through_others():
    end = np.array([[0, 10, 0], [50, 60, 0], [0, 100, 400], [0, 200, 500]], np.int64) * 1000
    present = np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1], [0, 1, 1]], bool)
    clocks = align_clocks([EPOCH] * 3, *parts(end, present))
    assert clocks.offset.tolist() == [0, 10_000, 310_000]


def test_clocks_that_the_collectives_do_not_bear_out_are_not_compared():
    other = rank_trace(1, compute=200)
    ops = other.device_ops
    scattered = np.random.default_rng(1).integers(0, 100_000_000, len(ops))
    ops.end[:] = ops.end + scattered
    ops.start[:] = ops.start + scattered
    result = compare(rank_trace(0, compute=200), other)
    assert result.rows[0].waiting_ms is None
    assert any("clocks of the recordings do not agree" in note for note in result.notes)


def test_a_step_in_which_ranks_recorded_differently_many_is_not_matched():
    builder = Ranked()
    for i in range(3):
        builder.annotation(f"ProfilerStep#{i}", i * STEP, (i + 1) * STEP)
        for c in range(2 if i == 1 else 1):
            builder.collective(
                i * STEP + 100 + 300 * c, i * STEP + 200 + 300 * c, i * STEP + 50 + 10 * c
            )
    traces = rank_trace(0, compute=10, steps=3), builder.trace(1, epoch_ns=EPOCH)
    matches = match_collectives([digest_of(measure(trace).timed) for trace in traces])
    assert len(matches) == 2
    assert "2 of 4 collectives have no counterpart" in matches.notes[0]


def test_matching_stops_where_kinds_differ():
    a = Ranked()
    b = Ranked()
    for builder, kinds in (
        (a, ("allreduce", "allgather", "allreduce")),
        (b, ("allreduce", "broadcast", "allreduce")),
    ):
        for i, kind in enumerate(kinds):
            builder.collective(100 * i + 50, 100 * i + 90, 100 * i, name=kind)
    matches = match_collectives(
        [
            digest_of(measure(t).timed)
            for t in (a.trace(0, epoch_ns=EPOCH), b.trace(1, epoch_ns=EPOCH))
        ]
    )
    assert len(matches) == 1
    assert "2 collectives have no counterpart" in matches.notes[0]


def test_groups_are_matched_each_for_itself():
    traces = []
    for rank in range(2):
        builder = Ranked()
        order = ("tensor", "data") if rank == 0 else ("data", "tensor")
        for i, group in enumerate(order):
            builder.collective(100 * i + 50, 100 * i + 90, 100 * i, group=group, stream=8 + i)
        traces.append(builder.trace(rank, epoch_ns=EPOCH))
    matches = match_collectives([digest_of(measure(t).timed) for t in traces])
    assert sorted(matches.group) == ["data", "tensor"]


def test_one_rank_alone_is_critical_and_says_what_is_missing():
    result = compare(rank_trace(3, compute=200, world=8))
    assert (result.critical, len(result.rows), result.rows[0].rank) == (0, 1, 3)
    assert not result.rows[0].straggler
    assert "this is the recording of one" in result.notes[0]


def test_the_same_rank_twice_is_noted():
    assert "same rank" in compare(rank_trace(0, compute=200), rank_trace(0, compute=210)).notes[0]


def test_a_rank_without_device_work_does_not_stop_the_others():
    empty = Ranked().annotation("ProfilerStep#0", 0, 100).trace(2, 3, epoch_ns=EPOCH)
    result = compare(
        rank_trace(0, compute=200, world=3), rank_trace(1, compute=700, world=3), empty
    )
    assert result.rows[2].device is None
    assert any("No device work was recorded on rank 2" in note for note in result.notes)


@cache
def recorded(run: str):
    from traceanalyzer.ingest import load

    return compare_ranks(
        [digest_of(measure(trace).timed) for trace in load(ranks(f"ranks2/{run}")).traces]
    )


@pytest.mark.parametrize("run", RUNS)
def test_communication_of_a_rank_is_waiting_and_transfer(run):
    for row in recorded(run).rows:
        assert row.communication_ms == pytest.approx(
            (row.waiting_ms or 0) + (row.transfer_ms or 0), abs=1e-6
        )


def test_the_straggler_recording():
    """Rank 1 does 60 products, rank 0 does 20: two thirds of what rank 1 computes is what rank 0
    waits."""
    result = recorded("straggler.base")
    waits, late = result.rows
    assert result.critical == 1
    assert late.straggler
    assert not waits.straggler
    assert waits.waiting_ms == pytest.approx(9.381, abs=2e-3)
    assert late.waiting_ms == 0
    assert waits.transfer_ms == pytest.approx(late.transfer_ms, abs=1e-3)
    assert late.compute_ms - waits.compute_ms == pytest.approx(waits.waiting_ms, rel=0.05)
    assert result.collectives[0].cause == "arrival skew"
    # Without the straggler a step takes 4.49 ms unprofiled.
    assert waits.step_mean_ms - waits.waiting_ms == pytest.approx(4.49, rel=0.1)


@pytest.mark.parametrize("run", ["straggler.fix", "tensor_parallel.base", "ddp_accum_sync.base"])
def test_recordings_of_equal_ranks(run):
    result = recorded(run)
    assert not any(row.straggler for row in result.rows)
    assert {row.cause for row in result.collectives} == {"transfer"}


def test_with_collectives_the_longest_step_is_that_of_who_began_early_and_waited():
    """Rank 0's step is half as long again, all of it waiting for rank 1."""
    early = Ranked()
    late = Ranked()
    for i in range(4):
        at = 2000 * i
        early.annotation(f"ProfilerStep#{i}", at, at + 2000)
        early.launched(GEMM, at + 20, at + 120, at + 5)
        early.collective(at + 120, at + 1950, at + 10, name="allreduce", ranks=2)
        late.annotation(f"ProfilerStep#{i}", at + 1000, at + 2000)
        late.launched(GEMM, at + 1020, at + 1900, at + 1005)
        late.collective(at + 1900, at + 1950, at + 1010, name="allreduce", ranks=2)
    result = compare(early.trace(0, 2, epoch_ns=EPOCH), late.trace(1, 2, epoch_ns=EPOCH))
    assert result.critical == 1
    assert result.rows[0].waiting_ms > result.rows[1].waiting_ms == 0


def test_one_damaged_rank_costs_that_rank_alone():
    """Rank 2 lost its last steps; rank 3 all its device work."""
    whole = [rank_trace(i, compute=200 + 100 * i, ranks=4, world=4) for i in range(2)]
    cut = rank_trace(2, compute=200, ranks=4, world=4)
    cut = replace(cut, device_ops=cut.device_ops.take(cut.device_ops.end < 1_900_000))
    empty = rank_trace(3, compute=200, ranks=4, world=4)
    empty = replace(empty, device_ops=empty.device_ops.take(slice(0, 0)))
    result = compare(*whole, cut, empty)
    assert result.critical != 3
    assert all(row.waiting_ms is not None for row in result.rows[:2])
    assert not any("clocks" in note and "do not agree" in note for note in result.notes)


def test_a_rank_with_another_number_of_collectives_is_left_out_where_most_agree():
    agreeing = [rank_trace(i, compute=200, collectives=2, ranks=3, world=3) for i in range(2)]
    odd = rank_trace(2, compute=200, collectives=1, ranks=3, world=3)
    result = compare(*agreeing, odd)
    assert result.collectives[0].ranks == 2
    assert any("Rank 2 recorded another number" in note for note in result.notes)


def test_collectives_that_carry_their_number_are_matched_by_it():
    """Rank 1's recording begins one collective later; by order alone it would be off by one."""
    traces = []
    for rank in range(2):
        trace = rank_trace(rank, compute=200 + 300 * rank, collectives=3)
        table = trace.collectives
        count = int((trace.host_ranges.collective >= 0).sum())
        numbered = type(table).from_columns(
            {f.name: getattr(table, f.name)[np.zeros(count, int)] for f in fields(table)}
            | {"sequence": np.arange(count), "communicator": np.zeros(count, int)}
        )
        rows = trace.host_ranges.collective.copy()
        rows[rows >= 0] = np.arange(count)
        trace = replace(
            trace, collectives=numbered, host_ranges=replace(trace.host_ranges, collective=rows)
        )
        if rank:
            kept = np.ones(len(trace.device_ops), bool)
            kept[1] = False
            trace = replace(trace, device_ops=trace.device_ops.take(kept))
        traces.append(trace)
    matches = match_collectives([digest_of(measure(trace).timed) for trace in traces])
    assert len(matches) == 11
    assert np.all(np.abs(matches.end[0::2] - matches.end[1::2]) < 1000)


def by_turns(rank: int, late: tuple[float, ...], world: int = 3) -> Trace:
    """A step for each of these delays: so long after 100 us the rank is at the collective."""
    builder = Ranked()
    for i, delay in enumerate(late):
        at = STEP * i
        builder.annotation(f"ProfilerStep#{i}", at, at + STEP)
        builder.launched(GEMM, at + 20, at + 100 + delay, at + 5)
        builder.collective(at + 100 + delay, at + 950, at + 10, ranks=world)
    return builder.trace(rank, world, epoch_ns=EPOCH)


def test_ranks_that_take_turns_are_all_named_with_what_each_costs() -> None:
    result = compare(
        by_turns(0, (400, 0) * 4), by_turns(1, (0, 300) * 4), by_turns(2, (50, 50) * 4)
    )
    assert [row.straggler for row in result.rows] == [True, True, False]
    assert [(one.position, one.gain_ms) for one in result.late] == [
        (0, pytest.approx(0.175, rel=0.01)),
        (1, pytest.approx(0.125, rel=0.01)),
    ]
    assert result.critical == 0


def test_one_hiccup_is_no_straggler() -> None:
    result = compare(
        by_turns(0, (0, 0, 800, 0)), by_turns(1, (5, 0, 0, 5)), by_turns(2, (0, 5, 0, 0))
    )
    assert result.late == ()
    assert not any(row.straggler for row in result.rows)


def test_a_rank_costs_what_it_comes_later_than_the_last_but_one() -> None:
    """Two slow ranks hold up the third alike: without one of them nothing is gained."""
    slow = (400,) * 4
    assert compare(by_turns(0, slow), by_turns(1, slow), by_turns(2, (0,) * 4)).late == ()
    (late,) = compare(by_turns(0, (600,) * 4), by_turns(1, slow), by_turns(2, (0,) * 4)).late
    assert (late.position, late.gain_ms) == (0, pytest.approx(0.2, rel=0.01))


def overlapped(rank: int, late: float, gemm: float = 100.0) -> Trace:
    """Steps of four products, each with an all-reduce that overlaps with the next ones, and a
    product that waits for them all; the first product begins `late` us after the step. Rank 1 comes
    last to each."""
    builder = Ranked()
    step = 2000
    for i in range(4):
        at = step * i
        builder.annotation(f"ProfilerStep#{i}", at, at + step)
        free = at + 20.0 + late
        ended = 0.0
        for n in range(4):
            builder.launched(GEMM, free, free + gemm, at + 5 + 4 * n)
            free += gemm
            start = max(free + 2, ended)
            ended = max(at + 20 + 400 + 100 * (n + 1), ended) + 30
            builder.collective(start, ended, at + 7 + 4 * n, ranks=2)
        builder.launched(GEMM, ended + 5, ended + 50, at + 40)
    return builder.trace(rank, 2, epoch_ns=EPOCH)


def test_lateness_at_overlapped_collectives_counts_one_time() -> None:
    """Rank 1 begins 400 us late, and is so at each of four collectives: it costs 0.4 ms, and not
    1.6."""
    result = compare(overlapped(0, 0), overlapped(1, 400))
    (late,) = result.late
    assert (late.position, late.gain_ms) == (1, pytest.approx(0.4, rel=0.02))


def test_compute_that_waiting_slows_is_no_work_of_its_own() -> None:
    """The products of rank 0 take 1.4 times as long beside a collective that waits for rank 1."""
    (late,) = compare(overlapped(0, 0, gemm=140), overlapped(1, 400)).late
    assert (late.position, late.gain_ms) == (1, pytest.approx(0.36, rel=0.02))


@pytest.mark.parametrize(
    ("run", "named"),
    [
        ("straggler_input.base", {1: (3.36, 0.05)}),  # recorded 12.97 ms a step, 9.62 without
        ("straggler_input.without", {}),
        ("ddp_overlapped.base", {}),
        ("straggler_batch.without", {}),
        ("tensor_parallel_layers.without", {}),
    ],
)
def test_two_ranks_of_a_real_job(run: str, named: dict[int, tuple[float, float]]) -> None:
    found = {
        one.position: one.gain_ms for one in compare(*load(ranks(f"two_ranks/{run}")).traces).late
    }
    assert found == {rank: pytest.approx(gain, rel=rel) for rank, (gain, rel) in named.items()}


def test_no_rank_costs_more_than_what_the_step_has_besides_compute() -> None:
    """Hosts that never wait run ahead by more than a step: one of these came 78 ms late in steps of
    75."""
    compared = compare_ranks(
        [digest_of(measure(one).timed) for one in load(ranks("two_ranks/encoder_fsdp.base")).traces]
    )
    rows = compared.rows
    bound = max(row.step_mean_ms for row in rows) - min(row.compute_ms for row in rows)
    assert max(row.gain_ms for row in rows) == pytest.approx(bound, rel=0.1)
