"""Which parts of B's step stand for which of A's: groups of parts that are one change each.

In this order: the same operator on the same shapes and types with the same kernel; with another
kernel; on other types; on other shapes; what stands at the same position in the step, between parts
that were matched (renamed kernels, operators fused or written out). What is left belongs to its
operator, where that runs on the other side too, else it is gone or added. Idle time is matched by
its cause."""

import enum
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from traceanalyzer.analysis.names.collectives import OTHER, collective_kind
from traceanalyzer.analysis.tables.step_parts import StepPart
from traceanalyzer.comparison.work import paired

Key = Callable[[StepPart], tuple[str | None, ...]]
MOSTLY = 0.5
"""If more than this share of the computation runs on other shapes, that is one change: other work
was done."""


class How(enum.Enum):
    """What parts of the two sides have in common, closest first."""

    SAME = enum.auto()
    INPUTS = enum.auto()  # operator, shapes and types: other kernels do it
    SHAPES = enum.auto()  # operator and shapes: it runs on other types of numbers
    OPERATOR = enum.auto()  # the operator alone: it runs on other shapes
    POSITION = enum.auto()  # nothing but where they stand in the step
    NOTHING = enum.auto()  # one side only


@dataclass(frozen=True)
class Link:
    """Parts of both sides that stand for each other."""

    how: How
    a: tuple[StepPart, ...]
    b: tuple[StepPart, ...]

    @property
    def parts(self) -> tuple[StepPart, ...]:
        """The parts of both sides."""
        return (*self.a, *self.b)

    @property
    def difference_ms(self) -> float:
        """B less A."""
        return _time(self.b) - _time(self.a)

    @property
    def ms(self) -> float:
        """Time of the longer side."""
        return max(_time(self.a), _time(self.b))


@dataclass
class LinkGroup:
    """Links that are one change; `label` is an operator, a kernel or a cause of idle time, empty
    for several."""

    part: str
    label: str
    links: list[Link] = field(default_factory=list)

    @property
    def a(self) -> list[StepPart]:
        """Its parts on side A."""
        return [p for link in self.links for p in link.a]

    @property
    def b(self) -> list[StepPart]:
        """Its parts on side B."""
        return [p for link in self.links for p in link.b]

    @property
    def ms(self) -> float:
        """Time of the longer side."""
        return max(_time(self.a), _time(self.b))

    @property
    def largest(self) -> Link:
        """The link with the largest difference."""
        return max(self.links, key=lambda link: abs(link.difference_ms))


def match_parts(a: list[StepPart], b: list[StepPart]) -> list[LinkGroup]:
    """The changes: every part of both sides is in exactly one of them."""
    groups: list[LinkGroup] = []
    for part in dict.fromkeys(p.part for p in (*a, *b)):
        of_a = [p for p in a if p.part == part]
        of_b = [p for p in b if p.part == part]
        groups += _idle(of_a, of_b) if part == "idle" else _running(part, of_a, of_b)
    return groups


def part_name(part: StepPart) -> str:
    """What the part goes by: its operator, else its kernel; what kind of collective or copy it
    is."""
    kernel = part.kernel or ""
    if part.part == "exposed_communication":
        kind = collective_kind(kernel)
        return kernel if kind == OTHER else kind
    return kernel.partition(" (")[0] if part.part == "exposed_copy" else part.op or kernel


def _idle(a: list[StepPart], b: list[StepPart]) -> list[LinkGroup]:
    """A change for each cause of idle time, linked place by place."""
    groups: dict[str, LinkGroup] = {}
    for of_a, of_b in paired(a, b, lambda p: (p.cls, p.op, p.kernel)):
        cause = (*of_a, *of_b)[0].cls
        group = groups.setdefault(cause, LinkGroup("idle", cause))
        group.links.append(_link(How.SAME, of_a, of_b))
    return list(groups.values())


