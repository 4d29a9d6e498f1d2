from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.collectives import GEMM, Ranked
from tests.examples import tried
from tests.replay.ranks import Rank, run
from traceanalyzer.analysis.ranks.digested import digest_of
from traceanalyzer.analysis.ranks.last_to_arrive import MOST_TOGETHER
from traceanalyzer.analysis.ranks.matches import match_collectives
from traceanalyzer.diagnosis.measurements import measure, measure_ranks
from traceanalyzer.replay.host_speed import host_scaled
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.scenario import Scenario
from traceanalyzer.replay.scenarios import (
    COMMUNICATION_FREE,
    NO_HOST_WORK,
    NO_STRAGGLER,
)
from traceanalyzer.replay.simulate import step_times_ns
from traceanalyzer.replay.together import (
    beside_transfers,
    join_tapes,
    make_tapes,
    without_meetings,
)
from traceanalyzer.replay.whatif import Replay

BUSY = Rank()
SLOW_HOST = Rank(host=900.0)
SLOW_DEVICE = Rank(compute=700.0)


def replayed(ranks: list[Rank], scenario: Scenario | None = None) -> float:
    """Step time in us, with the profiler's cost left in."""
    contexts = run(*ranks)
    tapes = make_tapes(contexts[0].rated, [c.rated for c in contexts[1:]])
    assert len(tapes) == len(ranks)
    changed = [scenario.change(tape) if scenario else tape for tape in tapes]
    assert None not in changed
    pick, begin = (scenario.step_of_run, scenario.begin) if scenario else (max, max)
    return pick(step_times_ns([tape for tape in changed if tape is not None], begin)) / 1e3


@pytest.mark.parametrize("other", [BUSY, SLOW_HOST, SLOW_DEVICE])
def test_a_run_is_reproduced_by_its_ranks_together(other: Rank) -> None:
    contexts = run(BUSY, other)
    for m in measure_ranks([one.trace for one in contexts]):
        assert m.replay is not None
        assert len(m.replay.recorded) == 2
        assert abs(m.replay.fidelity_error) < 0.01


def test_what_one_rank_is_spared_shows_on_the_others() -> None:
    """Rank 1 holds up the run by Python; without it both are bound by their device: 300 + 50 us and
    two pauses."""
    assert replayed([BUSY, SLOW_HOST]) > 900
    assert replayed([BUSY, SLOW_HOST], NO_HOST_WORK) == pytest.approx(352, rel=0.01)


def test_alone_a_rank_cannot_know_that_the_others_would_come_earlier() -> None:
    alone = Replay.of(run(BUSY, SLOW_HOST)[0].rated)
    assert alone is not None
    prediction = alone.predict(NO_HOST_WORK)
    assert prediction.speedup == pytest.approx(1.0)
    assert "run has 2 ranks" in alone.what_if().notes[0]


@pytest.mark.parametrize("other", [SLOW_DEVICE, SLOW_HOST])
def test_without_a_straggler_every_rank_is_as_fast_as_the_middle_one(other: Rank) -> None:
    assert replayed([BUSY, other], NO_STRAGGLER) == pytest.approx(352, rel=0.01)
    assert replayed([BUSY, other, BUSY], NO_STRAGGLER) == pytest.approx(352, rel=0.01)


def test_ranks_that_straggle_by_turns_are_each_as_fast_as_the_middle_one_at_every_collective() -> (
    None
):
    """Each computes 400 us longer in every other step: one of them always waits for the other."""
    ranks = [Rank(compute=700.0, turn=0), Rank(compute=700.0, turn=1)]
    assert replayed(ranks) == pytest.approx(752, rel=0.01)
    assert replayed(ranks, NO_STRAGGLER) == pytest.approx(352, rel=0.01)


