"""In what two recordings differ other than in time, and what that does to a comparison of their times."""

import re

from traceanalyzer.analysis.tables.step_parts import StepPart
from traceanalyzer.comparison.matching import MOSTLY, How, Link, match_parts
from traceanalyzer.comparison.model import Condition
from traceanalyzer.report.format import shorten
from traceanalyzer.report.model import Report

INPUT_SHAPES = "input shapes"
RANK = "rank"
"""Which rank the figures are of."""
SHOWN_LENGTH = 60
"""Characters of an example."""
OTHER_TOOL = "host-side times and the profiler's own cost differ by the tool, not by the program"
OTHER_OPTIONS = "what is recorded costs host time: launching and idle time differ by it"
OTHER_GPU = "device times differ by the GPU"
OTHER_WORLD = "another number of processes shares the work and communicates"
OTHER_WORK = "the steps do not do the same work"
NO_STEPS = "one side has no steps: its figures are for the whole recording"
OPTIONS = frozenset(("shapes", "stacks", "memory", "sync_events"))
"""What recorders collect on request alone."""
EXPECTED = ("command", "git revision")
"""Conditions that differ in nearly every comparison, and are what is compared."""


def conditions_between(a: Report, b: Report) -> list[Condition]:
    """All differences, those that make the two incomparable first."""
    found = [
        _differ("GPU", _gpus(a), _gpus(b), OTHER_GPU, incomparable=True),
        _differ("number of processes", _processes(a), _processes(b), OTHER_WORLD, incomparable=True),
        _differ("steps", _steps(a), _steps(b), NO_STEPS, incomparable=True),
        _differ("mode (training or inference)", _mode(a), _mode(b), OTHER_WORK, incomparable=True),
        _shapes(a, b),
        _differ("recorder", _kinds(a), _kinds(b), OTHER_TOOL),
        _differ("recorder's options", _options(a), _options(b), OTHER_OPTIONS),
        _differ(RANK, _rank(a), _rank(b), "each side's figures are of the rank that the others wait for"),
        _differ("damage", _damage(a), _damage(b), "times of a damaged recording may miss work"),
        *_stated(a, b),
    ]
    return sorted((c for c in found if c is not None), key=lambda c: not c.incomparable)


def _differ(name: str, a: str, b: str, effect: str, *, incomparable: bool = False) -> Condition | None:
    """A condition that is known of both sides and differs, else None."""
    return Condition(name, a, b, effect, incomparable) if a and b and a != b else None


def _gpus(report: Report) -> str:
    return ", ".join(sorted({d.name for d in report.devices if d.name}))


def _processes(report: Report) -> str:
    stated = max((i.world_size or 0 for i in report.inputs), default=0)
    return str(stated) if stated else "1" if len(report.inputs) == 1 else ""


def _steps(report: Report) -> str:
    return "none" if report.metrics.step_source in ("none", "recording") else "found"


def _mode(report: Report) -> str:
    program = report.metrics.program
    return (program.mode if program is not None else None) or ""


def _kinds(report: Report) -> str:
    return "+".join(sorted({i.kind for i in report.inputs}))


def _options(report: Report) -> str:
    if any(i.collected is None for i in report.inputs):
        return ""
    return ", ".join(sorted({name for i in report.inputs for name in i.collected or ()} & OPTIONS)) or "none"


def _rank(report: Report) -> str:
    """The rank that the figures are of, where the recording has several."""
    rows = report.tables.get("ranks", [])
    awaited = [row.rank for row in rows if row.straggler]
    return f"rank {awaited[0]}, for which the others wait" if awaited else f"rank {rows[0].rank}" if rows else ""


def _damage(report: Report) -> str:
    damaged = [i for i in report.inputs if i.health.lost or i.health.truncated]
    return "incomplete" if damaged else "complete"


def _stated(a: Report, b: Report) -> list[Condition | None]:
    """What captures state by name on both sides; what only one states counts if it spoils figures."""
    of_a, of_b = ({c.name: c for c in report.tables.get("conditions", [])} for report in (a, b))
    found: list[Condition | None] = []
    for name in dict.fromkeys((*of_a, *of_b)):
        known = [side[name] for side in (of_a, of_b) if name in side]
        spoils = next((c.spoils for c in known if c.spoils), "")
        if len(known) == 2 and name not in EXPECTED:
            found.append(_differ(name, known[0].value, known[1].value, spoils))
        elif of_a and of_b and spoils:
            value_a, value_b = (side[name].value if name in side else "not stated" for side in (of_a, of_b))
            found.append(Condition(name, value_a, value_b, spoils, incomparable=False))
    return found


def _shapes(a: Report, b: Report) -> Condition | None:
    """Whether most of the computation runs on other shapes, with the largest operator as the example."""
    links = [link for g in match_parts(_compute(a), _compute(b)) for link in g.links if link.a and link.b]
    other = [link for link in links if link.how is How.OPERATOR and link.a[0].shapes and link.b[0].shapes]
    if not other or sum(map(_time, other)) <= MOSTLY * sum(map(_time, links)):
        return None
    largest = max(other, key=_time)
    factor = _factor(largest.a[0].shapes or "", largest.b[0].shapes or "")
    times = f"; sizes that differ are {factor:.4g} times A's" if factor else ""
    shown_a, shown_b = (shorten(f"{side[0].op} {side[0].shapes}", SHOWN_LENGTH) for side in (largest.a, largest.b))
    return Condition(INPUT_SHAPES, shown_a, shown_b, OTHER_WORK + times, True)


def _compute(report: Report) -> list[StepPart]:
    return [p for p in report.step_parts if p.part == "compute"]


def _time(link: Link) -> float:
    return max(sum(p.ms for p in link.a), sum(p.ms for p in link.b))


def _factor(a: str, b: str) -> float | None:
    """The one factor between the sizes that differ; None where there are several."""
    left, right = ([int(n) for n in re.findall(r"\d+", text)] for text in (a, b))
    if len(left) != len(right):
        return None
    factors = {y / x for x, y in zip(left, right, strict=True) if x != y and x}
    return factors.pop() if len(factors) == 1 else None
