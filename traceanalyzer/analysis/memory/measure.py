"""All that a snapshot tells, as one value."""

from collections.abc import Mapping
from dataclasses import field, replace

import numpy as np

from traceanalyzer.analysis.memory.categories import BEFORE, CATEGORIES, categories_of
from traceanalyzer.analysis.memory.course import Consumer, StepMemory, consumers_of, course_of
from traceanalyzer.analysis.memory.growth import Growth, growth_of
from traceanalyzer.analysis.memory.lives import lives_of
from traceanalyzer.analysis.memory.oom import Oom, last_oom, oom_of
from traceanalyzer.analysis.memory.phases import BACKWARD, PHASES, allocation_site, timeline_of
from traceanalyzer.analysis.memory.room import LargerBatch, largest_batch
from traceanalyzer.analysis.memory.segments import held_at
from traceanalyzer.analysis.memory.stacks import StackAtPeak, stacks_at
from traceanalyzer.analysis.memory.stats import MemoryStats
from traceanalyzer.analysis.memory.whatif import Scenario, Subject, scenarios_of, unmade_state
from traceanalyzer.base import MEMORY, OWN, SENTENCE, binary, dataclass, metric
from traceanalyzer.trace.snapshot import CODE, I64, DeviceMemory, Snapshot

MAX_PINS = 10
NO_SITE = "(no stack)", "(backward, no Python stack)"


@dataclass(frozen=True)
class Site:
    """A line of the program at the peak."""

    site: str = metric("innermost line of the program on the stack of the allocation")
    category: str = metric("what it is of; inferred")
    phase: str | None = metric("the phase that allocated it; null where no stacks were recorded")
    bytes: int = metric("bytes allocated at the peak", MEMORY)
    allocations: int = metric("how many allocations they are")


@dataclass(frozen=True)
class Pin:
    """A segment with holes and what keeps it from being given back."""

    site: str = metric("line of the largest allocation in the segment")
    category: str = metric("what that is of; inferred")
    segment_bytes: int = metric("size of the segment", MEMORY)
    inactive_bytes: int = metric("holes in it", MEMORY)
    allocations: int = metric("allocations in it")


@dataclass(frozen=True)
class Fragmentation:
    """At the peak, or where memory ran out. All in bytes."""

    at: str
    reserved_bytes: int
    internal_bytes: int
    inactive_bytes: int
    pending_bytes: int
    largest_free_block_bytes: int
    releasable_bytes: int
    pins: tuple[Pin, ...]


@dataclass(frozen=True)
class MemoryOfDevice:
    """One GPU. All in bytes."""

    device: int
    peak_bytes: int
    peak_phase: str | None
    peak_step: int | None
    reserved_bytes: int
    end_bytes: int
    at_peak: dict[str, int]
    inferred: tuple[str, ...]  # categories of `at_peak` that are inferred
    phase_peaks: dict[str, int]
    sites: tuple[Site, ...]
    steps: tuple[StepMemory, ...]
    step_source: str = field(metadata=OWN)
    growth: Growth
    fragmentation: Fragmentation
    oom: Oom | None
    scenarios: tuple[Scenario, ...]
    larger_batch: LargerBatch
    events: int
    unexplained_bytes: int
    notes: tuple[str, ...] = field(metadata=SENTENCE)
    curve: tuple[
        tuple[float, int, int], ...
    ]  # (seconds since the first event, allocated, reserved), thinned out
    consumers: tuple[Consumer, ...]  # what the curve is made of, by category and by line
    stacks: tuple[StackAtPeak, ...] = ()  # what is allocated at the peak, by stack


def measured_memory(
    snapshot: Snapshot, ranks: int = 8, capacity: Mapping[int, int] | None = None
) -> tuple[MemoryOfDevice, ...]:
    """Every GPU of the snapshot that held memory; `capacity` is what each has, bytes by device,
    where that is known."""
    return tuple(
        _device(memory, snapshot, ranks, (capacity or {}).get(memory.device))
        for memory in snapshot.devices
    )