def test_compute_beside_a_collective_is_alone_as_its_like_that_none_touched() -> None:
    """Of 200 us 50 are beside a collective, which slows all of it: 120 us without. Twice the blocks
    are no like of it."""
    b = Ranked()
    for step in range(4):
        at = 1000.0 * step
        b.launched(GEMM, at + 10, at + 130, at, blocks=100)
        b.launched(GEMM, at + 140, at + 340, at + 5, blocks=100)
        b.launched(GEMM, at + 350, at + 750, at + 10, blocks=200)
        b.collective(at + 290, at + 400, at + 20, elements=1000, stream=9)
        b.annotation(f"ProfilerStep#{step}", at, at + 900)
    tape = make_tape(measure(b.trace(0, 2)).rated)
    assert tape is not None
    assert (tape.alone[tape.compute] / 1e3).reshape(-1, 3)[0] == pytest.approx([120, 120, 400])


def test_compute_beside_a_collective_that_waits_is_not_slowed_without_the_profiler() -> None:
    """Rank 0 computes 100 us alone, and 160 beside a collective that waits for rank 1 for 150 of
    its 200 us."""
    builders = [Ranked(), Ranked()]
    for rank, b in enumerate(builders):
        for step in range(6):
            at = 1000.0 * step
            b.launched(GEMM, at + 10, at + 110, at)
            b.collective(
                at + 120 + 150 * rank, at + 320, at + 20 + 150 * rank, elements=1000, stream=9
            )
            b.launched(
                GEMM, at + 330 if rank else at + 130, at + 430 if rank else at + 290, at + 175
            )
            b.annotation(f"ProfilerStep#{step}", at, at + 900)
    ranks = [measure(b.trace(rank, 2)).rated for rank, b in enumerate(builders)]
    recorded = make_tapes(ranks[0], ranks[1:])[0]
    durations = beside_transfers(recorded).duration[recorded.compute] / 1e3
    assert durations[0::2] == pytest.approx(100)
    # 140 of the 160 us are beside the waiting, 20 beside the transfer
    assert durations[1::2] == pytest.approx(160 - 60 * 140 / 160)


def test_hosts_of_one_program_are_equally_fast_without_the_profiler() -> None:
    """Both launch as much; before each launch the host of one takes 40 us, of the other 80: half of
    60 us is left."""
    contexts = run(Rank(host=40.0), Rank(host=80.0))
    tapes = make_tapes(contexts[0].rated, [contexts[1].rated])
    before = [float(one.dispatch.sum()) / len(one.row) for one in tapes]
    assert before[1] > 1.5 * before[0]
    after = [float(one.dispatch.sum()) / len(one.row) for one in host_scaled(tapes, 0.5)]
    assert after == pytest.approx(
        [0.25 * sum(before)] * 2, rel=0.05
    )  # calls of collectives keep more


def test_without_communication_the_slowest_rank_decides() -> None:
    assert replayed([BUSY, SLOW_DEVICE], COMMUNICATION_FREE) == pytest.approx(701, rel=0.01)


def test_without_communication_nothing_is_copied_into_buckets() -> None:
    """100 us of compute, 40 us of a copy in the range that DDP calls its reducer, 60 us of a
    collective."""
    b = Ranked()
    for step in range(6):
        at = 1000.0 * step
        b.launched(GEMM, at + 10, at + 110, at)
        b.op("torch.distributed.ddp.reducer::copy_bucket_to_grad", at + 4, at + 9)
        b.launched("copy_kernel", at + 111, at + 151, at + 5)
        b.collective(at + 152, at + 212, at + 20, elements=1000)
        b.annotation(f"ProfilerStep#{step}", at, at + 900)
    tape = make_tape(measure(b.trace(0, 2)).rated)
    assert tape is not None
    left = COMMUNICATION_FREE.change(tape)
    assert left is not None
    assert (left.duration / 1e3).reshape(-1, 3)[0].tolist() == [100, 0, 0]


def test_without_communication_the_host_does_not_shard() -> None:
    """The host is the limit: 100 us before each product, 200 us in FSDP's hook before the gather,
    100 us after it."""
    b = Ranked()
    for step in range(6):
        at = 1000.0 * step
        b.launched(GEMM, at + 102, at + 112, at + 100)
        b.op("FSDP::pre_forward (layers.0)", at + 101, at + 301)
        b.collective(at + 302, at + 312, at + 300, elements=1000)
        b.launched(GEMM, at + 402, at + 412, at + 400)
        b.annotation(f"ProfilerStep#{step}", at, at + 410)
        b.call("cudaDeviceSynchronize", at + 402, at + 412)
    tape = make_tape(measure(b.trace(0, 2)).rated)
    assert tape is not None
    left = COMMUNICATION_FREE.change(tape)
    assert left is not None
    spared = tape.dispatch + tape.work - left.dispatch - left.work
    assert spared.sum() / 6e3 == pytest.approx(200, abs=5)
    assert (left.duration / 1e3).reshape(-1, 3)[0].tolist() == [10, 0, 10]


