"""Answers about jobs of known times."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.fleet.build import digest
from traceanalyzer.analysis.ranks.matches import match_collectives
from traceanalyzer.analysis.ranks.skew import arrivals
from traceanalyzer.base.errors import SeveralRunsError, UnreadableInputError
from traceanalyzer.diagnosis.finding import Summary
from traceanalyzer.fleet.digests.files import DigestedRank, LeftOut
from traceanalyzer.fleet.job.answer import NO_ONE_RANK, NOBODY, _nobody, job_answer
from traceanalyzer.fleet.job.changes import WORST
from traceanalyzer.fleet.job.document import gains_shown, gone, job_page
from traceanalyzer.fleet.job.heat import MOST_ROWS
from traceanalyzer.fleet.job.model import Analyzed, JobAdvice, JobPart, range_ms
from traceanalyzer.fleet.job.pictures import ROW_PX, _row_px
from traceanalyzer.fleet.job.ranks import hosts_of, racks_in, stages_of
from traceanalyzer.fleet.job.select import chosen
from traceanalyzer.fleet.job.simulate import (
    job_plan,
    middle_of_alike,
    recorded_times,
    replayed_steps,
)

MS = 1_000_000


def all_reduces(
    late: dict[int, float], ranks: int = 4, steps: int = 6, **options
) -> list[DigestedRank]:
    """One all-reduce of all ranks a step (10 ms): they come at 5 ms, some later by ms, and it
    transfers for 1 ms."""
    most = max([*late.values(), 0])
    length = int((6 + most) * MS)
    made = []
    for rank in range(ranks):
        own = int(late.get(rank, 0) * MS)
        calls = [(i, i * length + 5 * MS + own, (i + 1) * length, "all") for i in range(steps)]
        made.append(digest(rank, calls, steps=steps, world=ranks, compute=5 * MS + own, **options))
    return made


def test_the_late_rank_is_named_with_what_it_costs_and_why():
    job = job_answer(chosen(all_reduces({2: 3})))
    (one,) = job.culprits
    assert (one.rank, one.cause, one.pattern) == (2, "slow_gpu", "recurring")
    assert one.gain_ms == pytest.approx(3.0)
    assert one.low_ms <= 3.0 <= one.high_ms
    assert "Rank 2 holds up the job" in job.summary.headline
    gains = {change.what: change.gain_ms for change in job.changes}
    assert gains["without rank 2"] == pytest.approx(3.0)
    assert gains["all ranks as fast as the median"] == pytest.approx(3.0)
    assert job.slowdown.s == pytest.approx(9 / 6)
    assert [step.rank for step in job.steps] == [2] * 6
    assert job.steps[0].excess_ms == pytest.approx(3.0)


def test_ranks_that_are_late_alike_are_named_together():
    """Without one of the two nothing is gained, without both 3 ms; three of four are nobody's
    lateness."""
    job = job_answer(chosen(all_reduces({2: 3, 5: 3}, ranks=8)))
    assert [(one.rank, one.cause, one.pattern) for one in job.culprits] == [
        (2, "slow_gpu", "recurring"),
        (5, "slow_gpu", "recurring"),
    ]
    assert job.culprits[0].gain_ms == pytest.approx(3.0)
    assert (
        "Ranks 2, 5 hold up the job together (slow gpu). They cost 3.00 ms" in job.summary.headline
    )
    assert {change.what: change.gain_ms for change in job.changes}[
        "without ranks 2 and 5"
    ] == pytest.approx(3.0)
    assert {one.rank for one in job.worst} == {2, 5}
    nearly = job_answer(chosen(all_reduces({2: 3, 5: 3.5}, ranks=8)))
    assert [(one.rank, round(one.gain_ms, 6)) for one in nearly.culprits] == [(2, 3.5), (5, 3.5)]
    half = job_answer(chosen(all_reduces({0: 3, 1: 3})))
    assert [(one.rank, one.gain_ms) for one in half.culprits] == [(0, 3.0), (1, 3.0)]
    assert job_answer(chosen(all_reduces({0: 3, 1: 3, 2: 3}))).culprits == []


def test_nobody_is_named_where_all_are_alike():
    job = job_answer(chosen(all_reduces({})))
    assert job.culprits == []
    assert "No rank holds up the job" in job.summary.headline
    assert job.summary.bottleneck == "compute"


def test_more_kernels_are_more_work():
    ranks = all_reduces({1: 3})
    more = digest(1, [], work=150)
    ranks[1] = replace(
        ranks[1],
        why=replace(
            ranks[1].why, families=tuple(f._replace(launches=900) for f in more.why.families)
        ),
    )
    assert job_answer(chosen(ranks)).culprits[0].cause == "more_work"


def test_idle_time_tells_input():
    ranks = [
        replace(one, digest=replace(one.digest, compute=np.full(6, 5 * MS)))
        for one in all_reduces({1: 3})
    ]
    idle = ranks[1].why.idle.copy()
    idle[2] = 3 * MS
    ranks[1] = replace(ranks[1], why=replace(ranks[1].why, idle=idle))
    assert job_answer(chosen(ranks)).culprits[0].cause == "input"


def test_what_tells_nothing_is_not_a_cause():
    ranks = [
        replace(one, digest=replace(one.digest, compute=np.full(6, 5 * MS)))
        for one in all_reduces({1: 3})
    ]
    assert job_answer(chosen(ranks)).culprits[0].cause is None


def nested() -> list[DigestedRank]:
    """Two pairs that reduce among themselves, then across; rank 1 is 2 ms late to its pair's, and
    so is rank 0 to the collective across, though it waited."""
    made = []
    for rank in range(4):
        pair = "[0, 1]" if rank < 2 else "[2, 3]"
        across = f"[{rank % 2}, {rank % 2 + 2}]"
        calls = []
        for i in range(6):
            at = i * 20 * MS
            met = at + (7 if rank < 2 else 5) * MS
            calls.append((i, at + (7 if rank == 1 else 5) * MS, met + MS, pair))
            calls.append((i, met + 3 * MS, at + 11 * MS, across))
        made.append(digest(rank, calls, steps=6))
    return made


def test_a_rank_is_not_blamed_for_what_it_waited_for_itself():
    """Without rank 1's 2 ms nobody would be late: it alone is named, once."""
    ranks = nested()
    matches = match_collectives([one.digest for one in ranks])
    came = arrivals(matches)
    assert (
        sorted(
            (int(late), int(own) // MS)
            for late, own in zip(came.late, came.own, strict=True)
            if own
        )
        == [(1, 2)] * 6
    )
    job = job_answer(chosen(ranks))
    assert [one.rank for one in job.culprits] == [1]
    assert job.culprits[0].gain_ms == pytest.approx(2.0)


def test_series_of_two_groups_that_lie_one_in_the_other() -> None:
    """Rank 0 goes from a later series to an earlier one: what rank 2 began before it reaches it by
    their collective."""
    first = (0, 200, 250, "[0, 1]")
    second = (0, 100, 150, "[2, 3]")
    both = (0, 300, 350, "[0, 2]")
    made = [
        digest(rank, calls).digest
        for rank, calls in enumerate([[first, both], [first], [second, both], [second]])
    ]
    assert None not in made
    overlapped = [replace(one, calls=replace(one.calls, held=0 * one.calls.held)) for one in made]
    matches = match_collectives(overlapped)
    assert [matches.series[matches.collective[mine]].tolist() for mine in matches.of_rank] == [
        [1, 0],
        [1],
        [0, 0],
        [0],
    ]
    assert (matches.undisturbed == matches.start).all()


def test_the_steps_are_reckoned_as_recorded_and_shorter_without_a_stretch():
    ranks = nested()
    plan = job_plan(match_collectives([one.digest for one in ranks]))
    assert plan.wave.max() == 11
    assert replayed_steps(plan, plan.matches.stretch) == pytest.approx(recorded_times(plan))
    usual = np.minimum(plan.matches.stretch, middle_of_alike(plan))
    gain = replayed_steps(plan, plan.matches.stretch) - replayed_steps(plan, usual)
    assert gain == pytest.approx(2 * MS)


def test_slow_links_are_told_from_late_ranks():
    """Four pairs, nobody late; the transfers of one pair take 3 ms instead of 1."""
    made = []
    for rank in range(8):
        slow = rank // 2 == 2
        calls = []
        for i in range(6):
            at = i * 20 * MS
            calls.append(
                (
                    i,
                    at + 5 * MS,
                    at + (8 if slow else 6) * MS,
                    f"[{rank // 2 * 2}, {rank // 2 * 2 + 1}]",
                )
            )
        made.append(digest(rank, calls, steps=6, world=8, host=f"n{rank // 2}"))
    job = job_answer(chosen(made))
    (one,) = job.culprits
    assert (one.cause, one.host, one.rank) == ("slow_link", "n2", 4)
    assert one.gain_ms == pytest.approx(2.0)


def test_since_when():
    made = []
    for rank in range(4):
        calls = []
        at = 0
        for i in range(10):
            late = 3 * MS if i >= 5 else 0
            calls.append((i, at + 5 * MS + late * (rank == 3), at + 6 * MS + late, "all"))
            at += 6 * MS + late
        made.append(digest(rank, calls, steps=10))
    (one,) = job_answer(chosen(made)).culprits
    assert (one.rank, one.since) == (3, "ProfilerStep#5")
    assert one.gain_ms == pytest.approx(1.5)


def test_hosts_and_stages():
    ranks = [one.digest for one in all_reduces({})]
    assert hosts_of(ranks, [2] * 4) == (["node0", "node0", "node1", "node1"], True)
    assert hosts_of(ranks, [1] * 4) == ([None] * 4, False)
    named = [digest(i, [], host=f"h{i}").digest for i in range(2)]
    assert hosts_of(named, [2] * 2) == (["h0", "h1"], False)
    stages = [digest(i, [(0, 1, 2, f"pp[{i % 2}, {i % 2 + 2}]")]) for i in range(4)]
    assert stages_of([one.digest for one in stages]) == [0, 0, 1, 1]
    assert stages_of([digest(0, [(0, 1, 2, "pp[0, 1, ..., 99]")]).digest]) == [None]


def at_another_time(one: DigestedRank) -> DigestedRank:
    far = -3_600_000_000_000
    claim = one.digest.claim._replace(start_ns=far, end_ns=far)
    return replace(one, digest=replace(one.digest, claim=claim))


def test_halves_of_two_runs_are_refused():
    ranks = all_reduces({})
    others = [at_another_time(digest(rank, [], world=4)) for rank in (2, 3)]  # nothing aligns them
    halves = [*ranks[:2], *others]
    with pytest.raises(SeveralRunsError, match="4 recordings that are not one run"):
        chosen(halves)
    assert len(chosen([*ranks[:3], others[1]]).ranks) == 3, "one stray is left out"


def test_two_runs_mixed_a_rank_twice_and_others_are_left_out_by_a_line():
    ranks = all_reduces({2: 3})
    other = [
        replace(at_another_time(one), path=f"old{i}") for i, one in enumerate(all_reduces({})[:3])
    ]
    twice = replace(ranks[1], path="again.json", digest=replace(ranks[1].digest, path="again.json"))
    smaller = digest(0, [], world=2, path="two.json")
    nameless = replace(
        ranks[0],
        path="none.json",
        digest=replace(ranks[0].digest, claim=ranks[0].digest.claim._replace(rank=None)),
    )
    found = chosen(
        [
            *ranks,
            *other,
            twice,
            smaller,
            nameless,
            LeftOut("bad.parquet", "a damaged digest"),
            LeftOut("x.json", "x.json: cut"),
        ]
    )
    why = {one.path: one.why for one in found.left_out}
    assert [one.digest.rank for one in found.ranks] == [0, 1, 2, 3]
    assert "of another run: recorded 3,600 s earlier" in why["old0"]
    assert "2 ranks, not 4" in why["two.json"]
    assert "does not say its rank" in why["none.json"]
    assert "rank 1 is here twice: again.json is taken" in why["rank1.json"]
    assert [(one.path, one.why) for one in found.unreadable] == [
        ("bad.parquet", "a damaged digest"),
        ("x.json", "cut"),
    ]
    job = job_answer(found)
    assert job.culprits[0].rank == 2
    assert (
        len(gone(job)) == 5
    )  # two that could not be read, two of those left out, and that there are more


def test_a_clock_that_is_minutes_apart_is_aligned():
    ranks = all_reduces({2: 3})
    apart = 300_000_000_000
    claim = ranks[3].digest.claim
    moved = replace(
        ranks[3].digest,
        epoch_ns=ranks[3].digest.epoch_ns + apart,
        claim=claim._replace(start_ns=claim.start_ns + apart, end_ns=claim.end_ns + apart),
    )
    found = chosen([*ranks[:3], replace(ranks[3], digest=moved)])
    assert len(found.ranks) == 4
    assert "clock of rank 3 is 300 s later" in found.notes[0]
    (one,) = job_answer(found).culprits
    assert (one.rank, round(one.gain_ms, 6)) == (2, 3.0)


def test_the_screen_has_24_lines_and_the_worst_is_on_the_page():
    ranks = all_reduces({700: 3}, ranks=1000)
    lines = [LeftOut(f"file{i}.json", "cut") for i in range(9)]
    job = job_answer(chosen([*ranks[:500], *ranks[503:], *lines]))
    text = job_page(job).terminal(80, False)
    assert len(text.splitlines()) <= 24
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "3 of 1,000 ranks are missing: 500, 501, 502" in text
    assert "7 more could not be read" in text
    assert len(job.heat.names) <= MOST_ROWS
    row = int(job.heat.excess_ms.max(axis=1).argmax())
    assert "worst: rank 700" in job.heat.names[row]
    page = job_page(job).html()
    assert len(page) < 1_000_000
    assert "rank 700" in page
    assert (
        job_page(job).markdown().startswith("## Rank 700 holds up")
        or "Rank 700 holds up" in job_page(job).markdown()
    )
    assert set(job_page(job).values) >= {"ranks", "summary", "culprits", "slowdown", "steps"}


def test_a_range_of_few_steps_is_that_of_the_steps():
    assert range_ms(np.array([1.0, 3.0]) * MS) == (1.0, 3.0)
    low, high = range_ms(np.arange(100.0) * MS)
    assert 40 < low < 49.5 < high < 60


def test_the_rack_of_several_slow_hosts(tmp_path):
    """Hosts a and b stand in rack r1: one of each is late, 4 and 3 ms; without the rack nobody
    is."""
    ranks = [
        replace(one, digest=replace(one.digest, host="abcdef"[i // 2]))
        for i, one in enumerate(all_reduces({1: 4, 2: 3}, ranks=12))
    ]
    (tmp_path / "racks.txt").write_text("a r1\nb,r1\n\nc r2\nd r2\n")
    racks = racks_in(tmp_path / "racks.txt")
    assert racks == {"a": "r1", "b": "r1", "c": "r2", "d": "r2"}
    gains = {
        change.what: change.gain_ms for change in job_answer(chosen(ranks), None, racks).changes
    }
    assert gains["without rack r1"] == pytest.approx(4.0)
    assert gains["without host a"] == pytest.approx(1.0)
    (tmp_path / "racks.txt").write_text("a r1\nb\n")
    with pytest.raises(UnreadableInputError, match="line 2 is not a host and its rack"):
        racks_in(tmp_path / "racks.txt")


@pytest.mark.parametrize(
    ("waiting_ms", "words"), [(0.0, NOBODY), (0.5, NOBODY), (2.0, NO_ONE_RANK)]
)
def test_ranks_that_are_late_by_turns_are_no_contradiction(waiting_ms: float, words: str) -> None:
    """The rank that is spoken of waits so long in a step of 6 ms, and nobody is named."""
    compared = SimpleNamespace(critical=0, rows=[SimpleNamespace(waiting_ms=waiting_ms)])
    job = SimpleNamespace(compared=compared, digests=[SimpleNamespace(mean_step_ns=6e6)] * 2)
    assert _nobody(job) == f"{words}."


def test_a_single_rank_does_not_tell_who_holds_up_the_job() -> None:
    one = all_reduces({})[:1]
    assert "holds up" not in job_answer(chosen(one)).summary.headline
    seen = job_answer(chosen(one), seen=lambda _: replace(analyzed_as(9.0, 0.0), costs={}))
    assert seen.summary.headline == "Compute-bound."


def analyzed_as(step_ms: float, cost_ms: float):
    """What `analyze` says of rank 2, with a budget and an advice."""
    summary = Summary("compute", 0.9, "Compute-bound.", "unprofiled", step_ms)
    budget = [
        JobPart("compute", 3.0, 0.75, ""),
        JobPart("idle", 1.0, 0.25, ""),
        JobPart("launch", 1.0, 0.25, "idle"),
    ]
    advice = [JobAdvice("fix_straggler", "4.00 → 3.00 ms per step", "Fix rank 2.")]
    return Analyzed(summary, {2: cost_ms}, budget=budget, advice=advice)


def screen_of(job) -> str:
    return job_page(job).terminal(100, colour=False)


def test_a_rank_costs_the_same_wherever_it_stands():
    job = job_answer(chosen(all_reduces({2: 3})), seen=lambda _: analyzed_as(4.0, 1.5))
    assert job.culprits[0].gain_ms == job.worst[0].gain_ms == job.changes[0].gain_ms == 1.5
    assert job.recorded_ms == pytest.approx(9.0)
    text = screen_of(job)
    assert "without rank 2: 1.50 ms shorter" in text
    assert "as fast as the median: 33% shorter, as recorded" in text
    assert "ms a step" not in text, "a gain reads as a step"
    assert "of the slowdown" not in text


def test_the_screen_has_the_budget_and_the_advice():
    text = screen_of(job_answer(chosen(all_reduces({2: 3})), seen=lambda _: analyzed_as(9.0, 3.0)))
    assert "Of each 9.00 ms step: compute 3.00 ms (75%), idle 1.00 ms (25%: launch 25%)." in text
    assert "4.00 → 3.00 ms per step [fix_straggler]  Fix rank 2." in text
    assert "recorded" not in text


def test_a_host_that_nobody_recorded_is_not_named():
    ranks = [replace(one, devices=4) for one in all_reduces({5: 3}, ranks=8)]
    job = job_answer(chosen(ranks))
    assert job.culprits[0].host is None
    text = screen_of(job)
    assert "node" not in text
    assert "on the host of rank 5: nvidia-smi" in text


def test_a_host_gains_what_its_rank_does_once():
    ranks = all_reduces({5: 3}, ranks=8)
    named = [
        replace(one, digest=replace(one.digest, host=f"h{i // 4}")) for i, one in enumerate(ranks)
    ]
    job = job_answer(chosen(named))
    assert "without host h1" in [change.what for change in job.changes]
    assert "without host h1" not in [change.what for change in gains_shown(job)]
    assert "on h1: nvidia-smi" in screen_of(job)


def test_all_of_a_job_has_four_parts_and_the_rank_with_what_it_rests_on():
    text = job_page(job_answer(chosen(all_reduces({2: 3})))).markdown()
    places = [
        text.index(f"## {part}")
        for part in ("Summary", "Metrics", "Findings", "Recommendations", "Next")
    ]
    assert places == sorted(places)
    assert "### 1. Rank 2: its kernels take longer for the same work" in text
    assert "| costs a step | 3.00 ms (3.00 to 3.00) |" in text
    assert "| comes last | 100% | of the steps |" in text
    assert "median: 3.00 ms shorter (3.00 to 3.00)\n" in text, "all of the slowdown is all of it"
    assert "Check the GPU of rank 2" in text


def test_what_to_change_stands_in_the_summary():
    text = job_page(job_answer(chosen(all_reduces({2: 3})))).markdown()
    assert "Check the GPU of rank 2" in text.partition("## Metrics")[0]


@pytest.mark.parametrize(("ranks", "least_px"), [(4, 14), (16, 14), (64, 4), (1000, 1)])
def test_rows_of_the_heat_map_have_room_for_their_names(ranks, least_px):
    assert _row_px(["rank"] * ranks) >= max(least_px, ROW_PX)


def test_a_healthy_job_is_not_sent_to_a_rank():
    text = screen_of(job_answer(chosen(all_reduces({}))))
    assert "-o fleet.html    # all ranks and steps" in text


def test_three_percent_of_a_few_ranks_are_none():
    few, many = (job_answer(chosen(all_reduces({2: 3}, ranks=n))) for n in (4, 40))
    assert WORST not in [one.what for one in gains_shown(few)]
    assert WORST in [one.what for one in gains_shown(many)]
    assert few.slowdown.s_worst_ranks == pytest.approx(1.0)
