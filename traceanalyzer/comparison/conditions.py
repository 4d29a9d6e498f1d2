"""In what two recordings differ other than in time, and what that does to a comparison of their
times."""

import re
from collections.abc import Callable, Iterable, Iterator

from traceanalyzer.analysis.tables.step_parts import StepPart
from traceanalyzer.base import dataclass, digits, ratio
from traceanalyzer.comparison.matching import MOSTLY, How, Link, match_parts
from traceanalyzer.comparison.model import Condition
from traceanalyzer.comparison.side_by_side.recorders import recorder_of
from traceanalyzer.comparison.work import StepWork, of_part
from traceanalyzer.report.format import shorten
from traceanalyzer.report.model import Report
from traceanalyzer.trace import Condition as Stated

INPUT_SHAPES = "input shapes"
RECORDER = "recorder"
OPTIONS_DIFFER = "recorder's options"
RANK = "rank"  # which rank the figures are of
SHOWN_LENGTH = 60  # characters of an example
OTHER_TOOL = "host-side times and the profiler's own cost differ by the tool, not by the program"
OTHER_OPTIONS = "what is recorded costs host time: launching and idle time differ by it"
OTHER_WORLD = "another number of processes shares the work and communicates"
KERNELS = "kernels"
NOTHING_IN_COMMON = "no kernel and no operator is in both: they may be two programs"
LITTLE_IN_COMMON = (
    "{:.0%} of the kernel time is in operators or kernels that both have, and their models are of "
    "other sizes: they are two programs"
)
PARAMETERS = "parameters"
LEAST_IN_COMMON = 0.5
"""Share of either side's kernel time in operators or kernels that both have; of models of other
sizes with less they are two programs. Compiling or fusing a program can leave less, down to none, but
not another number of parameters; other layers of one model keep more."""
OTHER_PARAMETERS = 1.1
"""Numbers of parameters that differ by so many times: a vocabulary that is padded adds less."""
EXTENT = "extent of the recording"
OTHER_WORK = "the steps do not do the same work"
NO_STEPS = "one side has no steps: its figures are for the whole recording"
OPTIONS = frozenset(("shapes", "stacks", "memory", "sync_events"))
"""What recorders collect on request alone."""
EXPECTED = ("command", "git revision")
"""Conditions that differ in nearly every comparison, and are what is compared."""


@dataclass(frozen=True)
class KnownCondition:
    """A condition that reports state by their figures."""

    name: str
    value_of: Callable[[Report], str]  # what a report says of it, empty where it does not
    effect: str  # what a difference does to a comparison
    incomparable: bool = False  # whether times cannot be compared where it differs


def conditions_between(a: Report, b: Report) -> list[Condition]:
    """All differences, those that make the two incomparable first."""
    ways = (_known, _stated, _shapes, _work)
    found = [condition for between in ways for condition in between(a, b)]
    if any(c.name == RECORDER for c in found):  # says more than its options
        found = [c for c in found if c.name != OPTIONS_DIFFER]
    return sorted(found, key=lambda c: (not c.incomparable, c.name == INPUT_SHAPES))


def are_unlike(conditions: Iterable[Condition]) -> bool:
    """Whether times cannot be compared: shapes aside, which are other work of the same kind."""
    return any(c.incomparable and c.name != INPUT_SHAPES for c in conditions)


def _known(a: Report, b: Report) -> Iterator[Condition]:
    for known in _conditions():
        of_a = known.value_of(a)
        of_b = known.value_of(b)
        if of_a and of_b and of_a != of_b:
            yield Condition(known.name, of_a, of_b, known.effect, known.incomparable)


