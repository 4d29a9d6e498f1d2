"""Two jobs compared: the step, and who held it up before and after."""

import re
from collections.abc import Sequence
from pathlib import Path

from traceanalyzer.base import dataclass, digits, metric
from traceanalyzer.fleet.digests.files import SUFFIX
from traceanalyzer.fleet.job.model import Job, JobCulprit
from traceanalyzer.fleet.job.open import job_of
from traceanalyzer.report.document import Document, Section, Table, TextTable, Verdict
from traceanalyzer.report.printed import Printed


@dataclass(frozen=True)
class CulpritChange:
    """A rank that holds up either job."""

    rank: int | None = metric("the rank")
    host: str | None = metric("its host; null where none was recorded")
    cause_a: str | None = metric("why, in A", text="own")
    cause_b: str | None = metric("why, in B", text="own")
    gain_a_ms: float = metric("what A would gain a step without what it is late by")
    gain_b_ms: float = metric("the same in B")


def compared_jobs(
    runs: Sequence[str], hidden: Sequence[re.Pattern[str]] | None = None
) -> Printed | None:
    """The comparison of two folders of digests; None where these are not two of them. Raises
    TraceAnalyzerError."""
    if len(runs) != 2 or not all(
        Path(run).is_dir() and list(Path(run).glob(f"*{SUFFIX}")) for run in runs
    ):
        return None
    a, b = (job_of([run], "", hidden=hidden) for run in runs)
    rows = _rows(a, b)
    figures = [
        ("step ms", a.summary.step_ms, b.summary.step_ms),
        ("slowdown", a.slowdown.s, b.slowdown.s),
        ("ranks read", float(a.ranks.read), float(b.ranks.read)),
    ]
    texts = [
        [name, *("-" if value is None else digits(value) for value in both)]
        for name, *both in figures
    ]
    compared = TextTable(["", "A", "B"], [False, True, True], texts)
    sections = [
        Section("Compared", [Verdict(_headline(a, b)), compared]),
        Section("Who holds it up", [Table(rows)] if rows else ["Nobody, in either."]),
    ]
    values = {"headline": _headline(a, b), "a": a.summary, "b": b.summary, "culprits": rows}
    return Printed(
        Document(_headline(a, b), sections), values | {"slowdown": [a.slowdown, b.slowdown]}
    )


def _rows(a: Job, b: Job) -> list[CulpritChange]:
    before, after = ({_who(one): one for one in job.culprits} for job in (a, b))
    either = dict.fromkeys([*before, *after])
    rows = [_row(before.get(rank), after.get(rank)) for rank in either]
    return sorted(rows, key=lambda row: -max(row.gain_a_ms, row.gain_b_ms))


def _row(a: JobCulprit | None, b: JobCulprit | None) -> CulpritChange:
    known = a or b
    rank, host = (known.rank, known.host) if known else (None, None)
    (cause_a, gain_a), (cause_b, gain_b) = (
        (one.cause, one.gain_ms) if one else (None, 0.0) for one in (a, b)
    )
    return CulpritChange(rank, host, cause_a, cause_b, gain_a, gain_b)


def _who(culprit: JobCulprit) -> str:
    return f"stage {culprit.stage}" if culprit.cause == "heavy_stage" else f"rank {culprit.rank}"


def _headline(a: Job, b: Job) -> str:
    before, after = ({_who(one) for one in job.culprits} for job in (a, b))
    gone = sorted(before - after)
    new = sorted(after - before)
    parts = [f"{', '.join(gone)} no longer holds up the job"] if gone else []
    parts += [f"{', '.join(new)} holds it up now"] if new else []
    parts += ["the same ranks hold it up"] if before and before == after else []
    step = " -> ".join(
        "?" if job.summary.step_ms is None else digits(job.summary.step_ms) for job in (a, b)
    )
    return f"Step {step} ms: {'; '.join(parts) or 'nobody holds up the job, before or after'}."