def _running(part: str, a: list[StepPart], b: list[StepPart]) -> list[LinkGroup]:
    links = _by_name(a, b)
    groups: dict[str, LinkGroup] = {}
    for link in links:
        name = part_name(link.a[0])  # that of all its parts
        groups.setdefault(name, LinkGroup(part, name)).links.append(link)
    replaced: dict[Hashable, LinkGroup] = {}
    for gone, added in _blocks(a, b, links):
        if gone and added:
            names = (frozenset(map(part_name, gone)), frozenset(map(part_name, added)))
            group = replaced.setdefault(names, LinkGroup(part, ""))
            group.links.append(_link(How.POSITION, gone, added))
            continue
        alone = LinkGroup(part, "")
        for p in gone:
            group = groups.get(part_name(p), alone)
            group.links.append(_link(How.NOTHING, [p], []))
        for p in added:
            group = groups.get(part_name(p), alone)
            group.links.append(_link(How.NOTHING, [], [p]))
        if alone.links:
            replaced[id(alone)] = alone
    found = [*groups.values(), *replaced.values()]
    return _other_work(part, found) if part == "compute" else found


def _keys() -> tuple[tuple[How, Key], ...]:
    """By what parts are linked, closest first."""
    return (
        (How.SAME, lambda p: (p.op, p.shapes, p.dtypes, p.kernel)),
        (How.INPUTS, lambda p: (part_name(p), p.shapes, p.dtypes)),
        (How.SHAPES, lambda p: (part_name(p), p.shapes)),
        (How.OPERATOR, lambda p: (part_name(p),)),
    )


def _by_name(a: list[StepPart], b: list[StepPart]) -> list[Link]:
    """Links by operator, shapes and kernel: what the closest key does not link, the next may."""
    links: list[Link] = []
    for how, key in _keys():
        on_both_sides = [pair for pair in paired(a, b, key) if all(pair)]
        for of_a, of_b in on_both_sides:
            links += _one_by_one(how, of_a, of_b)
        linked = _linked(links)
        a = _without(a, linked)
        b = _without(b, linked)
    return links


def _linked(links: Iterable[Link]) -> set[int]:
    """The ids of the parts of both sides that are in these links."""
    return {id(p) for link in links for p in link.parts}


def _without(parts: Iterable[StepPart], linked: set[int]) -> list[StepPart]:
    return [p for p in parts if id(p) not in linked]


def _one_by_one(how: How, a: list[StepPart], b: list[StepPart]) -> list[Link]:
    """Links of an operator that runs on as many other shapes as before: each of these with its
    successor."""
    if how is How.OPERATOR:
        shapes_a = _by_shapes(a)
        shapes_b = _by_shapes(b)
        if len(shapes_a) == len(shapes_b):
            return [_link(how, x, y) for x, y in zip(shapes_a, shapes_b, strict=True)]
    return [_link(how, a, b)]


def _by_shapes(parts: list[StepPart]) -> list[list[StepPart]]:
    """Parts on the same shapes together, in the order of their first ones."""
    found: dict[str | None, list[StepPart]] = {}
    for part in parts:
        found.setdefault(part.shapes, []).append(part)
    return list(found.values())


def _blocks(
    a: list[StepPart], b: list[StepPart], links: list[Link]
) -> Iterable[tuple[list[StepPart], list[StepPart]]]:
    """What no link has between the same neighbours on both sides. An operator on other shapes is
    no such neighbour: its namesake may stand anywhere."""
    neighbours = [link for link in links if link.how is not How.OPERATOR]
    number = {id(p): i for i, link in enumerate(neighbours) for p in link.parts}
    every = [*a, *b]
    order = [number.get(id(p), -1 - i) for i, p in enumerate(every)]
    linked = _linked(links)
    matcher = SequenceMatcher(None, order[: len(a)], order[len(a) :], autojunk=False)
    for tag, a_first, a_stop, b_first, b_stop in matcher.get_opcodes():
        if tag != "equal":
            yield _without(a[a_first:a_stop], linked), _without(b[b_first:b_stop], linked)


def _other_work(part: str, groups: list[LinkGroup]) -> list[LinkGroup]:
    """The groups, with everything that runs on other shapes as one of them where that is most of
    the time."""
    every = LinkGroup(part, "", [link for group in groups for link in group.links])
    reshaped = LinkGroup(part, "", [link for link in every.links if link.how is How.OPERATOR])
    if reshaped.ms <= MOSTLY * every.ms:
        return groups
    rest = [
        LinkGroup(part, g.label, [link for link in g.links if link.how is not How.OPERATOR])
        for g in groups
    ]
    return [reshaped, *(g for g in rest if g.links)]


def _time(parts: Iterable[StepPart]) -> float:
    return sum(p.ms for p in parts)


def _link(how: How, a: Iterable[StepPart], b: Iterable[StepPart]) -> Link:
    return Link(how, tuple(a), tuple(b))
