"""Recordings by what an agent names, kept for its next question; what each cannot tell, and which
recording would."""

import os
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from traceanalyzer.base import UnreadableInputError
from traceanalyzer.base.files import may_read, only_below
from traceanalyzer.comparison.other_kinds import compared_kinds
from traceanalyzer.comparison.reference import report_named
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.part_of_run import Selection
from traceanalyzer.diagnosis.selection import MeasuredRanks, measured
from traceanalyzer.fleet.digests.files import holds_digests
from traceanalyzer.fleet.job.open import digests_folder, job_of
from traceanalyzer.fleet.sources import source_of
from traceanalyzer.ingest import load
from traceanalyzer.ingest.cache.beside import ENVIRONMENT
from traceanalyzer.ingest.flight_recorder.folder import read_flight
from traceanalyzer.ingest.folders import snapshot_in
from traceanalyzer.ingest.memory import read_snapshot
from traceanalyzer.report.build import report_of
from traceanalyzer.report.compile.build import compile_report, logs_and_run
from traceanalyzer.report.compile.strip import CompileReport
from traceanalyzer.report.figures import step_times
from traceanalyzer.report.memory.build import memory_report
from traceanalyzer.report.memory.model import UNTRACED, MemoryReport
from traceanalyzer.report.memory.traced import traced
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline import gains
from traceanalyzer.trace import Run
from traceanalyzer.trace.flight import Flight

KEPT = 3  # recordings held in memory: one that is asked about, and two that are compared
ROWS = 60
MOST_LISTED = 40  # recordings in an answer: a folder of more is asked about by its parts
MOST_SEEN = 20_000  # files, of which the newest are listed
NAMED_LIKE = (
    ".json",
    ".json.gz",
    ".sqlite",
    ".sqlite.gz",
    ".pftrace",
    ".xplane.pb",
    ".db",
    ".rpd",
    ".nsys-rep",
    ".pickle",
    ".pickle.gz",
    ".jsonl",
    ".log",
    ".log.gz",
    ".hatchet",
)
LEAST_STEPS = 3  # fewer tell nothing of how they vary
TORCH = "traceanalyzer collect torch"
END = "-- python train.py"


class Unknown(NamedTuple):
    """A question that the recording leaves open."""

    question: str
    because: str
    record: str


WHERE_TIME_GOES = Unknown(
    "where the time of a step goes", "a log of step times has no events", f"{TORCH} {END}"
)
WHAT_THE_GPU_DOES = Unknown(
    "what the GPU does", "device activities were not recorded", f"{TORCH} {END}"
)
WHY_IT_IS_IDLE = Unknown(
    "why the GPU is idle", "launches and waits of the CPU were not recorded", f"{TORCH} {END}"
)
STEP_TIME = Unknown(
    "how long a step takes",
    "no steps were found",
    f"call profiler.step() once per step, or {TORCH} {END}",
)
HOW_STEPS_VARY = Unknown(
    "how much steps vary", "too few steps were recorded", f"{TORCH} --active 5 {END}"
)
UNPROFILED_STEP = Unknown(
    "the step without the profiler, measured",
    "only the profiled step was recorded",
    f"{TORCH} {END} (times it first)",
)
SOURCE_LINES = Unknown(
    "the source line of a wait or a gap",
    "Python stacks were not recorded",
    f"{TORCH} --stacks {END}",
)
SIZES = Unknown(
    "sizes of matmuls, FLOP and roofline",
    "input shapes were not recorded",
    f"{TORCH} --shapes {END}",
)
WHAT_FILLS_MEMORY = Unknown(
    "what fills GPU memory", "there is no memory snapshot", f"{TORCH} --memory-snapshot {END}"
)
WHO_WAITS = Unknown(
    "who waits for whom", "not every rank of the run is here", "the recordings of all ranks"
)
RESOURCES = Unknown(
    "measured use of each kernel's resources",
    "hardware counters were not read",
    f"traceanalyzer collect ncu --trace TRACE {END}, then --ncu",
)


class AnalyzedRecording(NamedTuple):
    """A recording with what was measured of it, and its report."""

    measured: MeasuredRanks
    report: Report


