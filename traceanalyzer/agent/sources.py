"""Recordings by what an agent names, kept for its next question; what each cannot tell, and which
recording would."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from traceanalyzer.base.files import may_read, only_below
from traceanalyzer.comparison.other_kinds import compared_kinds
from traceanalyzer.comparison.reference import report_named
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.selection import Measured, Selection, measured
from traceanalyzer.ingest import load
from traceanalyzer.ingest.flight_recorder.folder import read_flight
from traceanalyzer.report.build import report_of
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline import breakdown
from traceanalyzer.trace import Collected
from traceanalyzer.trace.flight import Flight

KEPT = 3  # recordings held in memory: one that is asked about, and two that are compared
ROWS = 60
LEAST_STEPS = 3  # fewer tell nothing of how they vary
TORCH = "traceanalyzer collect torch"
END = "-- python train.py"


class Analyzed(NamedTuple):
    """A recording with what was measured of it, and its report."""

    of: Measured
    report: Report


class Sources:
    """Recordings below some folders (all, where none is given), the last ones kept until their
    files change."""

    def __init__(self, roots: Sequence[Path] = ()) -> None:
        self._roots = roots
        self._kept: OrderedDict[tuple[object, ...], Analyzed] = OrderedDict()

    def analyzed(self, path: str, rank: int | None = None, step: int | None = None) -> Analyzed:
        """The recording that `path` names. Raises TraceAnalyzerError."""
        with only_below(self._roots):
            folder = may_read(Path(path))
            # Changes where the file, or one in the folder, does.
            files = sorted(folder.iterdir()) if folder.is_dir() else [folder]
            stats = (
                (str(file), file.stat().st_mtime_ns, file.stat().st_size)
                for file in files
                if file.exists()
            )
            key = (str(folder), *stats, rank, step)
            if key not in self._kept:
                of = measured(load([path]), Selection(rank=rank, step=step))
                self._kept[key] = Analyzed(of, report_of(of, ROWS))
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]

    def report(self, name: str) -> Report:
        """The report of a recording, a saved report or a stored run. Raises TraceAnalyzerError."""
        with only_below(self._roots):
            may_read(Path(name))
            return report_named(name, load)

    def other_kinds(self, a: str, b: str) -> dict[str, Any] | None:
        """The comparison of two snapshots or logs of torch.compile; None of others. Raises
        TraceAnalyzerError."""
        with only_below(self._roots):
            found = compared_kinds(*(str(may_read(Path(name))) for name in (a, b)))
            return None if found is None else found.values

    def flight(self, path: str) -> Flight:
        """The Flight Recorder dumps in a folder. Raises TraceAnalyzerError."""
        with only_below(self._roots):
            return read_flight(may_read(Path(path)))


class Unknown(NamedTuple):
    """A question that the recording leaves open."""

    question: str
    because: str
    record: str


def unknowns(report: Report, m: Measurements) -> list[Unknown]:
    """The open questions of a measured recording, the most important first."""
    questions = [*_of_events(report, m), *_of_sources(report, m)]
    return [question for is_open, question in questions if is_open]


def _of_events(report: Report, m: Measurements) -> Iterator[tuple[bool, Unknown]]:
    """Whether each question is open that time alone would answer."""
    events = not m.trace.only_step_times
    steps = report.metrics.step_time_ms
    whole = breakdown.whole(report)
    # A log of step times has other questions.
    everything = Collected(device=True, api=True, shapes=True, stacks=True)
    collected = m.trace.collected if events else everything
    few_steps = steps is not None and whole == "step" and steps.count < LEAST_STEPS
    measured_alone = report.metrics.unprofiled_source == "measured"
    yield (
        not events,
        Unknown(
            "where the time of a step goes", "a log of step times has no events", f"{TORCH} {END}"
        ),
    )
    yield (
        not collected.device,
        Unknown("what the GPU does", "device activities were not recorded", f"{TORCH} {END}"),
    )
    yield (
        not collected.api,
        Unknown(
            "why the GPU is idle",
            "launches and waits of the CPU were not recorded",
            f"{TORCH} {END}",
        ),
    )
    yield (
        whole == "recording",
        Unknown(
            "how long a step takes",
            "no steps were found",
            f"call profiler.step() once per step, or {TORCH} {END}",
        ),
    )
    yield (
        few_steps,
        Unknown("how much steps vary", "too few steps were recorded", f"{TORCH} --active 5 {END}"),
    )
    yield (
        events and not measured_alone,
        Unknown(
            "the step without the profiler, measured",
            "only the profiled step was recorded",
            f"{TORCH} {END} (times it first)",
        ),
    )
    yield (
        not collected.stacks,
        Unknown(
            "the source line of a wait or a gap",
            "Python stacks were not recorded",
            f"{TORCH} --stacks {END}",
        ),
    )
    yield (
        not collected.shapes,
        Unknown(
            "sizes of matmuls, FLOP and roofline",
            "input shapes were not recorded",
            f"{TORCH} --shapes {END}",
        ),
    )


def _of_sources(report: Report, m: Measurements) -> Iterator[tuple[bool, Unknown]]:
    """Whether each question is open that another recording of the run would answer."""
    sizes = [item.world_size for item in report.inputs if item.world_size]
    yield (
        m.trace.memory is None,
        Unknown(
            "what fills GPU memory",
            "there is no memory snapshot",
            f"{TORCH} --memory-snapshot {END}",
        ),
    )
    yield (
        max(sizes, default=0) > len(report.inputs),
        Unknown(
            "who waits for whom", "not every rank of the run is here", "the recordings of all ranks"
        ),
    )
    yield (
        not m.trace.only_step_times and not m.linked.knowledge.counters,
        Unknown(
            "measured use of each kernel's resources",
            "hardware counters were not read",
            f"traceanalyzer collect ncu --trace TRACE {END}, then --ncu",
        ),
    )
