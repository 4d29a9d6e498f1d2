"""The one way from a run to its measurements: which part of it, with which knowledge, and which
rank speaks for it."""

from dataclasses import replace

from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.analysis.ranks.compare import (
    OF_ONE_RANK,
    RankComparison,
    compare_ranks,
    why_not_one_run,
)
from traceanalyzer.analysis.ranks.digested import digest_of
from traceanalyzer.analysis.ranks.matches import match_collectives
from traceanalyzer.analysis.ranks.one_run import (
    refuse_apart,
    refuse_other_jobs,
    refuse_several_runs,
)
from traceanalyzer.analysis.ranks.parts import pooled
from traceanalyzer.base import EmptyRecordingError, dataclass, ms
from traceanalyzer.diagnosis.measurements import Measurements, measure, measure_ranks
from traceanalyzer.diagnosis.part_of_run import Selection
from traceanalyzer.trace import Run, Trace, distinct


@dataclass(frozen=True, eq=False)
class MeasuredRanks:
    """A run with its ranks measured: what its report, its tables and its charts are made from."""

    run: Run
    each: list[Measurements]  # the ranks that were asked for
    ranks: RankComparison  # the same, compared

    @property
    def critical(self) -> Measurements:
        """The rank that figures of a step speak of: the one that the others wait for."""
        return self.each[self.ranks.critical]


def measured(
    run: Run, selection: Selection | None = None, knowledge: Knowledge | None = None
) -> MeasuredRanks:
    """Measure a run, or the selected part of it. The ranks that are not selected still count where
    ranks wait for each other.

    Raises EmptyRecordingError, naming what there is, for a rank, device or step that the recording
    does not have; SeveralRunsError for recordings that are not ranks of one run."""
    parts = pooled(run.traces, lambda trace: _steps_ms(trace, knowledge))
    if parts is not None:
        middle = measured(replace(run, traces=parts.traces), selection, knowledge)
        ranks = replace(middle.ranks, notes=(*middle.ranks.notes, parts.note))
        return replace(middle, ranks=ranks)
    return _measured(run, selection or Selection(), knowledge)


def _measured(run: Run, selection: Selection, knowledge: Knowledge | None) -> MeasuredRanks:
    chosen = _of_rank(run, selection.rank)
    traces = list(run.traces)
    for i in chosen:
        traces[i] = only_device(traces[i], selection.device)
    every = measure_ranks(traces, knowledge, selection.step)
    each = [every[i] for i in chosen]
    measured_traces = [m.trace for m in each]
    refuse_several_runs(measured_traces)
    digests = [m.timed.memo(digest_of) for m in each]
    if not why_not_one_run([digest.claim for digest in digests]):
        refuse_other_jobs(measured_traces, digests)
    matches = match_collectives(digests) if len(each) == len(every) and each[0].peers else None
    if matches is not None:
        refuse_apart(measured_traces, matches.clocks)
    unread = [failure.rank for failure in run.failures if failure.rank is not None]
    ranks = _as_one_of_several(compare_ranks(digests, unread, matches), each)
    return MeasuredRanks(run, [replace(m, ranks=ranks, matches=matches) for m in each], ranks)


def _as_one_of_several(ranks: RankComparison, each: list[Measurements]) -> RankComparison:
    """Of one rank, without the note that nothing tells what it waits for, where the others were
    read."""
    if len(each) > 1 or not each[0].peers:
        return ranks
    notes = tuple(note for note in ranks.notes if not note.endswith(OF_ONE_RANK))
    return replace(ranks, notes=notes)


def _steps_ms(trace: Trace, knowledge: Knowledge | None) -> list[float]:
    """The steady steps of a recording, ms; empty where it has none."""
    steps = measure(trace, knowledge).timed.steps
    return (
        [ms(duration) for duration in steps.duration[steps.steady].tolist()] if steps.found else []
    )


def _of_rank(run: Run, rank: int | None) -> list[int]:
    chosen = [i for i, t in enumerate(run.traces) if rank is None or t.rank == rank]
    if not chosen:
        known = ", ".join(str(t.rank) for t in run.traces if t.rank is not None)
        available = f"ranks: {known}" if known else "the recordings do not say their rank"
        raise EmptyRecordingError(f"no recording of rank {rank} here; {available}")
    return chosen


def only_device(trace: Trace, device: int | None) -> Trace:
    """The trace with the work of one device (CUDA ordinal) alone; None: as it is. Raises
    EmptyRecordingError."""
    if device is None:
        return trace
    on_device = trace.device_ops.device == device
    if not on_device.any():
        known = ", ".join(str(d) for d in distinct(trace.device_ops.device)) or "none"
        raise EmptyRecordingError(
            f"{trace.path}: device {device} did nothing in this recording; devices: {known}"
        )
    return replace(trace, device_ops=trace.device_ops.take(on_device))