def _device(
    memory: DeviceMemory, snapshot: Snapshot, ranks: int, capacity: int | None
) -> MemoryOfDevice:
    lives = lives_of(memory, snapshot.settings)
    timeline = timeline_of(memory.events, snapshot, memory.device)
    categories = categories_of(lives, timeline, snapshot.stacks)
    course = course_of(memory, lives, timeline)
    peak = course.peak_bytes
    alive = lives.alive(course.peak_moment)
    growth = growth_of(lives, timeline, snapshot.stacks, last_oom(memory.events))
    subject = Subject(
        memory, lives, timeline, categories, snapshot.stacks, course.peak_moment, ranks
    )
    oom = oom_of(subject, growth)
    unmade = unmade_state(lives, categories) if oom and oom.verdict == "optimizer_state" else 0
    weights = np.bincount(categories[alive], lives.size[alive], len(CATEGORIES))
    at_peak = weights.astype(np.int64)
    return MemoryOfDevice(
        device=memory.device,
        peak_bytes=peak,
        peak_phase=course.peak_phase,
        peak_step=course.peak_step,
        reserved_bytes=course.reserved_bytes,
        end_bytes=course.end_bytes,
        at_peak={name: int(at_peak[i]) for i, name in enumerate(CATEGORIES)},
        inferred=CATEGORIES[:BEFORE],
        phase_peaks=course.phase_peaks,
        sites=_sites(subject, alive),
        steps=course.steps,
        step_source=timeline.steps.source,
        growth=growth,
        fragmentation=_fragmentation(subject),
        oom=oom,
        scenarios=scenarios_of(replace(subject, unmade=unmade), peak, course.reserved_bytes),
        larger_batch=largest_batch(subject, peak, capacity, oom.usable_bytes if oom else None),
        events=len(memory.events),
        unexplained_bytes=lives.unexplained_bytes,
        notes=_notes(subject, alive),
        curve=course.points,
        consumers=consumers_of(lives, categories, snapshot.stacks, course.moments),
        stacks=stacks_at(lives, snapshot.stacks, alive),
    )


def _sites(subject: Subject, alive: I64) -> tuple[Site, ...]:
    lives = subject.lives
    timeline = subject.timeline
    groups: dict[tuple[str, int, int], list[int]] = {}
    names: dict[int, str] = {}
    for life in alive.tolist():
        stack = int(lives.stack[life])
        born = int(lives.born[life])
        if stack not in names:
            names[stack] = allocation_site(subject.stacks[stack])
        phase = int(timeline.phase[born]) if born >= 0 else -1
        site = names[stack] or ("(before recording)" if born < 0 else NO_SITE[phase == BACKWARD])
        total = groups.setdefault((site, int(subject.categories[life]), phase), [0, 0])
        total[0] += int(lives.size[life])
        total[1] += 1
    found = [
        Site(
            site,
            CATEGORIES[category],
            PHASES[phase] if phase >= 0 and timeline.known else None,
            *total,
        )
        for (site, category, phase), total in groups.items()
    ]
    return tuple(sorted(found, key=lambda site: -site.bytes))


def _fragmentation(subject: Subject) -> Fragmentation:
    memory = subject.memory
    lives = subject.lives
    failed = np.flatnonzero(memory.events.action == CODE["oom"])
    moment = int(failed[-1]) if len(failed) else subject.moment
    held = held_at(memory, lives, moment)
    pins = []
    for p in held.pinned[:MAX_PINS]:
        site = allocation_site(subject.stacks[int(lives.stack[p.life])]) or NO_SITE[0]
        pins.append(
            Pin(site, CATEGORIES[subject.categories[p.life]], p.size, p.inactive, p.allocations)
        )
    at = "oom" if len(failed) else "peak"
    pending = held.active - int(lives.size[lives.alive(moment)].sum())
    taken = held.reserved, held.internal, held.inactive
    return Fragmentation(at, *taken, pending, held.largest_hole, held.whole_free, tuple(pins))


def _notes(subject: Subject, alive: I64) -> tuple[str, ...]:
    notes = []
    lives = subject.lives
    events = subject.memory.events
    before = int(lives.size[alive][subject.categories[alive] == BEFORE].sum())
    if not len(events):
        notes.append(
            "No history was recorded: the figures are of the moment of the snapshot, not of the peak. Call "
            "torch.cuda.memory._record_memory_history() before the model is made."
        )
    elif before:
        notes.append(
            f"{binary(before)} were allocated before the recorded history begins, and it is not known what for: record "
            "from before the model is made, with more entries (max_entries)."
        )
    if len(events) and not subject.timeline.known:
        notes.append("No stacks were recorded: phases and lines are not known.")
    if lives.unexplained_bytes:
        notes.append(
            f"{binary(lives.unexplained_bytes)} of the snapshot's last state do not "
            "follow from its history."
        )
    return tuple(notes)


def stats_of_snapshot(devices: tuple[MemoryOfDevice, ...]) -> MemoryStats | None:
    """The figures of a snapshot's fullest GPU; None where it holds none."""
    if not devices:
        return None
    top = max(devices, key=lambda device: device.peak_bytes)
    phases = top.phase_peaks
    growth = top.growth
    others = [phases[name] for name in ("other", "zero_grad") if name in phases]
    return MemoryStats(
        top.peak_bytes,
        top.reserved_bytes,
        phases.get("forward"),
        phases.get("backward"),
        phases.get("optimizer"),
        max(others, default=None),
        top.peak_phase,
        growth.bytes_per_step,
        growth.low,
        growth.high,
        growth.verdict,
        growth.sites[0].site if growth.sites else None,
    )
