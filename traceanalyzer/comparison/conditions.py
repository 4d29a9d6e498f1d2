"""In what two recordings differ other than in time, and what that does to a comparison of their
times."""

import re
from collections.abc import Callable, Iterator
from operator import attrgetter

from traceanalyzer.comparison.matching import MOSTLY, How, match_parts
from traceanalyzer.comparison.model import Condition
from traceanalyzer.comparison.work import of_part
from traceanalyzer.report.format import shorten
from traceanalyzer.report.model import Report
from traceanalyzer.trace import Condition as Stated

INPUT_SHAPES = "input shapes"
RANK = "rank"  # which rank the figures are of
SHOWN_LENGTH = 60  # characters of an example
OTHER_TOOL = "host-side times and the profiler's own cost differ by the tool, not by the program"
OTHER_OPTIONS = "what is recorded costs host time: launching and idle time differ by it"
OTHER_WORLD = "another number of processes shares the work and communicates"
OTHER_WORK = "the steps do not do the same work"
NO_STEPS = "one side has no steps: its figures are for the whole recording"
OPTIONS = frozenset(
    ("shapes", "stacks", "memory", "sync_events")
)  # what recorders collect on request alone
EXPECTED = (
    "command",
    "git revision",
)  # conditions that differ in nearly every comparison, and are what is compared


def conditions_between(a: Report, b: Report) -> list[Condition]:
    """All differences, those that make the two incomparable first."""
    said = (
        (name, of(a), of(b), effect, incomparable) for name, of, effect, incomparable in CONDITIONS
    )
    found = [Condition(*row) for row in said if row[1] and row[2] and row[1] != row[2]]
    return sorted(
        [*found, *_shapes(a, b), *_stated(a, b)],
        key=lambda c: (not c.incomparable, c.name == INPUT_SHAPES),
    )


def _damage(report: Report) -> str:
    return (
        "incomplete"
        if any(i.health.lost or i.health.truncated for i in report.inputs)
        else "complete"
    )


def _processes(report: Report) -> str:
    stated = max((i.world_size or 0 for i in report.inputs), default=0)
    return str(stated) if stated else "1" if len(report.inputs) == 1 else ""


def _options(report: Report) -> str:
    if any(i.collected is None for i in report.inputs):
        return ""
    return (
        ", ".join(sorted({name for i in report.inputs for name in i.collected or ()} & OPTIONS))
        or "none"
    )


def _rank(report: Report) -> str:
    """The rank that the figures are of, where the recording has several."""
    rows = report.tables.get("ranks", [])
    awaited = [row.rank for row in rows if row.straggler]
    return (
        f"rank {awaited[0]}, for which the others wait"
        if awaited
        else f"rank {rows[0].rank}"
        if rows
        else ""
    )


CONDITIONS: tuple[tuple[str, Callable[[Report], str], str, bool], ...] = (
    (
        "GPU",
        lambda r: ", ".join(sorted({d.name for d in r.devices if d.name})),
        "device times differ by the GPU",
        True,
    ),
    ("number of processes", _processes, OTHER_WORLD, True),
    (
        "steps",
        lambda r: "none" if r.metrics.step_source in ("none", "recording") else "found",
        NO_STEPS,
        True,
    ),
    (
        "mode (training or inference)",
        lambda r: getattr(r.metrics.program, "mode", None) or "",
        OTHER_WORK,
        True,
    ),
    ("recorder", lambda r: "+".join(sorted({i.kind for i in r.inputs})), OTHER_TOOL, False),
    ("recorder's options", _options, OTHER_OPTIONS, False),
    (RANK, _rank, "each side's figures are of the rank that the others wait for", False),
    ("damage", _damage, "times of a damaged recording may miss work", False),
)
"""Name, what a report says of it (empty where it does not), what a difference does to a comparison,
and whether times then cannot be compared."""


def _stated(a: Report, b: Report) -> Iterator[Condition]:
    """What captures state by name on both sides; what only one states counts if it spoils
    figures."""
    of_a, of_b = ({c.name: c for c in report.tables.get("conditions", [])} for report in (a, b))
    for name in dict.fromkeys((*of_a, *of_b)) if of_a and of_b else ():
        one, other = (side.get(name, Stated(name, "not stated")) for side in (of_a, of_b))
        spoils = one.spoils or other.spoils
        values = {one.value, other.value} - {""}
        is_compared = name not in EXPECTED and {name} <= of_a.keys() & of_b.keys()
        if len(values) > 1 if is_compared else spoils:
            yield Condition(name, one.value, other.value, spoils, False)


def _shapes(a: Report, b: Report) -> Iterator[Condition]:
    """Whether most of the computation runs on other shapes, with the largest operator as the
    example."""
    groups = match_parts(of_part(a.step_parts, "compute"), of_part(b.step_parts, "compute"))
    links = [link for group in groups for link in group.links if link.a and link.b]
    other = [
        link for link in links if link.how is How.OPERATOR and link.a[0].shapes and link.b[0].shapes
    ]
    ms = attrgetter("ms")
    if sum(map(ms, other)) > MOSTLY * sum(map(ms, links)):
        largest = max(other, key=ms)
        times = _times_larger(largest.a[0].shapes, largest.b[0].shapes)
        of_a, of_b = (
            shorten(f"{side[0].op} {side[0].shapes}", SHOWN_LENGTH)
            for side in (largest.a, largest.b)
        )
        yield Condition(INPUT_SHAPES, of_a, of_b, OTHER_WORK + times, True)


def _times_larger(*shapes: str | None) -> str:
    """The one factor between the sizes of two that differ; empty where there are several."""
    left, right = ([int(n) for n in re.findall(r"\d+", text or "")] for text in shapes)
    if len(left) != len(right):
        return ""
    factors = {y / x for x, y in zip(left, right, strict=True) if x != y and x}
    return (
        f"; sizes that differ are {factors.pop():.4g} times A's"
        if len(factors) == 1 and all(factors)
        else ""
    )
