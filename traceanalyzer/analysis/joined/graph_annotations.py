"""What the program said of the nodes of a CUDA graph, as ranges around them.

PyTorch 2.12 and later write it into the arguments of each kernel that a graph replays: the module
(`module_fqn`, as torchtitan marks it), the name of a region (`mark_kernels`), and whether it is
work of the backward pass."""

from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

import msgspec

from traceanalyzer.analysis.names.pytorch import AUTOGRAD_PREFIX, numberless
from traceanalyzer.trace import RangeKind
from traceanalyzer.trace.events import GraphAnnotation

UNNAMED = "CUDA graph: operators not recorded"
MODULE_OPENS = "{'Module': '"
NOTHING = GraphAnnotation()
_ANNOTATION = msgspec.json.Decoder(GraphAnnotation)


class Around(NamedTuple):
    """A range around nodes that follow one another."""

    kind: RangeKind
    name: str
    first: int
    until: int  # the node behind its last
    depth: int  # how many ranges are around it


Level = tuple[RangeKind, str]


def parsed(text: str) -> GraphAnnotation:
    """What the program said; nothing where the text is no annotation."""
    try:
        return _ANNOTATION.decode(text)
    except msgspec.DecodeError:
        return NOTHING


def ranges_around(nodes: Sequence[GraphAnnotation]) -> list[Around]:
    """The ranges around nodes in the order of their launches, each before those inside of it."""
    found: list[Around] = []
    open_: list[tuple[Level, int]] = []  # the ranges around the last node, and where they began
    for at, levels in enumerate([*_levels_of(nodes), []]):
        same = 0
        while same < min(len(levels), len(open_)) and levels[same] == open_[same][0]:
            same += 1
        found += [
            Around(kind, name, first, at, same + depth)
            for depth, ((kind, name), first) in enumerate(open_[same:])
        ]
        open_ = open_[:same] + [(level, at) for level in levels[same:]]
    return sorted(found, key=lambda one: (one.first, one.depth))


def _levels_of(nodes: Sequence[GraphAnnotation]) -> list[list[Level]]:
    """The ranges around each node. What nothing was said of (memsets are not marked) lies in the
    modules that the nodes before and after it have in common."""
    levels = [_levels(node) for node in nodes]
    told = [at for at, node in enumerate(nodes) if node != NOTHING]
    for before, after in pairwise(told):
        shared = _modules_shared(levels[before], levels[after])
        for between in range(before + 1, after):
            levels[between] = [*shared, *levels[between]]
    return levels


def _modules_shared(before: Sequence[Level], after: Sequence[Level]) -> list[Level]:
    """The outermost modules that are around two nodes alike."""
    alike = zip(before, after, strict=False)
    shared = takewhile(lambda pair: pair[0] == pair[1] and _is_module(pair[0]), alike)
    return [level for level, _ in shared]


def _is_module(level: Level) -> bool:
    kind, name = level
    return kind is RangeKind.ANNOTATION and name.startswith(MODULE_OPENS)


def _levels(node: GraphAnnotation) -> list[Level]:
    """The ranges around a node, outermost first: its modules, its region, the backward pass, and
    what stands for its operator."""
    parts = node.module.split(".") if node.module else []
    levels: list[Level] = []
    for count in range(1, len(parts) + 1):
        is_list = count < len(parts) and parts[count].isdigit()  # of layers: no module by itself
        if not is_list:
            path = ".".join(parts[:count])
            levels.append((RangeKind.ANNOTATION, f"{{'Module': '{path}'}}"))
    if node.name:
        levels.append((RangeKind.ANNOTATION, node.name))
    operator = node.name or numberless(node.module) or UNNAMED
    if node.is_backward:
        levels.append((RangeKind.OP, f"{AUTOGRAD_PREFIX} {operator}"))
    levels.append((RangeKind.OP, operator))
    return levels
