"""Which rank is said to hold up a run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.analysis.collectives import GEMM, Ranked
from tests.analyzed import measurements, reported
from tests.recorded import ROOT, ranks
from tests.replay.ranks import Rank, run
from traceanalyzer.analysis.ranks.compare import compare_ranks
from traceanalyzer.analysis.ranks.digested import digest_of
from traceanalyzer.base import digits
from traceanalyzer.diagnosis.measurements import Measurements, measure_ranks
from traceanalyzer.diagnosis.remedies.data import data_loader_workers
from traceanalyzer.diagnosis.remedies.straggler import fix_straggler
from traceanalyzer.trace import CopyKind, DeviceOpKind, MemoryKind

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace

EPOCH_NS = 10**18


def together(*ranks: Rank) -> list[Measurements]:
    """The ranks of a run, measured and compared."""
    each = measure_ranks([one.trace for one in run(*ranks)])
    compared = compare_ranks([one.timed.memo(digest_of) for one in each])
    return [replace(one, ranks=compared) for one in each]


def offers(*ranks: Rank) -> list[str]:
    """What is advised, from each rank's point of view."""
    made = [fix_straggler.offer(m) for m in together(*ranks)]
    return [offer.action.pytorch for offer in made if offer is not None]


def test_a_rank_whose_host_has_more_work_is_to_be_fixed() -> None:
    assert any(
        "Fix rank 1: its Python takes" in action for action in offers(Rank(), Rank(host=900.0))
    )


def test_a_rank_with_longer_kernels_gets_less_of_the_data() -> None:
    found = offers(Rank(), Rank(compute=700.0))
    assert found
    assert all(
        "Deal out the work evenly: kernels of rank 1 take 0.2 ms more" in action for action in found
    )


def test_a_host_that_merely_dispatches_more_slowly_is_no_straggler() -> None:
    assert offers(Rank(compute=30.0), Rank(host=95.0, compute=30.0)) == []


def test_the_rank_with_more_work_is_named_though_another_dispatches_more_slowly() -> None:
    found = offers(Rank(host=60.0, compute=20.0), Rank(host=20.0, compute=20.0, work=400.0))
    assert found
    assert all("Fix rank 1: its Python takes" in action for action in found)


def stages(*compute: float) -> list[Measurements]:
    """Stages of a pipeline that compute so long for each of four parts, us, and send to each
    other."""
    builders = [Ranked() for _ in compute]
    ends = [0.0] * len(compute)
    slowest = max(compute)
    for step in range(6):
        for r, (b, us) in enumerate(zip(builders, compute, strict=True)):
            begun = now = ends[r]
            for part in range(4):
                b.launched(GEMM, now + 8, now + 8 + us, begun + 20 * part)
                kind = "recv" if r else "send"
                at = begun + 20 * part + 10
                b.collective(
                    now + 10 + us,
                    now + 40 + slowest,
                    at,
                    name=kind,
                    kernel="ncclDevKernel_SendRecv",
                )
                now += 42 + slowest
            ends[r] = now
            b.call("cudaStreamSynchronize", begun + 100, now)
            b.annotation(f"ProfilerStep#{step}", begun, now)
    each = measure_ranks([b.trace(r, len(compute)) for r, b in enumerate(builders)])
    compared = compare_ranks([one.timed.memo(digest_of) for one in each])
    return [replace(one, ranks=compared) for one in each]


def test_the_longest_stage_of_a_pipeline_is_spoken_of_and_cut() -> None:
    each = stages(300.0, 900.0)
    assert each[0].ranks is not None
    assert each[0].ranks.critical == 1
    assert fix_straggler.offer(each[0]) is None
    offer = fix_straggler.offer(each[1])
    replay = each[1].replay
    assert offer is not None
    assert (
        "Cut the stages evenly: kernels of rank 1 take 1.2 ms more than on average"
        in offer.action.pytorch
    )
    assert replay is not None
    assert replay.gain_ms(offer.scenario) == pytest.approx(1.2, rel=0.1)


def test_stages_that_compute_alike_stay() -> None:
    assert [fix_straggler.offer(m) for m in stages(900.0, 880.0)] == [None, None]


