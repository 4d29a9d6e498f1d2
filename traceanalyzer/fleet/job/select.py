"""The ranks of one job out of what digests lie in a folder: of several runs the largest, each rank once."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import PurePath

from traceanalyzer.analysis.ranks.compare import CLOCK_TOLERANCE_NS
from traceanalyzer.analysis.ranks.digest import RankDigest
from traceanalyzer.analysis.ranks.matches import match_collectives
from traceanalyzer.base import NS_PER_S, dataclass, digits
from traceanalyzer.fleet.digests.columns import LeftOut, Rank


@dataclass(frozen=True, eq=False)
class Chosen:
    """The ranks of one job, by rank, and the rest."""

    ranks: tuple[Rank, ...]
    unreadable: tuple[LeftOut, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]

    @property
    def digests(self) -> list[RankDigest]:
        """Of the ranks."""
        return [one.digest for one in self.ranks]


def chosen(found: Iterable[Rank | LeftOut]) -> Chosen:
    """The ranks of the largest run among these."""
    every = list(found)
    unreadable = [replace(one, why=one.why.removeprefix(f"{one.path}: ")) for one in every if isinstance(one, LeftOut)]
    ranks = [one for one in every if isinstance(one, Rank)]
    left_out: list[LeftOut] = []
    kept = _with_rank(ranks, left_out)
    kept = _of_one_world(kept, left_out)
    kept, notes = _of_one_time(kept, left_out)
    kept = _each_once(kept, left_out)
    kept.sort(key=_order)
    return Chosen(tuple(kept), tuple(unreadable), tuple(left_out), tuple(notes))


def _order(one: Rank) -> tuple[int, str]:
    rank = one.digest.rank
    return -1 if rank is None else rank, one.path


def _with_rank(ranks: list[Rank], left_out: list[LeftOut]) -> list[Rank]:
    known = [one for one in ranks if one.digest.rank is not None]
    if not known:
        return ranks
    left_out += [LeftOut(one.path, "it does not say its rank") for one in ranks if one.digest.rank is None]
    return known


def _of_one_world(ranks: list[Rank], left_out: list[LeftOut]) -> list[Rank]:
    sizes = Counter(size for one in ranks if (size := one.digest.claim.world_size) is not None)
    if len(sizes) < 2:
        return ranks
    usual = sizes.most_common(1)[0][0]
    other = [one for one in ranks if one.digest.claim.world_size not in (usual, None)]
    left_out += [
        LeftOut(one.path, f"of another run: {one.digest.claim.world_size} ranks, not {usual}", one.digest.rank)
        for one in other
    ]
    return [one for one in ranks if one not in other]


def _of_one_time(ranks: list[Rank], left_out: list[LeftOut]) -> tuple[list[Rank], list[str]]:
    """The largest of the sets that were recorded at the same time, with ranks that it lacks and whose collectives tell
    that it is their clock alone that is apart."""
    sets = _at_one_time(ranks)
    if len(sets) < 2:
        return ranks, []
    main = max(sets, key=lambda one: (len({rank.digest.rank for rank in one}), one[0].digest.claim.start_ns))
    sets.remove(main)
    kept, notes = list(main), []
    there = {one.digest.rank for one in main}
    middle = sorted(one.digest.claim.start_ns for one in main)[len(main) // 2]
    for one in chain.from_iterable(sets):
        apart = (one.digest.claim.start_ns - middle) / NS_PER_S
        when = f"{digits(abs(apart))} s {'later' if apart > 0 else 'earlier'}"
        if one.digest.rank not in there and _share_collectives(main[0].digest, one.digest):
            kept.append(_moved(one, round(apart * NS_PER_S)))
            notes.append(f"The clock of rank {one.digest.rank} is {when} than the others': aligned by collectives.")
        else:
            left_out.append(LeftOut(one.path, f"of another run: recorded {when}", one.digest.rank))
    return kept, notes


def _moved(one: Rank, late_ns: int) -> Rank:
    """The rank with its clock put back by so much."""
    digest = one.digest
    claim = digest.claim
    claim = claim._replace(start_ns=claim.start_ns - late_ns, end_ns=claim.end_ns - late_ns)
    return replace(one, digest=replace(digest, claim=claim, epoch_ns=digest.epoch_ns - late_ns))


def _at_one_time(ranks: Sequence[Rank]) -> list[list[Rank]]:
    sets: list[list[Rank]] = []
    end = 0
    for one in sorted(ranks, key=lambda one: one.digest.claim.start_ns):
        claim = one.digest.claim
        if sets and claim.start_ns <= end + CLOCK_TOLERANCE_NS:
            sets[-1].append(one)
            end = max(end, claim.end_ns)
        else:
            sets.append([one])
            end = claim.end_ns
    return sets


def _share_collectives(one: RankDigest, other: RankDigest) -> bool:
    matches = match_collectives([one, other])
    return len(matches) > 1 and matches.clocks.comparable


def _each_once(ranks: list[Rank], left_out: list[LeftOut]) -> list[Rank]:
    """Of several recordings of a rank the one that was begun last."""
    found: dict[int | None, Rank] = {}
    unranked = []
    for one in sorted(ranks, key=lambda one: one.digest.claim.start_ns):
        rank = one.digest.rank
        if rank is None:
            unranked.append(one)
            continue
        if rank in found:
            name = PurePath(one.path).name
            left_out.append(LeftOut(found[rank].path, f"rank {rank} is here twice: {name} is taken", rank))
        found[rank] = one
    return [*unranked, *found.values()]
