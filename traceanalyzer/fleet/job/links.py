"""Links that are slow: nobody is late, but a group's collectives transfer for longer than those of
groups alike."""

from collections.abc import Sequence

import numpy as np

from traceanalyzer.analysis.algebra import Groups
from traceanalyzer.analysis.ranks.late import MIN_GAIN_SHARE
from traceanalyzer.analysis.ranks.matches import Matches
from traceanalyzer.base import ms
from traceanalyzer.fleet.digests.files import Rank
from traceanalyzer.fleet.job.model import Culprit, range_ms
from traceanalyzer.trace import I64, ranked

LEAST_GROUPS = 3  # of two nobody knows which is the usual one
SLOWER = 1.3  # times that a group's transfers must be as long as those of the middle group


def slow_links(
    matches: Matches, ranks: Sequence[Rank], hosts: Sequence[str | None], step_ms: float
) -> list[Culprit]:
    """The group whose transfers cost a step most beyond those of the middle group alike; empty
    where none is slow."""
    steady = np.flatnonzero(matches.steady)
    transfer = (matches.most(matches.end) - matches.most(matches.start))[steady]
    name = {group: i for i, group in enumerate(dict.fromkeys(matches.group))}
    group = np.array([name[one] for one in matches.group], np.int64)[steady]
    members = ranked(matches.members)[1][steady]
    alike = Groups.of(matches.kind[steady], group, matches.bytes[steady])
    found: list[tuple[float, I64]] = []
    for rows in alike.rows:
        sets = Groups.of(members[rows])
        if len(sets) < LEAST_GROUPS:
            continue
        middle = np.array([float(np.median(transfer[rows[one]])) for one in sets.rows])
        worst = int(middle.argmax())
        usual = float(np.median(middle))
        if middle[worst] > SLOWER * usual:
            mine = rows[sets.rows[worst]]
            found.append((float((transfer[mine] - usual).sum()), mine))
    if not found:
        return []
    _, mine = max(found, key=lambda one: one[0])
    return _named(matches, steady[mine], transfer[mine], ranks, hosts, step_ms)


def _named(
    matches: Matches,
    collectives: I64,
    transfer: I64,
    ranks: Sequence[Rank],
    hosts: Sequence[str | None],
    step_ms: float,
) -> list[Culprit]:
    first = int(collectives[0])
    members = matches.rank[matches.first[first] : matches.first[first + 1]].tolist()
    here = {hosts[member] for member in members}
    others = ~np.isin(np.arange(len(matches)), collectives) & (matches.kind == matches.kind[first])
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
    one = ranks[members[0]]
    low, high = range_ms(excess, gain)
    share = float((excess > 0).mean())
    return [
        Culprit(
            one.digest.rank,
            here.pop() if len(here) == 1 else None,
            None,
            "slow_link",
            gain,
            low,
            high,
            None,
            "recurring" if share > 1 / 2 else "roaming",
            share,
            one.path,
        )
    ]