def test_uneven_work_is_evened_out_and_not_taken_away() -> None:
    m = together(Rank(), Rank(compute=700.0))[0]
    offer = fix_straggler.offer(m)
    assert offer is not None
    assert m.replay is not None
    step_ms = m.replay.step_under_ms(offer.scenario)
    assert step_ms == pytest.approx((300 + 700) / 2 / 1e3 + 0.052, rel=0.05)


def test_kernels_beside_a_collective_that_waits_do_not_hide_what_a_rank_costs() -> None:
    """Rank 1 has 1.6 times the batch, and the kernels of rank 0 take a third longer while it waits:
    a stopwatch read 9.52 ms with the batches alike."""
    m = measurements(*ranks("two_ranks/straggler_batch.base")).critical
    offer = fix_straggler.offer(m)
    assert offer is not None
    assert m.replay is not None
    assert m.replay.step_under_ms(offer.scenario) == pytest.approx(9.52, rel=0.05)
    gain = digits(m.replay.gain_ms(offer.scenario))
    assert f"the others wait {gain} ms a step for its kernels" in str(offer.action.pytorch)


def of_different_steps(*ranks: Rank, other: tuple[Rank, ...]) -> list[Measurements]:
    """Rank 0 of a run, and rank 1 of the same program a second later, when its steps take another
    time."""
    first = run(*ranks)[0].trace
    second = run(*other)[1].trace
    traces = [replace(first, epoch_ns=EPOCH_NS), replace(second, epoch_ns=EPOCH_NS + 10**9)]
    each = measure_ranks(traces)
    compared = compare_ranks([one.timed.memo(digest_of) for one in each])
    return [replace(one, ranks=compared) for one in each]


def test_a_rank_that_others_wait_for_is_told_from_different_steps_too() -> None:
    slow = Rank(host=9000.0)
    even = Rank()
    each = of_different_steps(slow, even, other=(Rank(host=12000.0), even))
    m = each[0]
    assert m.replay is not None
    assert len(m.replay.typical) == 1
    assert m.ranks is not None
    assert [row.straggler for row in m.ranks.rows] == [True, False]
    assert m.ranks.rows[1].waiting_ms == pytest.approx(11.7, rel=0.05)
    offer = fix_straggler.offer(m)
    assert offer is not None
    assert "Fix rank 0: its Python takes" in offer.action.pytorch
    step_ms = m.replay.step_under_ms(offer.scenario)
    assert step_ms is not None
    assert step_ms < 0.7
    assert fix_straggler.offer(each[1]) is None


def test_ranks_that_wait_alike_in_different_steps_have_no_straggler() -> None:
    each = of_different_steps(
        Rank(host=9000.0), Rank(host=9000.0), other=(Rank(host=12000.0), Rank(host=12000.0))
    )
    assert [fix_straggler.offer(m) for m in each] == [None, None]


def loading(rank: int, us: float) -> Trace:
    """A rank that works so long before it copies a batch in each step, and then computes and
    reduces."""
    b = Ranked()
    now = 0.0
    for step in range(6):
        begun = now
        now = now + us
        b.correlation += 1
        b.call("cudaMemcpyAsync", now, now + 5, b.correlation)
        columns = {
            "copy_kind": CopyKind.HOST_TO_DEVICE,
            "bytes": 1 << 22,
            "source_memory": MemoryKind.PINNED,
        }
        b.kernel(
            "Memcpy HtoD",
            now + 6,
            now + 60,
            b.correlation,
            kind=DeviceOpKind.MEMCPY,
            stream=7,
            **columns,
        )
        b.launched(GEMM, now + 61, now + 361, now + 10)
        b.collective(now + 362, begun + 9500, now + 20, thread=0)
        now = begun + 9500
        b.call("cudaStreamSynchronize", begun + us + 30, now)
        b.annotation(f"ProfilerStep#{step}", begun, now)
    return b.trace(rank, 2)


@pytest.mark.parametrize(("other", "advised"), [(20.0, False), (8000.0, True)])
def test_work_of_one_host_alone_is_no_loading_of_all(other: float, advised: bool) -> None:
    m = measure_ranks([loading(0, 8000.0), loading(1, other)])[0]
    assert m.replay is not None
    assert m.replay.typical[0].loading.any()
    assert (data_loader_workers.offer(m) is not None) == advised