def _conditions() -> tuple[KnownCondition, ...]:
    """All of them, in the order in which they are shown."""
    return (
        KnownCondition("GPU", _gpus, "device times differ by the GPU", incomparable=True),
        KnownCondition("number of processes", _processes, OTHER_WORLD, incomparable=True),
        KnownCondition("steps", _steps, NO_STEPS, incomparable=True),
        KnownCondition("mode (training or inference)", _mode, OTHER_WORK, incomparable=True),
        KnownCondition(EXTENT, _extent, "what is cut off lacks work", incomparable=True),
        KnownCondition(RECORDER, recorder_of, OTHER_TOOL),
        KnownCondition(OPTIONS_DIFFER, _options, OTHER_OPTIONS),
        KnownCondition(RANK, _rank, "each side's figures are of the rank that the others wait for"),
        KnownCondition("damage", _damage, "times of a damaged recording may miss work"),
    )


def _gpus(report: Report) -> str:
    return ", ".join(sorted({device.name for device in report.devices if device.name}))


def _steps(report: Report) -> str:
    return "none" if report.metrics.step_source in ("none", "recording") else "found"


def _mode(report: Report) -> str:
    return getattr(report.metrics.program, "mode", None) or ""


def _extent(report: Report) -> str:
    return "cut off" if report.is_cut_off else "whole"


def _damage(report: Report) -> str:
    damaged = any(item.health.lost for item in report.inputs)
    return "incomplete" if damaged else "complete"


def _processes(report: Report) -> str:
    stated = max((item.world_size or 0 for item in report.inputs), default=0)
    if stated:
        return str(stated)
    return "1" if len(report.inputs) == 1 else ""


def _options(report: Report) -> str:
    if any(i.collected is None for i in report.inputs):
        return ""
    collected = {name for item in report.inputs for name in item.collected or ()}
    return ", ".join(sorted(collected & OPTIONS)) or "none"


def _rank(report: Report) -> str:
    """The rank that the figures are of, where the recording has several."""
    rows = report.tables.get("ranks", [])
    awaited = [row.rank for row in rows if row.straggler]
    if awaited:
        return f"rank {awaited[0]}, for which the others wait"
    if rows:
        return f"rank {rows[0].rank}"
    known = [item.rank for item in report.inputs if item.rank is not None]
    return f"rank {known[0]}" if len(known) == 1 and (report.inputs[0].world_size or 1) > 1 else ""


def _stated(a: Report, b: Report) -> Iterator[Condition]:
    """What captures state by name on both sides; what only one states counts if it spoils
    figures."""
    of_a = {c.name: c for c in a.tables.get("conditions", [])}
    of_b = {c.name: c for c in b.tables.get("conditions", [])}
    if not of_a or not of_b:
        return
    for name in dict.fromkeys((*of_a, *of_b)):
        before = of_a.get(name, Stated(name, "not stated"))
        after = of_b.get(name, Stated(name, "not stated"))
        spoils = before.spoils or after.spoils
        is_compared = name in of_a and name in of_b and name not in EXPECTED
        differs = bool(before.value and after.value and before.value != after.value)
        if differs if is_compared else spoils:
            yield Condition(name, before.value, after.value, spoils, False)


@dataclass(frozen=True)
class OtherShapes:
    """The largest operator that runs on other shapes."""

    a: str  # with its shapes in A
    b: str
    factor: float | None  # of B's sizes over A's, where those that differ have one

    @property
    def samples(self) -> str:
        """The samples of both, as `--samples` takes them, if the factor is the batch's."""
        factor = self.factor or 1.0
        return f"1,{factor:.4g}" if factor > 1.0 else f"{1.0 / factor:.4g},1"


def other_shapes(a: Report, b: Report) -> OtherShapes | None:
    """The example, where most of the computation runs on other shapes; else None."""
    groups = match_parts(of_part(a.step_parts, "compute"), of_part(b.step_parts, "compute"))
    links = [link for group in groups for link in group.links if link.a and link.b]
    other = [link for link in links if _has_other_shapes(link)]
    if sum(link.ms for link in other) <= MOSTLY * sum(link.ms for link in links):
        return None
    largest = max(other, key=lambda link: link.ms)
    before = largest.a[0]
    after = largest.b[0]
    return OtherShapes(
        f"{before.op} {before.shapes}",
        f"{after.op} {after.shapes}",
        _times_larger(before.shapes, after.shapes),
    )


