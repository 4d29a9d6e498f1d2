"""Links that are slow: nobody is late, but a group's collectives transfer for longer than those of
groups alike."""

from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from traceanalyzer.analysis.algebra import Groups
from traceanalyzer.analysis.ranks.late import MIN_GAIN_SHARE
from traceanalyzer.analysis.ranks.matches import Matches
from traceanalyzer.base import dataclass, ms
from traceanalyzer.fleet.digests.files import DigestedRank
from traceanalyzer.fleet.job.model import JobCulprit, range_ms
from traceanalyzer.trace import I32, I64, distinct_places

LEAST_GROUPS = 3  # of two nobody knows which is the usual one
SLOWER = 1.3  # times that a group's transfers must be as long as those of the middle group


def slow_links(
    matches: Matches, ranks: Sequence[DigestedRank], hosts: Sequence[str | None], step_ms: float
) -> list[JobCulprit]:
    """The group whose transfers cost a step most beyond those of the middle group alike; empty
    where none is slow."""
    steady = np.flatnonzero(matches.steady)
    transfer = (matches.most(matches.end) - matches.most(matches.start))[steady]
    members = distinct_places(matches.members)[1][steady]
    group = _codes(matches.group)
    alike = Groups.of(matches.kind[steady], group[steady], matches.bytes[steady])
    found = [slow for rows in alike.rows for slow in _slowest(rows, members, transfer)]
    if not found:
        return []
    slowest = max(found, key=lambda slow: slow.beyond_ns).rows
    return _named(matches, steady[slowest], transfer[slowest], ranks, hosts, step_ms)


@dataclass(frozen=True, eq=False)
class _Slow:
    """Transfers of one group, and what they took beyond those of the middle group."""

    rows: I64
    beyond_ns: float


def _slowest(rows: I64, members: I32 | I64, transfer: I64) -> Iterator[_Slow]:
    """The slowest group of those whose transfers are alike (`rows`), if it is slow."""
    sets = Groups.of(members[rows])
    if len(sets) < LEAST_GROUPS:
        return
    taking = [transfer[rows[one]] for one in sets.rows]
    middle = np.array([float(np.median(times)) for times in taking])
    worst = int(middle.argmax())
    usual = float(np.median(middle))
    if middle[worst] > SLOWER * usual:
        slow = rows[sets.rows[worst]]
        yield _Slow(slow, float((transfer[slow] - usual).sum()))


def _codes(groups: Sequence[Hashable]) -> I64:
    """A number for each group, by its name."""
    code = {group: i for i, group in enumerate(dict.fromkeys(groups))}
    return np.array([code[group] for group in groups], np.int64)


def _named(
    matches: Matches,
    collectives: I64,
    transfer: I64,
    ranks: Sequence[DigestedRank],
    hosts: Sequence[str | None],
    step_ms: float,
) -> list[JobCulprit]:
    first = int(collectives[0])
    members = matches.rank[matches.first[first] : matches.first[first + 1]].tolist()
    member_hosts = {hosts[member] for member in members}
    others = matches.kind == matches.kind[first]
    others &= ~np.isin(np.arange(len(matches)), collectives)
    usual = float(
        np.median(
            (matches.most(matches.end) - matches.most(matches.start))[others & matches.steady]
        )
    )
    steps = np.unique(matches.step[matches.steady])
    beyond = (transfer - usual).astype(np.float64)
    excess = np.bincount(matches.step[collectives], beyond, minlength=len(matches.steps))[
        steps
    ].astype(np.float64)
    gain = ms(float(excess.mean()))
    if gain < MIN_GAIN_SHARE * step_ms:
        return []
    first_rank = ranks[members[0]]
    low, high = range_ms(excess, gain)
    share = float((excess > 0).mean())
    return [
        JobCulprit(
            first_rank.digest.rank,
            member_hosts.pop() if len(member_hosts) == 1 else None,
            None,
            "slow_link",
            gain,
            low,
            high,
            None,
            "recurring" if share > 1 / 2 else "roaming",
            share,
            first_rank.path,
        )
    ]