def grids(*blocks: int, slow: int = 1, apart_us: float = 0.0) -> list[Measurements]:
    """Ranks with the same launches, of which the last ones compute for three times as long as the
    first; each of the others so much longer than the one before; grids of so many blocks."""
    each = []
    for rank, size in enumerate(blocks):
        b = Ranked()
        us = 600.0 if rank >= len(blocks) - slow else 200.0 + rank * apart_us
        for step in range(6):
            at = 1000.0 * step
            b.annotation(f"ProfilerStep#{step}", at, at + 1000)
            b.launched(GEMM, at + 20, at + 20 + us, at + 5, blocks=size, threads=256)
            b.collective(at + 21 + us, at + 950, at + 10, ranks=len(blocks))
            b.call("cudaStreamSynchronize", at + 20, at + 950)
        each.append(b.trace(rank, len(blocks), epoch_ns=EPOCH_NS))
    measured = measure_ranks(each)
    compared = compare_ranks([one.timed.memo(digest_of) for one in measured])
    return [replace(one, ranks=compared) for one in measured]


def test_the_same_kernels_that_take_longer_are_a_slow_gpu() -> None:
    m = grids(80, 80, 80)[2]
    offer = fix_straggler.offer(m)
    assert offer is not None
    assert m.replay is not None
    assert (
        "Fix rank 2: kernels take 0.4 ms a step longer there for the same work"
        in offer.action.pytorch
    )
    assert m.replay.gain_ms(offer.scenario) == pytest.approx(0.4, rel=0.02)


def test_several_slow_gpus_are_compared_with_the_others_alone() -> None:
    offer = fix_straggler.offer(grids(80, 80, 80, 80, 80, slow=2, apart_us=20.0)[4])
    assert offer is not None
    assert (
        "Fix ranks 3 and 4: kernels take 0.38 ms a step longer there for the same work"
        in offer.action.pytorch
    )


def test_larger_grids_are_more_work_to_deal_out() -> None:
    offer = fix_straggler.offer(grids(80, 80, 240)[2])
    assert offer is not None
    assert "Deal out the work evenly: kernels of rank 2" in offer.action.pytorch


def test_a_rank_that_loads_itself_while_workers_load_for_the_others_is_to_be_fixed() -> None:
    """What its loader takes is not told as that of the rank whose workers keep up."""
    fed = Rank(loads=30.0, has_workers=True)
    slow = Rank(loads=900.0)
    each = together(fed, slow)
    assert all("Fix rank 1: it loads its input in the" in one for one in offers(fed, slow))
    assert len(offers(fed, slow)) == 2
    assert [data_loader_workers.offer(m) for m in each] == [None, None]
    offer = fix_straggler.offer(each[0])
    assert offer is not None
    assert each[0].replay is not None
    assert each[0].replay.step_under_ms(offer.scenario) == pytest.approx(0.36, rel=0.25)


def test_a_rank_that_loads_itself_gets_workers_where_it_is_reported_alone() -> None:
    """The one that waits for it, and has workers, gets no advice on its loader."""
    each = together(Rank(loads=30.0, has_workers=True), Rank(loads=900.0))
    alone = [replace(m, ranks=compare_ranks([m.timed.memo(digest_of)], (), None)) for m in each]
    waits, loads = map(data_loader_workers.offer, alone)
    assert waits is None
    assert loads is not None
    assert "num_workers=" in loads.action.pytorch


def test_ranks_that_load_alike_are_no_stragglers_by_their_loaders() -> None:
    for has_workers in (True, False):
        rank = Rank(loads=900.0, has_workers=has_workers)
        assert not any("loads its input" in one for one in offers(rank, rank))
    late = (Rank(loads=30.0, has_workers=True), Rank(loads=900.0, has_workers=True))
    assert not any("loads its input" in one for one in offers(*late))


def test_a_rank_with_more_operators_is_told_how_many() -> None:
    """Rank 1 of the sample multiplies 20 times a step, rank 0 ten times."""
    report = reported(ROOT / "sample_traces" / "straggler")
    (advice,) = report.recommendations
    assert "for its kernels; it launches 10 more operators a step" in advice.action
