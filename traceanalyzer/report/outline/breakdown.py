"""Where the wall-clock time of the step goes that a report speaks of, part by part."""

from collections.abc import Iterable

from traceanalyzer.base import dataclass
from traceanalyzer.report.figures.step_times import recorded_ms, step_ms
from traceanalyzer.report.format import label
from traceanalyzer.report.model import Report

SHOWN_SHARE = 0.01  # parts of the step below this are not on the first screen
SLACK = 0.01  # of the step: phases that share a moment may sum to so much more than it
WAITING = "waiting for ranks"
MOSTLY = 0.5
OF_COMMUNICATION = {
    "transfer": "time in collectives at which all ranks had arrived",
    WAITING: "time in collectives of which another rank had not arrived yet",
}
"""What the parts of exposed communication mean."""
OF_COPIES = {
    "within the GPU": "copies from the GPU's memory to itself, while nothing else ran on it",
    "other copies": "copies to and from the host or another GPU, while nothing else ran on it",
}
"""What the parts of exposed copies mean."""
COLOURS = {
    "waiting": "idle-communication",
    "transfer": "communication",
    "within-the-GPU": "copy",
    "other-copies": "exposed-copy",
}


@dataclass(frozen=True)
class BudgetShare:
    """A part of the step's wall-clock time. `within` is the part that it is a part of, where it is
    one."""

    label: str
    ms: float
    share: float
    within: str = ""

    @property
    def name(self) -> str:
        """Its label, with what it is a part of."""
        return f"{self.within}: {self.label}" if self.within else self.label

    @property
    def colour(self) -> str:
        """The CSS variable's name."""
        name = self.label.partition(" for ")[0].replace(" ", "-")
        return COLOURS.get(name, f"{self.within}-{name}" if self.within else name)


def budget(report: Report) -> list[BudgetShare]:
    """The step's wall-clock time: its parts, and the causes of its idle time; empty without device
    work."""
    metrics = report.metrics.unprofiled if report.summary.basis == "unprofiled" else report.metrics
    total = step_ms(report)
    if metrics is None or metrics.budget_ms is None or not total:
        return []
    parts = list[BudgetShare]()
    idle = metrics.idle_ms
    for name, ms in vars(metrics.budget_ms).items():
        parts += [_share(name, ms, total), *_parts_of(report, name, ms, total)]
    causes = [
        _share(WAITING if name == "communication" and _waits(report) else name, ms, total, "idle")
        for name, ms in (vars(idle) if idle else {}).items()
        if ms > 0
    ]
    return parts + sorted(causes, key=lambda cause: -cause.ms)


def _waits(report: Report) -> bool:
    """Whether most idle time because of communication is waiting for other ranks."""
    known = report.metrics.unprofiled if report.summary.basis == "unprofiled" else None
    if known is None or known.idle_waiting_ms is None:
        return False
    return known.idle_waiting_ms.total >= MOSTLY * known.idle_ms.communication


def shown_parts(report: Report) -> list[BudgetShare]:
    """The parts of the step that are worth a line: of the CPU alone its phases."""
    every = budget(report) or cpu_phases(report)
    return [part for part in every if part.share >= SHOWN_SHARE]


def cpu_phases(report: Report) -> list[BudgetShare]:
    """The recorded step of the CPU alone by phase, and the rest of it; empty where a GPU worked, no
    phase is known, or threads ran phases at the same time."""
    phases = report.metrics.phases
    total = recorded_ms(report)
    if report.devices or phases is None or not total:
        return []
    known = phases.host_ms()
    rest = total - sum(known.values())
    if rest < -SLACK * total:
        return []
    longest = sorted(known.items(), key=lambda item: -item[1])
    parts = [*longest, ("other", max(rest, 0.0))]
    return [_share(name, ms, total) for name, ms in parts]


def _parts_of(report: Report, name: str, ms: float, total: float) -> list[BudgetShare]:
    within = min(report.metrics.copied_within_gpu_ms or 0.0, ms)
    waiting = waiting_part_ms(report) if name == "exposed_communication" else None
    if waiting:
        return _split(OF_COMMUNICATION, (ms - waiting, waiting), total, "communication")
    if name == "exposed_copy" and within >= SHOWN_SHARE * total:
        return _split(OF_COPIES, (within, ms - within), total, "copy")
    return []


def finest(parts: list[BudgetShare]) -> list[BudgetShare]:
    """Those that are not shown by their own parts."""
    split = {part.within for part in parts}
    return [
        part
        for part in parts
        if part.within or not any(part.label.endswith(of) for of in split if of)
    ]


def waiting_part_ms(report: Report) -> float | None:
    """What of the exposed communication of that step is waiting for other ranks, ms; None where
    that is not known."""
    metrics = report.metrics
    if report.summary.basis == "unprofiled":
        waiting = metrics.unprofiled.waiting_ms if metrics.unprofiled else None
        return None if waiting is None else waiting.total
    time = metrics.communication
    spent = metrics.budget_ms
    if time is None or spent is None or time.waiting_ms is None or not time.total_ms:
        return None
    return spent.exposed_communication * min(time.waiting_ms / time.total_ms, 1.0)


def _split(
    names: Iterable[str], times: tuple[float, float], total: float, within: str
) -> list[BudgetShare]:
    return [
        _share(name, max(ms, 0.0), total, within) for name, ms in zip(names, times, strict=True)
    ]


def _share(name: str, ms: float, total: float, within: str = "") -> BudgetShare:
    return BudgetShare(label(name), ms, ms / total, within)
