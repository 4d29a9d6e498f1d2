"""Groups of matched parts as changes: how large, how sure, and in words."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from traceanalyzer.analysis.tables.step_parts import BUDGET, StepPart
from traceanalyzer.base import digits
from traceanalyzer.comparison.matching import MOSTLY, How, Link, LinkGroup, match_parts, part_name
from traceanalyzer.comparison.model import Change, Detail, Difference, PartDifference, StepChange
from traceanalyzer.comparison.side_by_side.copied import (
    Copied,
    bytes_and_bandwidth,
    kind_of_copies,
)
from traceanalyzer.comparison.side_by_side.recorders import ANY_CAUSE
from traceanalyzer.comparison.speed import SAME_CALLS, is_other_count
from traceanalyzer.comparison.work import WHOLE, BothSteps, StepWork, figures
from traceanalyzer.report.names.kernel_labels import kernel_labels

ORDER = (*BUDGET, WHOLE)
KINDS = {
    How.POSITION: "replaced",
    How.OPERATOR: "other_shapes",
    How.SHAPES: "other_types",
    How.INPUTS: "other_kernels",
}
"""What happened to parts that are linked so."""
NAMED = 3  # names of a group that are written out; the rest is a number
IDLE_TITLES = {
    "launch": "launches",
    "sync": "syncs",
    "input": "waiting for input",
    "host": "other CPU work between launches",
    "communication": "waiting for communication on the CPU",
    "profiler": "the profiler's own work",
    "other": "unknown cause",
}
PART_TITLES = {
    "compute": "compute",
    "exposed_communication": "exposed communication",
    "exposed_copy": "exposed copies",
    "idle": "idle",
    WHOLE: "the step as a whole (its parts are not known on both sides)",
}
PHRASES = {
    "slower": "slower",
    "faster": "faster",
    "more_time": "more time",
    "less_time": "less time",
    "more_bytes": "more bytes",
    "fewer_bytes": "fewer bytes",
    "more_calls": "more of them",
    "fewer_calls": "fewer of them",
    "other_kernels": "other kernels",
    "other_shapes": "other shapes",
    "other_types": "other types",
    "gone": "removed",
    "added": "added",
    "more_idle": "more idle time",
    "less_idle": "less idle time",
    "unchanged": "unchanged",
}


def changes_between(a: list[StepPart], b: list[StepPart], steps: BothSteps) -> list[Change]:
    """All changes, those beyond noise first, then by size."""
    found = []
    for group in match_parts(a, b):
        kind = _kind(group, steps)
        found.append(
            Change(
                **figures(StepWork.of(group.a), StepWork.of(group.b), steps),
                part=group.part,
                cls=max(group.a or group.b, key=lambda p: p.ms).cls,
                kind=kind,
                title=_title(group, kind, steps),
                details=_details(group),
            )
        )
    return sorted(found, key=order_of_change)


def order_of_change(change: Change) -> tuple[bool, float]:
    """Those beyond noise first, then by size."""
    return change.significant is False, -abs(change.difference_ms)


def _kind(group: LinkGroup, steps: BothSteps) -> str:
    """What happened, by the links with the largest part of the difference."""
    of_how = defaultdict[How, float](float)
    for link in group.links:
        of_how[link.how] += link.difference_ms
    difference = sum(link.difference_ms for link in group.links)
    if group.part == "idle":
        return _by_sign(difference, "more_idle", "less_idle")
    if not group.b or not group.a:
        return "added" if group.b else "gone"
    how = max(of_how, key=lambda how: abs(of_how[how]))
    if how in KINDS:
        return KINDS[how]
    if group.part == "exposed_copy" and difference:
        before, after = _copied(group, steps)
        return kind_of_copies(before, after, difference)
    return _kind_of_calls(group, difference)


def _kind_of_calls(group: LinkGroup, difference: float) -> str:
    """Whether there are more or fewer calls, or longer or shorter ones."""
    a = StepWork.of(group.a).calls
    b = StepWork.of(group.b).calls
    if abs(b - a) > SAME_CALLS * max(a, b):
        return _by_sign(b - a, "more_calls", "fewer_calls")
    return _by_sign(difference, "slower", "faster")


def _copied(group: LinkGroup, steps: BothSteps) -> tuple[Copied | None, Copied | None]:
    """The copies of this direction on both sides."""
    a, b = steps.copies
    return a.get(group.label), b.get(group.label)


def _by_sign(difference: float, more: str, less: str) -> str:
    if not difference:
        return "unchanged"
    return more if difference > 0 else less


def _title(group: LinkGroup, kind: str, steps: BothSteps) -> str:
    if group.part == "idle":
        return _title_of_idle(group, kind, steps)
    every = [*group.a, *group.b]
    if kind == "replaced":
        return f"{_names(group.a, every)} → {_names(group.b, every)}"
    if kind == "other_shapes" and not group.label:
        return f"the same operators on other shapes ({_names(group.a, every)})"
    if kind == "other_shapes" and group.part == "exposed_communication":
        return f"{group.label}: other sizes{_from_to(group, 'more_calls', steps)}"
    # An operator, a collective or a copy goes by its name, a kernel by its label.
    is_kernel = group.part == "compute" and not every[0].op
    known = "" if is_kernel else group.label
    names = known or _names(every, every) or PART_TITLES.get(group.part, group.part)
    return f"{names}: {PHRASES[kind]}{_from_to(group, kind, steps)}"


def _title_of_idle(group: LinkGroup, kind: str, steps: BothSteps) -> str:
    if group.label == ANY_CAUSE:
        return f"{PHRASES[kind]}{_counted(steps)}"
    cause = IDLE_TITLES.get(group.label, group.label)
    return f"{PHRASES[kind]}, {cause}{_waited_for(group, steps)}"


def _waited_for(group: LinkGroup, steps: BothSteps) -> str:
    """In brackets how many launches there are to wait for, or the call that most of a change goes
    back to."""
    if group.label == "launch":
        a, b = steps.launches
        if a is None or b is None or abs(b - a) <= SAME_CALLS * max(a, b):
            return ""
        return f" ({digits(a, 4)} → {digits(b, 4)}{steps.each})"
    largest = group.largest
    call = (largest.a or largest.b)[0].kernel
    difference = sum(link.difference_ms for link in group.links)
    mostly = abs(largest.difference_ms) >= MOSTLY * abs(difference)
    return f" ({_what(group, largest)})" if call and mostly else ""


def _counted(steps: BothSteps) -> str:
    """In brackets what causes idle time, in numbers: launches and waits where these differ."""
    counts = {"launches": steps.launches, "waits": steps.waits}
    found = [
        f"{what} {digits(a, 4)} → {digits(b, 4)}"
        for what, (a, b) in counts.items()
        if a is not None and b is not None and is_other_count(a, b)
    ]
    return f" ({', '.join(found)}{steps.each})" if found else ""


def _from_to(group: LinkGroup, kind: str, steps: BothSteps) -> str:
    """What most of a change goes from and to, in brackets."""
    largest = group.largest
    before, after = _copied(group, steps)
    if kind in ("more_bytes", "fewer_bytes") and before and after:
        return f" ({bytes_and_bandwidth(before, after, steps.each)})"
    if kind in ("more_time", "less_time"):
        return " (bytes not known)"
    if kind in ("more_calls", "fewer_calls"):
        # Of several kernels of an operator this is how often that runs.
        calls = (digits(StepWork.of(side).calls, 4) for side in (largest.a, largest.b))
        return f" ({' → '.join(calls)}{steps.each})"
    if kind == "other_types":
        return f" ({_sides(largest, 'dtypes')})"
    if kind == "other_kernels" and largest.a and largest.b:
        return f" ({' → '.join(_longest_kernels(largest))})"
    return ""


def _longest_kernels(link: Link) -> list[str]:
    """How the kernel of each side with most time is called; copies are no kernels, and keep their
    names."""
    longest = [max(side, key=lambda p: p.ms) for side in (link.a, link.b)]
    kernels = [part.kernel or "?" for part in longest]
    if longest[0].part == "exposed_copy":
        return kernels
    labels = kernel_labels(kernels)
    return [labels[kernel] for kernel in kernels]


def _names(parts: Sequence[StepPart], among: Sequence[StepPart]) -> str:
    """Operators and kernels, those with most time first; kernels by their labels `among` those of
    both sides."""
    bare = (p.kernel for p in among if p.part == "compute" and p.kernel and not p.op)
    labels = kernel_labels(bare)
    time = defaultdict[str, float](float)
    for p in parts:
        name = part_name(p)
        time[labels.get(name, name)] += p.ms
    names = [name for name in sorted(time, key=lambda name: -time[name]) if name]
    shown = ", ".join(names[:NAMED])
    return f"{shown} and {len(names) - NAMED} more" if len(names) > NAMED else shown


def _details(group: LinkGroup) -> list[Detail]:
    """One for each link, for each part where parts merely stand at the same position."""
    links: list[Link] = []
    for link in group.links:
        if link.how is not How.POSITION:
            links.append(link)
            continue
        links += [Link(How.NOTHING, (part,), ()) for part in link.a]
        links += [Link(How.NOTHING, (), (part,)) for part in link.b]
    found = [_detail(group, link) for link in links]
    return sorted(found, key=lambda d: -abs(d.difference_ms))


def _detail(group: LinkGroup, link: Link) -> Detail:
    a = StepWork.of(link.a)
    b = StepWork.of(link.b)
    return Detail(
        what=_what(group, link),
        a_calls=a.calls,
        b_calls=b.calls,
        a_ms=a.ms,
        b_ms=b.ms,
        difference_ms=b.ms - a.ms,
    )


def _what(group: LinkGroup, link: Link) -> str:
    part = (link.a or link.b)[0]
    if group.part == "idle":
        where = f"{part.kernel} in {part.op}" if part.kernel and part.op else part.kernel
        return where or f"before {part.op or 'work outside operators'}"
    if link.how is How.OPERATOR:
        return f"{part_name(part)} {_sides(link, 'shapes')}"
    if link.how in (How.INPUTS, How.SHAPES):
        return " ".join(filter(None, (part.op, part.shapes))) + f": {_sides(link, 'kernel')}"
    name = part_name(part) if group.part == "exposed_communication" else part.op
    return " ".join(filter(None, (name, part.shapes, part.kernel)))


def _sides(link: Link, column: Literal["dtypes", "kernel", "shapes"]) -> str:
    """What the parts of both sides have there."""
    sides = ([getattr(part, column) or "?" for part in side] for side in (link.a, link.b))
    return " → ".join(", ".join(dict.fromkeys(names)) for names in sides)


def step_change(parts: tuple[list[StepPart], list[StepPart]], steps: BothSteps) -> StepChange:
    """The step that consists of these parts, on both sides."""
    a, b = map(StepWork.of, parts)
    return StepChange(
        step=Difference(**figures(a, b, steps)),
        changes=changes_between(*parts, steps),
        budget=_budget(*parts, steps),
    )


def _budget(a: list[StepPart], b: list[StepPart], steps: BothSteps) -> list[PartDifference]:
    """Parts of the budget, and after `idle` its causes."""
    every = (*a, *b)
    causes = [(p.part, p.cls) for p in every if p.part == "idle" and p.cls != ANY_CAUSE]
    keys = dict.fromkeys([*((p.part, None) for p in every), *causes])

    def place_of(key: tuple[str, str | None]) -> tuple[int, bool]:
        part, cls = key
        return ORDER.index(part), cls is not None

    rows = []
    for part, cls in sorted(keys, key=place_of):
        x, y = (_work_of(side, part, cls) for side in (a, b))
        name = part if cls is None else f"{part}.{cls}"
        rows.append(PartDifference(**figures(x, y, steps), name=name))
    return rows


def _work_of(parts: list[StepPart], part: str, cls: str | None) -> StepWork:
    """A part of the budget, of one class where one is given."""
    return StepWork.of(p for p in parts if p.part == part and cls in (None, p.cls))