def test_the_transfer_is_what_the_last_rank_to_arrive_spent() -> None:
    for tape in make_tapes(*(lambda c: (c[0].rated, [c[1].rated]))(run(BUSY, SLOW_DEVICE))):
        assert set(tape.duration[tape.communication].tolist()) == {50_000}


def test_one_rank_has_no_straggler_to_lose() -> None:
    replay = Replay.of(run(BUSY, SLOW_DEVICE)[0].rated)
    assert replay is not None
    prediction = replay.predict(NO_STRAGGLER)
    assert (prediction.step_ms, prediction.low_ms, prediction.high_ms, prediction.speedup) == (
        None,
    ) * 4
    assert "several ranks" in prediction.basis


def test_ranks_whose_orders_contradict_each_other_do_not_hang() -> None:
    contexts = run(BUSY, SLOW_DEVICE)
    first, second = make_tapes(contexts[0].rated, [c.rated for c in contexts[1:]])
    swapped = second.meeting.copy()
    there = np.flatnonzero(swapped >= 0)
    swapped[there] = swapped[there][::-1]
    assert all(time > 0 for time in step_times_ns([first, replace(second, meeting=swapped)]))


ranks = st.lists(
    st.builds(
        Rank,
        host=st.sampled_from([10.0, 60.0, 400.0]),
        compute=st.floats(1, 500).map(round).map(float),
    ),
    min_size=2,
    max_size=4,
)


@tried(0.25)
@given(ranks)
def test_a_run_takes_as_long_as_its_slowest_rank_and_no_shorter_than_any_alone(
    ranks: list[Rank],
) -> None:
    contexts = run(*ranks)
    tapes = make_tapes(contexts[0].rated, [c.rated for c in contexts[1:]])
    together = step_times_ns(tapes)
    alone = step_times_ns([without_meetings(tape) for tape in tapes])
    assert max(together) == pytest.approx(min(together))
    assert max(together) >= max(alone) - 1
    assert max(together) == pytest.approx(
        float(contexts[0].timed.steps.duration[1:].mean()), rel=0.01
    )


def test_of_many_ranks_those_that_the_others_wait_for_are_replayed() -> None:
    """Ten ranks, of which the two that arrive first spend longest in the collective."""
    contexts = run(BUSY, *[Rank(compute=40.0)] * 2, *[BUSY] * 7)
    tapes = make_tapes(contexts[0].rated, [c.rated for c in contexts[1:]])
    assert len(tapes) == MOST_TOGETHER == 8
    assert {tape.source.trace.rank for tape in tapes} == {0, *range(3, 10)}


def test_a_collective_of_some_ranks_takes_what_the_last_of_these_spent() -> None:
    """A rank that is not part of it has no say in how long it transfers."""
    contexts = run(BUSY, SLOW_DEVICE, BUSY)
    tapes = [make_tape(c.rated) for c in contexts]
    made = [tape for tape in tapes if tape is not None]
    matches = match_collectives([c.timed.memo(digest_of) for c in contexts])
    of_two = matches.rank < 2
    first = np.arange(len(matches) + 1) * 2
    some = replace(
        matches,
        first=first,
        **{n: getattr(matches, n)[of_two] for n in ("rank", "start", "end", "row")},
    )
    joined = join_tapes(made, some)
    pair = join_tapes(made[:2], match_collectives([c.timed.memo(digest_of) for c in contexts[:2]]))
    for one, other in zip(joined, pair, strict=False):
        assert (one.duration == other.duration).all()
        assert (one.meeting >= 0).any()
    assert (joined[2].meeting == -1).all()
