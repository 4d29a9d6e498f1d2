"""GPU memory from a trace alone: its allocator events joined with the phases and steps of its host
ranges."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import union
from traceanalyzer.analysis.memory import growth as slopes
from traceanalyzer.analysis.memory.growth import (
    LEAST_BYTES,
    LEAST_SHARE,
    UNKNOWN,
    Growth,
    GrowthSite,
)
from traceanalyzer.analysis.memory.lives import at_moments
from traceanalyzer.analysis.memory.stats import MemoryStats
from traceanalyzer.analysis.names.phase_names import Role
from traceanalyzer.analysis.phases.roles import Phases
from traceanalyzer.analysis.tables.op_memory import OUTSIDE, innermost_operator, makers
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.trace import I64, Bool, MemoryEvents, distinct

LEAST_STEPS = 3  # steps that a slope needs
CLOSE = 0.2
"""Width of the range over the slope below which a level that grows without leftovers is
believed."""
MAKES = 2  # more than a later step keeps, by which the first makes what all use
OTHER = Role.NONE
NEVER = int(np.iinfo(np.int64).max)
IN_ORDER = (Role.FORWARD, Role.BACKWARD, Role.OPTIMIZER)
"""The last counts: what runs again in the backward is of it."""
_Lives = tuple[I64, I64, I64]
"""Rows that allocate, the rows that free what they allocated, and sizes."""


class TracedMemory(NamedTuple):
    """The fullest GPU of a trace."""

    stats: MemoryStats
    growth: Growth


def memory_of_events(timed: Timed, phases: Phases) -> TracedMemory | None:
    """What the allocator's events tell of the GPU that holds the most; None without events that
    state totals."""
    events = timed.trace.memory_events
    on_gpu = events.take(np.flatnonzero((events.device >= 0) & (events.allocated >= 0)))
    if not len(on_gpu) or not on_gpu.allocated.any():
        return None
    fullest = on_gpu.device[on_gpu.allocated.argmax()]
    events = on_gpu.take(np.flatnonzero(on_gpu.device == fullest))
    peaks = _phase_peaks(timed, phases, events)
    growth = _growth(timed, phases, events)
    top = int(events.allocated.max())
    at_top = next((role for role in (*IN_ORDER, OTHER) if peaks.get(role) == top), None)
    stats = MemoryStats(
        peak=top,
        reserved=int(events.reserved.max()) if events.reserved.max() > 0 else None,
        forward=peaks.get(Role.FORWARD),
        backward=peaks.get(Role.BACKWARD),
        optimizer=peaks.get(Role.OPTIMIZER),
        other=peaks.get(OTHER),
        peak_phase=None if at_top is None else at_top.label if at_top else "other",
        growth_per_step=growth.bytes_per_step,
        growth_low=growth.low,
        growth_high=growth.high,
        growth=growth.verdict,
        growth_at=growth.sites[0].site if growth.sites else None,
    )
    return TracedMemory(stats, growth)


def _phase_peaks(timed: Timed, phases: Phases, events: MemoryEvents) -> dict[Role, int]:
    edges, labels = _stretches(timed, phases, events)
    if not len(edges):
        return {}
    place = np.searchsorted(edges, events.start, side="right") - 1
    inside = place >= 0
    at_edge = _level(events)[np.searchsorted(events.start, edges)]
    peaks = np.full(len(Role), -1, np.int64)
    np.maximum.at(peaks, labels, at_edge)
    roles = np.where(inside, labels[np.maximum(place, 0)], OTHER)
    np.maximum.at(peaks, roles, events.allocated)
    return {role: int(peaks[role]) for role in (*IN_ORDER, OTHER) if peaks[role] >= 0}


def _stretches(timed: Timed, phases: Phases, events: MemoryEvents) -> tuple[I64, I64]:
    """When each stretch of a phase begins, and its role; empty where neither steps nor phases are
    known.

    What no range names is the loss, of the forward, if the backward pass follows. Before a forward
    pass it is of it from the step's first allocation on: input, and layers that learn nothing. The
    rest is other."""
    steps = timed.steps
    covered_by = dict[Role, tuple[I64, I64]]()
    tree = timed.linked.tree
    for role in IN_ORDER:
        nodes = np.flatnonzero(phases.of_node == role)
        covered = union(tree.start[nodes], tree.end[nodes])
        covered_by[role] = covered.start, covered.end
    if not len(covered_by[Role.BACKWARD][0]) and steps.found:
        # it does not train: all of a step is forward
        covered_by[Role.FORWARD] = (steps.host_start, steps.host_end)
    edges = distinct(np.concatenate([np.concatenate(pair) for pair in covered_by.values()]))
    labels = np.full(len(edges), OTHER, np.int64)
    for role, (start, end) in covered_by.items():
        at = np.searchsorted(start, edges, side="right") - 1
        labels[(at >= 0) & (edges < np.append(end, 0)[at])] = int(role)
    if not len(edges):
        return edges, labels
    begins = np.append(True, labels[1:] != labels[:-1])
    allocates = events.start[events.bytes > 0]
    edges = edges[begins]
    return _filled(edges.tolist(), labels[begins].tolist(), allocates, steps.host_start)


def _filled(edges: list[int], labels: list[int], allocates: I64, steps: I64) -> tuple[I64, I64]:
    """The stretches with those without a name given to their neighbours; `steps` is when steps
    begin."""
    stretches = [*zip(edges, labels, strict=True), (NEVER, int(OTHER))]
    if edges and steps[0] < edges[0]:
        stretches.insert(0, (int(steps[0]), int(OTHER)))
    found = list[tuple[int, int]]()
    before = int(OTHER)
    for (start, label), (end, after) in pairwise(stretches):
        alike = (before, after) in {(after, after), (Role.FORWARD, Role.BACKWARD)}
        found.append((start, label or (before if alike else OTHER)))
        if not label and not alike and after == Role.FORWARD:
            step = max(int(np.searchsorted(steps, end, side="right")) - 1, 0)
            begin = max(start, int(steps[step]))
            first = int(np.searchsorted(allocates, begin))
            allocated = int(allocates[first]) if first < len(allocates) else end
            found.append((min(end, allocated), int(after)))
        before = label or before
    times, roles = np.array(found, np.int64).reshape(-1, 2).T
    return times, roles


def _growth(timed: Timed, phases: Phases, events: MemoryEvents) -> Growth:
    """What stays allocated at the ends of the steady steps, of all where these are too few: what a
    first step makes is there at its end. It is a leak where each of them leaves something for good,
    and grows by that where what is freed again makes the level uneven."""
    steps = timed.steps
    chosen = steps.steady if steps.steady_count >= LEAST_STEPS else slice(None)
    ends = np.searchsorted(events.start, steps.host_end[chosen])
    if not steps.found or len(ends) < LEAST_STEPS:
        return UNKNOWN
    levels = _level(events)[ends]
    lives = _lives(events)
    slope, low, high = of_levels = slopes.slope_of(levels)
    begin = np.searchsorted(events.start, steps.host_start[chosen][:1])
    staying, kept = _staying(events, lives, begin, ends)
    leaks = np.diff(kept).min() >= LEAST_BYTES and levels[-1] > levels[0]
    close = low > 0 and high - low <= CLOSE * slope
    if slope < LEAST_BYTES or not (leaks or (close and slopes.goes_on(levels))):
        return Growth(*of_levels, "steady", len(ends), ())
    if leaks and not close:
        slope, low, high = slopes.slope_of(_without_first(kept))
        low = min(low, of_levels[0])
        high = max(high, of_levels[0])
        lives = (lives[0][staying], lives[1][staying], lives[2][staying])
    sites = _sites(timed, phases, events.start, lives, ends, slope)
    return Growth(slope, low, high, "leak" if leaks else "growth", len(ends), sites)


def _without_first(kept: I64) -> I64:
    """The levels without the first one where the first step makes what all use."""
    grown = np.diff(kept)
    return kept[1:] if grown[0] > MAKES * grown[1:].mean() else kept


def _staying(events: MemoryEvents, lives: _Lives, begin: I64, ends: I64) -> tuple[Bool, I64]:
    """Which allocations the recording does not free, and what the level would be without the
    others.

    At the beginning and at the ends, but for as many of the last ones as an allocation was seen to
    last: what is freed after the recording cannot be known. At least one is left out, and three
    stay."""
    born, freed, size = lives
    moments = np.concatenate((begin, ends))
    staying = freed == len(events)
    before_freed = np.searchsorted(moments, freed, side="right")
    passed = before_freed - np.searchsorted(moments, born, side="right")
    most_passed = int(passed[~staying].max(initial=0))
    longest = min(max(most_passed, 1), len(moments) - LEAST_STEPS)
    earlier = np.flatnonzero((events.bytes < 0) & (makers(events) < 0))
    if len(earlier) and earlier[-1] >= moments[longest]:
        earlier = earlier[:0]  # more than that is given up for what is new
    from_before = np.full(len(earlier), -1), earlier, -events.bytes[earlier]
    again = at_moments(moments, (born[~staying], freed[~staying], size[~staying]), from_before)
    return staying, (_level(events)[moments] - again)[: len(moments) - longest]


def _level(events: MemoryEvents) -> I64:
    return np.concatenate((events.allocated[:1] - events.bytes[:1], events.allocated))


def _lives(events: MemoryEvents) -> _Lives:
    """Rows that allocate, the rows that free what they allocated (the number of events for none),
    and sizes."""
    maker = makers(events)
    freed = np.full(len(events), len(events))
    frees = np.flatnonzero((events.bytes <= 0) & (maker >= 0))
    freed[maker[frees]] = frees
    born = np.flatnonzero((events.bytes > 0) & (events.address >= 0))
    return born, freed[born], events.bytes[born]


def _sites(
    timed: Timed, phases: Phases, time: I64, piece: _Lives, ends: I64, slope: float
) -> tuple[GrowthSite, ...]:
    """The lines (without stacks the operators) of which ever more is allocated."""
    born, freed, size = piece
    crossing = np.flatnonzero((born < ends[-1]) & (freed >= ends[0]))
    nodes = innermost_operator(timed, time[born[crossing]])
    place_of = {node: _place(timed, node) for node in set(nodes.tolist())}
    rows: dict[str, list[int]] = {}
    phase_of: dict[str, str] = {}
    for row, node in zip(crossing.tolist(), nodes.tolist(), strict=True):
        rows.setdefault(place_of[node], []).append(row)
        phase_of.setdefault(place_of[node], _in_phase(timed, phases, node))
    found = []
    for place, at in rows.items():
        lives = (born[at], freed[at], size[at])
        found.append(slopes.growth_site(*lives, ends, place + phase_of[place]))
    found.sort(key=lambda site: -site.bytes_per_step)
    return tuple(site for site in found if site.bytes_per_step >= LEAST_SHARE * slope)


def _in_phase(timed: Timed, phases: Phases, node: int) -> str:
    """What is said after the name of a line: the phase that a node is in."""
    phase = phases.name_of(timed.trace, node) if node >= 0 else None
    if phase is None:
        return ""
    return f" {phase}" if phase.startswith("between") else f" in {phase}"


def _place(timed: Timed, node: int) -> str:
    """The line of the program that a node of the host tree is of, else its name."""
    if node < 0:
        return OUTSIDE
    tree = timed.linked.tree
    line = timed.joined.python.source_line(int(tree.thread[node]), int(tree.start[node]))
    return line or timed.trace.strings[tree.names(np.array([node]))[0]]
