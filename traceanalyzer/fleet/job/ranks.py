"""The ranks of a job with what is worked out from all of them."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path

import numpy as np

from traceanalyzer.analysis.ranks.compare import RankComparison, compare_ranks
from traceanalyzer.analysis.ranks.digest import RankDigest
from traceanalyzer.analysis.ranks.late import LateRank, late_together
from traceanalyzer.analysis.ranks.matches import Matches, match_collectives
from traceanalyzer.analysis.ranks.skew import Arrivals, arrivals
from traceanalyzer.base import NS_PER_MS, UnreadableInputError, dataclass, regex
from traceanalyzer.fleet.digests.files import DigestedRank
from traceanalyzer.fleet.job.select import Chosen
from traceanalyzer.fleet.job.simulate import JobPlan, job_plan
from traceanalyzer.trace import F64, I64

_PIPELINE = regex(r"(?<![a-z])(pp|pipe|pipeline)(?![a-z])|pipeline_model_parallel", re.IGNORECASE)
"""How groups of stages are named: `mesh_pp`, `PIPELINE_MODEL_PARALLEL_GROUP`."""


@dataclass(frozen=True, eq=False)
class JobRanks:
    """The ranks of a job with what is worked out from all of them."""

    chosen: Chosen
    rack_of: Mapping[str, str] = field(default_factory=dict)  # of hosts, as far as they are known

    @property
    def ranks(self) -> tuple[DigestedRank, ...]:
        """Each with its digest."""
        return self.chosen.ranks

    @cached_property
    def digests(self) -> list[RankDigest]:
        """The digests of the ranks, in their order."""
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
        """The ranks compared as those of recordings are."""
        unread = [one.rank for one in self.chosen.unreadable if one.rank is not None]
        return compare_ranks(self.digests, unread, self.matches)

    @cached_property
    def hosts(self) -> tuple[list[str | None], bool]:
        """The host of each rank, and whether it is assumed."""
        return hosts_of(self.digests, [one.devices for one in self.ranks])

    @cached_property
    def racks(self) -> list[str | None]:
        """The rack of each rank's host."""
        return [None if host is None else self.rack_of.get(host) for host in self.hosts[0]]

    @cached_property
    def stages(self) -> list[int | None]:
        """The stage of each rank."""
        job = self.compared.pipeline
        return (
            stages_of(self.digests)
            if job is None
            else [job.stage.get(i) for i in range(len(self.digests))]
        )

    @cached_property
    def steps(self) -> tuple[str, ...]:
        """Names of the steps in which ranks were compared."""
        if self.matches is not None:
            return self.matches.steps
        return () if self.compared.pipeline is None else self.compared.pipeline.steps

    @cached_property
    def steady_steps(self) -> I64:
        """Places in `steps` of those that are steady on all ranks, in order; of a pipeline those that were
        worked out."""
        matches = self.matches
        job = self.compared.pipeline
        if job is not None:
            return np.array([self.steps.index(name) for name in job.steps], np.int64)
        if matches is None:
            return np.empty(0, np.int64)
        steady = np.ones(len(matches.steps), bool)
        steady[matches.step[~matches.steady]] = False
        steady &= np.bincount(matches.step, minlength=len(steady)) > 0
        last = np.zeros(len(matches.steps), np.int64)
        np.maximum.at(last, matches.step, matches.start[matches.first[:-1]])
        found = np.flatnonzero(steady)
        return found[np.argsort(last[found], kind="stable")]

    @cached_property
    def own_ns(self) -> F64:
        """[step, rank]: what each rank is late by itself: comes later than the last but one, or in
        a pipeline computes longer than its stage usually does."""
        count = len(self.steps)
        size = len(self.digests)
        job = self.compared.pipeline
        own = np.zeros((count, size))
        if job is not None:
            for place, rank in np.ndenumerate(job.position):
                own[self.steady_steps, rank] = job.excess_ms[place] * NS_PER_MS
        elif self.matches is not None and self.came is not None:
            key = self.matches.step.astype(np.int64) * size + self.came.late
            late = np.bincount(key, self.came.own, minlength=count * size)
            own[:] = late.reshape(count, size)
        return own

    def gain_ns(self, rank: int) -> F64:
        """What each steady step gains without what a rank (by position) is late by, or several
        together with it, ns."""
        job = self.compared.pipeline
        late = {one.position: one for one in self.compared.late}
        own = late.get(rank, LateRank(rank, 0.0))
        if job is not None:  # all that are late are so together, or none
            gain = (
                job.evened_ms
                if own.stage is not None
                else job.without_ms([*late] if own.together else [rank])
            )
            return gain * NS_PER_MS
        several = late_together(self.matches) if self.matches is not None and own.together else None
        if self.matches is None or several is None:
            return self.own_ns[self.steady_steps, rank]
        step = self.matches.step
        steady = self.matches.steady
        sums = np.bincount(
            step[steady], several.gain[steady].astype(np.float64), minlength=len(self.steps)
        )
        return sums[self.steady_steps].astype(np.float64)

    @cached_property
    def plan(self) -> JobPlan | None:
        """In which order the collectives wait for each other."""
        return None if self.matches is None else job_plan(self.matches)


def hosts_of(
    digests: Sequence[RankDigest],
    gpus: Sequence[int],
) -> tuple[list[str | None], bool]:
    """The host of each rank, and whether it is assumed: of as many ranks as a recording lists GPUs,
    where none says."""
    named = [one.host for one in digests]
    sizes = Counter(count for count in gpus if count > 1)
    size = next((size for size, _ in sizes.most_common(1)), len(digests))
    if any(named) or len(digests) <= size:
        return named, False
    return [None if one.rank is None else f"node{one.rank // size}" for one in digests], True


def racks_in(path: Path) -> dict[str, str]:
    """The rack of each host, from lines of `HOST RACK` (or `HOST,RACK`). Raises
    UnreadableInputError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        rows = [line.replace(",", " ").split() for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise UnreadableInputError(f"{path}: cannot be read ({error})") from error
    wrong = next((i for i, row in enumerate(rows, 1) if len(row) != 2), None)
    if wrong is not None:
        raise UnreadableInputError(f"{path}: line {wrong} is not a host and its rack (HOST RACK)")
    return dict(rows)


def stages_of(digests: Sequence[RankDigest]) -> list[int | None]:
    """The stage of each rank: its place in its group of the pipeline; None where no such group was
    recorded."""
    return [_stage_of(digest) for digest in digests]


def _stage_of(digest: RankDigest) -> int | None:
    for group in digest.groups:
        if _PIPELINE.search(group.name) and "..." not in group.ranks:
            members = [int(number) for number in re.findall(r"(?<!\d)\d{1,9}(?!\d)", group.ranks)]
            if digest.rank in members:
                return members.index(digest.rank)
    return None