def _shapes(a: Report, b: Report) -> Iterator[Condition]:
    """The input shapes, where they differ."""
    shapes = other_shapes(a, b)
    if shapes is None:
        return
    effect = OTHER_WORK
    if shapes.factor is not None:
        effect += f"; sizes that differ are {digits(shapes.factor, 4)} times A's"
    yield Condition(
        name=INPUT_SHAPES,
        a=shorten(shapes.a, SHOWN_LENGTH),
        b=shorten(shapes.b, SHOWN_LENGTH),
        effect=effect,
        incomparable=True,
    )


def _work(a: Report, b: Report) -> Iterator[Condition]:
    """Whether no kernel and no operator is in both, or few of models of other sizes. Two programs
    have none in common, and so may one after a change; without steps nothing else says that both do
    the same work."""
    of_a = of_part(a.step_parts, "compute")
    of_b = of_part(b.step_parts, "compute")
    kernels_of_a = {part.kernel for part in of_a if part.kernel}
    kernels_of_b = {part.kernel for part in of_b if part.kernel}
    if not kernels_of_a or not kernels_of_b:
        return
    in_both = _share_in_both(of_a, of_b)
    are_other_models = in_both < LEAST_IN_COMMON and _have_other_parameters(a, b)
    if not in_both or are_other_models:
        yield Condition(
            name=KERNELS,
            a=shorten(", ".join(sorted(kernels_of_a)), SHOWN_LENGTH),
            b=shorten(", ".join(sorted(kernels_of_b)), SHOWN_LENGTH),
            effect=LITTLE_IN_COMMON.format(in_both) if are_other_models else NOTHING_IN_COMMON,
            incomparable=are_other_models or "none" in (_steps(a), _steps(b)),
        )


def _share_in_both(a: list[StepPart], b: list[StepPart]) -> float:
    """Share of the time of either side's parts, the larger one, whose kernel or operator the other
    has, too."""
    kernels = {part.kernel for part in a if part.kernel} & {part.kernel for part in b}
    operators = {part.op for part in a if part.op} & {part.op for part in b}
    shared = [
        [part for part in side if part.kernel in kernels or part.op in operators] for side in (a, b)
    ]
    return max(
        ratio(StepWork.of(common).ms, StepWork.of(side).ms) or 0.0
        for common, side in zip(shared, (a, b), strict=True)
    )


def _have_other_parameters(a: Report, b: Report) -> bool:
    """Whether both state how many parameters their models have, and these differ by more than a
    remedy changes."""
    before = _parameters(a)
    after = _parameters(b)
    fewer, more = sorted((before, after))
    return fewer > 0 and more > OTHER_PARAMETERS * fewer


def _parameters(report: Report) -> int:
    """The parameters of its model; 0 where none are stated."""
    stated = {c.name: c.value for c in report.tables.get("conditions", [])}
    number = stated.get(PARAMETERS, "").replace(",", "")
    return int(number) if number.isdecimal() else 0


def _has_other_shapes(link: Link) -> bool:
    return link.how is How.OPERATOR and bool(link.a[0].shapes and link.b[0].shapes)


def _times_larger(a: str | None, b: str | None) -> float | None:
    """The one factor between the sizes of two that differ; None where there are several."""
    left = _sizes(a)
    right = _sizes(b)
    if len(left) != len(right):
        return None
    factors = {y / x for x, y in zip(left, right, strict=True) if x != y and x}
    return factors.pop() if len(factors) == 1 and all(factors) else None


def _sizes(shapes: str | None) -> list[int]:
    return [int(number) for number in re.findall(r"(?<!\d)\d{1,18}(?!\d)", shapes or "")]