class Sources:
    """Recordings below some folders (all, where none is given), the last ones kept until their
    files change."""

    def __init__(self, roots: Sequence[Path] = ()) -> None:
        self._roots = roots
        self._kept: OrderedDict[tuple[object, ...], AnalyzedRecording] = OrderedDict()

    def analyzed(
        self, path: str, rank: int | None = None, step: int | None = None
    ) -> AnalyzedRecording:
        """The recording that `path` names. Raises TraceAnalyzerError."""
        with only_below(self._roots):
            folder = may_read(self._place(path))
            # Changes where the file, or one in the folder, does.
            files = sorted(folder.iterdir()) if folder.is_dir() else [folder]
            stats = (
                (str(file), file.stat().st_mtime_ns, file.stat().st_size)
                for file in files
                if file.exists()
            )
            key = (str(folder), *stats, rank, step)
            if key not in self._kept:
                recording = measured(load([str(folder)]), Selection(rank=rank, step=step))
                self._kept[key] = AnalyzedRecording(recording, report_of(recording, ROWS))
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]

    def recordings(self, folder: str = "") -> list[dict[str, Any]]:
        """What lies below the folders that may be read, or below one of them, newest first; a
        capture is its folder. Raises TraceAnalyzerError."""
        with only_below(self._roots):
            roots = [self._place(folder)] if folder else [*self._roots] or [Path()]
            files = [file for root in roots for file in _files_below(may_read(root))]
        captures = {file.parent for file in files if file.name == ENVIRONMENT}
        found = defaultdict[Path, list[Path]](list)
        for file in files:
            found[file.parent if file.parent in captures else file].append(file)
        newest = sorted(found, key=lambda place: _changed(found[place]), reverse=True)
        return [
            {"path": self._as_given(place), "bytes": _bytes_of(found[place])}
            for place in newest[:MOST_LISTED]
        ]

    def _as_given(self, place: Path) -> str:
        """The shortest name by which the other verbs find it."""
        for root in self._roots:
            if place != root and place.is_relative_to(root):
                return str(place.relative_to(root))
        return str(place)

    def _place(self, name: str) -> Path:
        """The file that a name means: below one of the folders that may be read, else as it is.
        Raises UnreadableInputError where it is in none of them."""
        path = Path(name)
        if path.is_absolute() or not self._roots:
            return path
        for root in self._roots:
            if (root / path).exists():
                return root / path
        if path.exists():
            return path
        raise UnreadableInputError(f"{name}: no such file; `recordings` lists what is there")

    def report(self, name: str) -> Report:
        """The report of a recording, a saved report or a stored run. Raises TraceAnalyzerError."""
        with only_below(self._roots):
            file, mark, run = name.partition("#")
            place = may_read(self._place(file))
            return report_named(f"{place}{mark}{run}", load)

    def other_kinds(self, a: str, b: str) -> dict[str, Any] | None:
        """The comparison of two snapshots or logs of torch.compile; None of others. Raises
        TraceAnalyzerError."""
        with only_below(self._roots):
            found = compared_kinds(*(str(may_read(self._place(name))) for name in (a, b)))
            return None if found is None else found.values

    def flight(self, path: str) -> Flight:
        """The Flight Recorder dumps in a folder. Raises TraceAnalyzerError."""
        with only_below(self._roots):
            return read_flight(may_read(self._place(path)))

    def job(self, path: str) -> dict[str, Any] | None:
        """What `analyze` has as JSON of a log of a pipeline's operations, of days of steps, or of
        digests of ranks; None of anything else. Raises TraceAnalyzerError."""
        with only_below(self._roots):
            place = may_read(self._place(path))
            source = source_of([str(place)])
            if source is not None:
                values: dict[str, Any] = source.page([place], lambda *_: None).values
                return values
            if not holds_digests(str(place)):
                return None
            with digests_folder(None) as folder:
                return vars(job_of([str(place)], folder))

    def memory(self, path: str, trace: str = "") -> MemoryReport:
        """The report on a memory snapshot, with the times of a trace where one is named. Raises
        TraceAnalyzerError."""
        with only_below(self._roots):
            snapshot = read_snapshot(snapshot_in(may_read(self._place(path))))
            return memory_report(
                snapshot, traced(self._run(trace), snapshot) if trace else UNTRACED
            )

    def compiled(self, path: str, trace: str = "") -> CompileReport:
        """The report on logs of torch.compile, or on a recording and the logs in its capture. Raises
        TraceAnalyzerError."""
        with only_below(self._roots):
            logs, run = logs_and_run(may_read(self._place(path)), trace, self._run)
            return compile_report(logs, run)

    def _run(self, name: str) -> Run:
        return load([str(may_read(self._place(name)))])


def _changed(files: Sequence[Path]) -> float:
    """When the newest of them was changed."""
    return max(file.stat().st_mtime for file in files)


def _bytes_of(files: Sequence[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def _files_below(folder: Path) -> list[Path]:
    """Files named like recordings, snapshots, logs or saved reports."""
    if folder.is_file():
        return [folder]
    found = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(parent) / name for name in names if name.endswith(NAMED_LIKE)]
        if len(found) > MOST_SEEN:
            break
    return [file for file in found if file.is_file()]


def unknowns(report: Report, m: Measurements) -> list[Unknown]:
    """The open questions of a measured recording, the most important first. A program that is not
    Python is recorded by its own command, and has no question that PyTorch's profiler answers."""
    program = f"-- {gains.example_command(report)}"
    is_native = program.startswith("-- ./")
    found = [
        one
        for one in (*_of_events(report, m), *_of_sources(report, m))
        if not (is_native and TORCH in one.record)
    ]
    return [one._replace(record=one.record.replace(END, program)) for one in found]


def _of_events(report: Report, m: Measurements) -> Iterator[Unknown]:
    """The questions that time alone would answer."""
    steps = report.metrics.step_time_ms
    unit = step_times.figure_unit(report)
    has_few_steps = steps is not None and unit == "step" and steps.count < LEAST_STEPS
    has_events = not m.trace.only_step_times  # a log of step times has other questions
    collected = m.trace.collected
    questions = (
        (WHERE_TIME_GOES, not has_events),
        (WHAT_THE_GPU_DOES, has_events and not collected.device),
        (WHY_IT_IS_IDLE, has_events and not collected.api),
        (STEP_TIME, unit == "recording"),
        (HOW_STEPS_VARY, has_few_steps),
        (UNPROFILED_STEP, has_events and report.metrics.unprofiled_source != "measured"),
        (SOURCE_LINES, has_events and not collected.stacks),
        (SIZES, has_events and not collected.shapes),
    )
    return (question for question, is_open in questions if is_open)


def _of_sources(report: Report, m: Measurements) -> Iterator[Unknown]:
    """The questions that another recording of the run would answer."""
    sizes = [item.world_size for item in report.inputs if item.world_size]
    if m.trace.memory is None:
        yield WHAT_FILLS_MEMORY
    if max(sizes, default=0) > len(report.inputs):
        yield WHO_WAITS
    if not m.trace.only_step_times and not m.linked.knowledge.counters:
        yield RESOURCES
