"""An answer about a job that can be published."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from traceanalyzer.fleet.digests.columns import Rank
from traceanalyzer.fleet.job.model import Culprit, Job
from traceanalyzer.fleet.job.select import LeftOut
from traceanalyzer.report.privacy.redact import redact_rows
from traceanalyzer.trace import Run


def without_hosts(found: Iterable[Rank | str]) -> list[Rank | str]:
    """Ranks whose hosts are `host-1`, `host-2`, ...; equal ones stay equal."""
    names: dict[str, str] = {}

    def hidden(one: Rank | str) -> Rank | str:
        if isinstance(one, str) or one.digest is None or one.digest.host is None:
            return one
        host = names.setdefault(one.digest.host, f"host-{len(names) + 1}")
        return replace(one, digest=replace(one.digest, host=host))

    return list(map(hidden, found))


def redacted(job: Job, patterns: Sequence[re.Pattern[str]]) -> Job:
    """The answer without paths, users and secrets; names that match a pattern become `name-1`, `name-2`, ..."""
    ranks = replace(job.ranks, unreadable=_files(job.ranks.unreadable), left_out=_files(job.ranks.left_out))
    clean: Job = redact_rows(
        replace(job, ranks=ranks, culprits=_ranks(job.culprits), worst=_ranks(job.worst)), Run(()), patterns
    )
    return clean


def _files(found: Sequence[LeftOut]) -> list[LeftOut]:
    return [replace(one, path=f"file-{i}", why=one.why.replace(one.path, "")) for i, one in enumerate(found, 1)]


def _ranks(found: Sequence[Culprit]) -> list[Culprit]:
    return [replace(one, path=f"rank{one.rank}") for one in found]
