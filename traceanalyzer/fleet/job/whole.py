"""The ranks of a job with what is worked out from all of them."""

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property

import numpy as np

from traceanalyzer.analysis.ranks.compare import RankComparison, compare_ranks
from traceanalyzer.analysis.ranks.digest import RankDigest
from traceanalyzer.analysis.ranks.late import late_together
from traceanalyzer.analysis.ranks.matches import Matches, match_collectives
from traceanalyzer.analysis.ranks.skew import Arrivals, arrivals
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.fleet.digests.columns import Rank
from traceanalyzer.fleet.job.select import Chosen
from traceanalyzer.fleet.job.simulate import Plan, plan_of
from traceanalyzer.fleet.job.topology import hosts_of, stages_of
from traceanalyzer.trace import F64, I64


@dataclass(frozen=True, eq=False)
class Whole:
    """The ranks of a job with what is worked out from all of them."""

    chosen: Chosen
    rack_of: Mapping[str, str] = field(default_factory=dict)
    """Of hosts, as far as they are known."""

    @property
    def ranks(self) -> tuple[Rank, ...]:
        """Each with its digest."""
        return self.chosen.ranks

    @cached_property
    def digests(self) -> list[RankDigest]:
        """Of the ranks."""
        return self.chosen.digests

    @cached_property
    def matches(self) -> Matches | None:
        """Their collectives; None where no two share any."""
        matches = match_collectives(self.digests) if len(self.digests) > 1 else None
        return matches if matches is not None and len(matches) else None

    @cached_property
    def came(self) -> Arrivals | None:
        """Who came when."""
        return None if self.matches is None else arrivals(self.matches)

    @cached_property
    def compared(self) -> RankComparison:
        """The same comparison as of recordings."""
        unread = [one.rank for one in self.chosen.unreadable if one.rank is not None]
        return compare_ranks(self.digests, unread, self.matches)

    @cached_property
    def hosts(self) -> tuple[list[str | None], bool]:
        """The host of each rank, and whether it is assumed."""
        return hosts_of(self.ranks)

    @cached_property
    def racks(self) -> list[str | None]:
        """The rack of each rank's host."""
        return [None if host is None else self.rack_of.get(host) for host in self.hosts[0]]

    @cached_property
    def stages(self) -> list[int | None]:
        """The stage of each rank."""
        return stages_of(self.digests)

    @cached_property
    def steady_steps(self) -> I64:
        """Steps (of `Matches.steps`) that are steady on all ranks, in order."""
        matches = self.matches
        if matches is None:
            return np.empty(0, np.int64)
        steady = np.ones(len(matches.steps), bool)
        steady[matches.step[~matches.steady]] = False
        steady &= np.bincount(matches.step, minlength=len(steady)) > 0
        last = np.zeros(len(matches.steps), np.int64)
        np.maximum.at(last, matches.step, matches.start[matches.first[:-1]])
        found = np.flatnonzero(steady)
        return found[np.argsort(last[found], kind="stable")]

    def own_ns(self, rank: int) -> F64:
        """What a rank (by position) comes later than the last but one by itself in each steady step, or several
        together with it, ns."""
        matches, came = self.matches, self.came
        if matches is None or came is None:
            return np.zeros(0)
        several = late_together(matches) if any(one.together for one in self.compared.late) else None
        own = np.where(came.late == rank, came.own, 0)
        if several is not None and rank in several.ranks:
            own = several.gain
        mine = matches.steady
        sums = np.bincount(matches.step[mine], own[mine].astype(np.float64), minlength=len(matches.steps))
        return sums[self.steady_steps].astype(np.float64)

    @cached_property
    def plan(self) -> Plan | None:
        """In which order the collectives wait for each other."""
        return None if self.matches is None else plan_of(self.matches)
