"""The ranks of one job out of what digests lie in a folder: of several runs the largest, each rank
once."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import PurePath

import numpy as np

from traceanalyzer.analysis.ranks.compare import CLOCK_TOLERANCE_NS
from traceanalyzer.analysis.ranks.copied import a_copy, copies
from traceanalyzer.analysis.ranks.digest import RankDigest
from traceanalyzer.analysis.ranks.matches import match_collectives
from traceanalyzer.base import NS_PER_S, dataclass, digits
from traceanalyzer.base.errors import SeveralRunsError
from traceanalyzer.fleet.digests.files import DigestedRank, LeftOut
from traceanalyzer.trace import I64


@dataclass(frozen=True, eq=False)
class Chosen:
    """The ranks of one job, by rank, and the rest."""

    ranks: tuple[DigestedRank, ...]
    unreadable: tuple[LeftOut, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]

    @property
    def digests(self) -> list[RankDigest]:
        """The digests of the ranks, in their order."""
        return [one.digest for one in self.ranks]


def chosen(found: Iterable[DigestedRank | LeftOut]) -> Chosen:
    """The ranks of the largest run among these. Raises SeveralRunsError where nothing tells which
    run is meant, or where one is a copy of another rank's."""
    every = list(found)
    unreadable = [
        replace(one, why=one.why.removeprefix(f"{one.path}: "))
        for one in every
        if isinstance(one, LeftOut)
    ]
    ranks = [one for one in every if isinstance(one, DigestedRank)]
    _refuse_copies(ranks)
    known = [one for one in ranks if one.digest.rank is not None]
    left_out = [
        LeftOut(one.path, "it does not say its rank")
        for one in ranks
        if known and one.digest.rank is None
    ]
    kept, notes = _of_one_time(_of_one_world(known or ranks, left_out), left_out)
    kept = _each_once(kept, left_out) if known else kept
    kept.sort(
        key=lambda one: (
            -1 if one.digest.rank is None else one.digest.rank,
            one.path,
            one.digest.claim.start_ns,
        )
    )
    return Chosen(tuple(kept), tuple(unreadable), tuple(left_out), tuple(notes))


def _refuse_copies(ranks: Sequence[DigestedRank]) -> None:
    """Raises SeveralRunsError where a recording is a copy of another rank's. Of one of the same
    rank the last is taken."""
    digests = [one.digest for one in ranks if not one.digest.only_step_times]
    for i, k in copies([_times(digest) for digest in digests]):
        first = digests[i]
        second = digests[k]
        is_one_rank = first.rank is not None and first.rank == second.rank
        if first.path != second.path and not is_one_rank:
            raise a_copy(first.path, second.path)


def _times(digest: RankDigest) -> I64:
    """When its steps and calls began and ended, and what its device did in each step, ns."""
    steps = digest.steps
    calls = digest.calls
    times = [steps.start, steps.end, steps.host_start, steps.host_end, calls.start, calls.end]
    spent = [digest.compute, digest.communication, digest.busy]
    return np.concatenate([np.concatenate(times) + digest.epoch_ns, *spent])


def _of_one_world(ranks: list[DigestedRank], left_out: list[LeftOut]) -> list[DigestedRank]:
    claimed = (one.digest.claim.world_size for one in ranks)
    sizes = Counter(size for size in claimed if size is not None)
    if len(sizes) < 2:
        return ranks
    usual = sizes.most_common(1)[0][0]
    other = [one for one in ranks if one.digest.claim.world_size not in (usual, None)]
    why = "of another run: {} ranks, not {}"
    left_out += [
        LeftOut(one.path, why.format(one.digest.claim.world_size, usual), one.digest.rank)
        for one in other
    ]
    return [one for one in ranks if one not in other]


def _of_one_time(
    ranks: list[DigestedRank],
    left_out: list[LeftOut],
) -> tuple[list[DigestedRank], list[str]]:
    """The largest set recorded at one time, with ranks whose collectives tell that their clock
    alone is apart."""
    sets = _at_one_time(ranks)
    if len(sets) < 2:
        return ranks, []

    def weight_of(some: Sequence[DigestedRank]) -> tuple[int, int]:
        distinct = {one.digest.rank for one in some}
        return len(distinct), some[0].digest.claim.start_ns

    main = max(sets, key=weight_of)
    sets.remove(main)
    kept = list(main)
    notes = []
    ranks_in_main = {one.digest.rank for one in main}
    middle = main[len(main) // 2].digest.claim.start_ns
    others: list[DigestedRank] = []
    for rank in chain.from_iterable(sets):
        apart = (rank.digest.claim.start_ns - middle) / NS_PER_S
        when = f"{digits(abs(apart))} s {'later' if apart > 0 else 'earlier'}"
        shared = rank.digest.rank not in ranks_in_main and match_collectives(
            [main[0].digest, rank.digest]
        )
        if shared and len(shared) > 1 and shared.clocks.comparable:
            kept.append(_moved(rank, round(apart * NS_PER_S)))
            notes.append(
                f"The clock of rank {rank.digest.rank} is {when} than the others': "
                "aligned by collectives."
            )
        else:
            others.append(rank)
            left_out.append(
                LeftOut(rank.path, f"of another run: recorded {when}", rank.digest.rank)
            )
    _refuse_parts_of_runs(kept, others)
    return kept, notes


def _refuse_parts_of_runs(kept: Sequence[DigestedRank], others: Sequence[DigestedRank]) -> None:
    """Raises SeveralRunsError where as many recordings of other times are of ranks that are missing
    among those kept: nothing tells which run is meant."""
    ranks = {one.digest.rank for one in kept}
    elsewhere = [one for one in others if one.digest.rank not in ranks]
    if len(elsewhere) >= len(kept):
        paths = f"{kept[0].path}, {elsewhere[0].path}"
        raise SeveralRunsError(
            f"{len(kept) + len(others)} recordings that are not one run (they were recorded at "
            f"different times): {paths}; name the files of one run"
        )


def _moved(rank: DigestedRank, late_ns: int) -> DigestedRank:
    digest = rank.digest
    claim = rank.digest.claim
    claim = claim._replace(start_ns=claim.start_ns - late_ns, end_ns=claim.end_ns - late_ns)
    return replace(rank, digest=replace(digest, claim=claim, epoch_ns=digest.epoch_ns - late_ns))


def _at_one_time(ranks: Sequence[DigestedRank]) -> list[list[DigestedRank]]:
    sets: list[list[DigestedRank]] = []
    end = 0
    for rank in sorted(ranks, key=lambda one: one.digest.claim.start_ns):
        claim = rank.digest.claim
        if not sets or claim.start_ns > end + CLOCK_TOLERANCE_NS:
            sets.append([])
            end = claim.end_ns
        sets[-1].append(rank)
        end = max(end, claim.end_ns)
    return sets


def _each_once(ranks: list[DigestedRank], left_out: list[LeftOut]) -> list[DigestedRank]:
    """Of several recordings of a rank the one that was begun last."""
    found: dict[int | None, DigestedRank] = {}
    for recorded in sorted(ranks, key=lambda one: one.digest.claim.start_ns):
        rank = recorded.digest.rank
        if rank in found:
            why = f"rank {rank} is here twice: {PurePath(recorded.path).name} is taken"
            left_out.append(LeftOut(found[rank].path, why, rank))
        found[rank] = recorded
    return list(found.values())
