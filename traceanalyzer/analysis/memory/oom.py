"""Why an allocation failed: what was asked, what was there, what would have fitted, and who held
the rest."""

from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np

from traceanalyzer.analysis.memory.categories import BEFORE, CATEGORIES, STATE
from traceanalyzer.analysis.memory.growth import Growth
from traceanalyzer.analysis.memory.phases import OPTIMIZER, PHASES, HistoryTimeline, allocation_site
from traceanalyzer.analysis.memory.segments import HeldBytes, held_at, reserved_of
from traceanalyzer.analysis.memory.whatif import Subject, scaling_with_batch
from traceanalyzer.base import MEMORY, dataclass, metric, ratio
from traceanalyzer.trace.snapshot import CODE, AllocationEvents

OomVerdict = Literal[
    "fragmentation",
    "leak",
    "optimizer_state",
    "large_allocation",
    "activations",
    "parameters",
    "gradients",
    "too_large",
    "unknown",
]

LARGE_SHARE = 0.2  # share of the usable memory from which one allocation is a cause of its own
PAGE = 2 << 20  # what expandable segments grow by at least
LARGE_REQUEST = 10 << 20  # requests of 1 to 10 MiB take one of 20 MiB (kMinLargeAlloc)
LARGE_SEGMENT = 20 << 20
SMALL_REQUEST = 1 << 20
MAX_CULPRITS = 5


@dataclass(frozen=True)
class MemoryCulprit:
    """What held memory when it ran out."""

    site: str = metric("innermost line of the program on the stack of the allocations")
    category: str = metric("what they are of; inferred")
    bytes: int = metric("bytes that they hold, or that they pin", MEMORY)
    allocations: int = metric("how many they are")


@dataclass(frozen=True)
class Oom:
    """The last failed allocation. All in bytes."""

    requested_bytes: int
    device_free_bytes: (
        int  # what the driver had free: less was allowed where a limit (a memory fraction) was set
    )
    # what this process could hold at most: reserved and free, or the most it held under a limit
    usable_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    inactive_bytes: int
    largest_free_block_bytes: int
    # what would still be missing without any fragmentation; 0 where fragmentation alone is at fault
    missing_bytes: int
    is_limited: bool
    phase: str | None
    step: int | None
    site: str
    verdict: OomVerdict
    fits_with_expandable_segments: bool
    fits_without_top_culprit: bool
    fits_with_batch_share: (
        float | None
    )  # share of this batch that fits; None where nothing goes with the batch
    culprits: tuple[MemoryCulprit, ...]
    failures: int
    leaked_bytes: int  # what the leaking lines hold; 0 without a leak
    steps_left: int | None
    """Steps after which a leak or growth would have failed without any fragmentation; None where
    nothing grows, or where fragmentation is not at fault."""


OF_MOST: Mapping[
    str, OomVerdict
] = {  # by the category of most of memory; of others the request is too large
    "parameters": "parameters",
    "gradients": "gradients",
    "optimizer_state": "optimizer_state",
    "activations": "activations",
    "temporaries": "activations",
    CATEGORIES[BEFORE]: "unknown",
}


def oom_of(subject: Subject, growth: Growth) -> Oom | None:
    """The verdict on the last `oom` entry; None where there is none."""
    row = last_oom(subject.memory.events)
    return None if row is None else _failed_at(subject, growth, row)


def _failed_at(subject: Subject, growth: Growth, row: int) -> Oom:
    memory = subject.memory
    lives = subject.lives
    held = held_at(memory, lives, row)
    alive = lives.alive(row)
    asked = int(memory.events.size[row])
    free = int(memory.events.address[row])
    is_limited = free >= _segment_for(asked)
    usable = reserved_of(memory).highest(row) if is_limited else held.reserved + free
    room = usable - held.active - _paged(asked)
    culprits = _by_line(subject, zip(alive.tolist(), lives.size[alive].tolist(), strict=True))
    missing = max(-room, 0)
    fragmented = not any(segment.is_expandable for segment in memory.segments)

    site = allocation_site(subject.stacks[int(memory.events.stack[row])])
    failure = _Failure(row, asked, usable, missing, held.inactive if fragmented else None)
    verdict = _verdict(subject, growth, failure)
    return Oom(
        requested_bytes=asked,
        device_free_bytes=free,
        usable_bytes=usable,
        allocated_bytes=int(lives.size[alive].sum()),
        reserved_bytes=held.reserved,
        inactive_bytes=held.inactive,
        largest_free_block_bytes=held.largest_hole,
        missing_bytes=missing,
        is_limited=is_limited,
        phase=_phase_of(subject.timeline, row),
        step=_step_of(subject.timeline, row),
        site=site,
        verdict=verdict,
        fits_with_expandable_segments=fragmented and missing == 0,
        fits_without_top_culprit=bool(culprits) and missing <= culprits[0].bytes,
        fits_with_batch_share=_batch_share(usable, held.active + asked, _variable(subject, row)),
        leaked_bytes=_leaked(growth),
        steps_left=_steps_left(growth, room),
        culprits=_named(subject, growth, verdict, culprits, held, site, asked),
        failures=int((memory.events.action == CODE["oom"]).sum()),
    )


def _variable(subject: Subject, row: int) -> int:
    """Bytes that go with the batch, of those alive and asked for at an event."""
    with_batch = np.intersect1d(subject.lives.alive(row), scaling_with_batch(subject))
    alive = int(subject.lives.size[with_batch].sum())
    if subject.timeline.phase[row] == OPTIMIZER:
        return alive
    return alive + int(subject.memory.events.size[row])


def _steps_left(growth: Growth, room: int) -> int | None:
    left = (
        ratio(room, growth.bytes_per_step)
        if growth.verdict in ("leak", "growth") and room >= 0
        else None
    )
    return None if left is None else int(left)


def _segment_for(asked: int) -> int:
    """What the allocator asks the driver for."""
    if asked <= SMALL_REQUEST:
        return PAGE
    return LARGE_SEGMENT if asked < LARGE_REQUEST else _paged(asked)


def _paged(size: int) -> int:
    return -(-size // PAGE) * PAGE


@dataclass(frozen=True)
class _Failure:
    """An allocation that failed."""

    row: int  # of its event
    asked: int  # bytes
    usable: int  # bytes that the process may have
    missing: int  # bytes that it would lack without any fragmentation
    inactive: int | None  # bytes of holes; None where segments grow, and holes do not matter


def _verdict(subject: Subject, growth: Growth, failure: _Failure) -> OomVerdict:
    lives = subject.lives
    alive = lives.alive(failure.row)
    # What frees more is to blame.
    if _leaked(growth) >= max(failure.missing, failure.inactive or 0, 1):
        return "leak"
    if failure.missing == 0 and failure.inactive is not None:
        return "fragmentation"
    if _is_first_update(subject, failure.row):
        return "optimizer_state"
    if max(failure.asked, int(lives.size[alive].max(initial=0))) >= LARGE_SHARE * failure.usable:
        return "large_allocation"
    by_category = np.bincount(subject.categories[alive], lives.size[alive], len(CATEGORIES))
    if not len(alive):
        return "too_large"
    return OF_MOST.get(CATEGORIES[int(by_category.argmax())], "too_large")


def _is_first_update(subject: Subject, row: int) -> bool:
    """Whether an event is in an optimizer phase, and none came to its end before: its state is
    being made."""
    phase = subject.timeline.phase
    if phase[row] != OPTIMIZER:
        return False
    others = np.flatnonzero(phase[:row] != OPTIMIZER)
    begin = others[-1] if len(others) else 0
    born = subject.lives.born
    born_before = (born >= 0) & (born < begin)
    return not ((subject.categories == STATE) & born_before).any()


def last_oom(events: AllocationEvents) -> int | None:
    """The row of the last allocation that failed; None where none did."""
    failed = np.flatnonzero(events.action == CODE["oom"])
    return int(failed[-1]) if len(failed) else None


def _batch_share(usable: int, needed: int, variable: int) -> float | None:
    """The part of the batch that fits, of whose need so much is `variable`; None where that is
    none, or where nothing goes with it."""
    fixed = needed - variable
    if variable <= 0 or fixed >= usable:
        return None
    return round(min((usable - fixed) / variable, 1.0), 4)


def _phase_of(timeline: HistoryTimeline, row: int) -> str | None:
    return PHASES[int(timeline.phase[row])] if timeline.known else None


def _step_of(timeline: HistoryTimeline, row: int) -> int | None:
    """The step that an event is in; None where there are no steps."""
    if not timeline.steps.ends:
        return None
    return max(int(timeline.steps.of(np.array([row]))[0]), 0)


def _leaked(growth: Growth) -> int:
    return sum(site.live_bytes for site in growth.sites) if growth.verdict == "leak" else 0


def _by_line(subject: Subject, rows: Iterable[tuple[int, int]]) -> list[MemoryCulprit]:
    """Lives with the bytes that they hold, or pin, by line of the program and category, the most
    bytes first."""
    groups: dict[tuple[str, int], list[int]] = {}
    for life, size in rows:
        stack = subject.stacks[int(subject.lives.stack[life])]
        key = (allocation_site(stack), int(subject.categories[life]))
        total = groups.setdefault(key, [0, 0])
        total[0] += size
        total[1] += 1
    found = [
        MemoryCulprit(site, CATEGORIES[category], *total)
        for (site, category), total in groups.items()
    ]
    return sorted(found, key=lambda culprit: -culprit.bytes)


def _named(
    subject: Subject,
    growth: Growth,
    verdict: OomVerdict,
    culprits: list[MemoryCulprit],
    held: HeldBytes,
    site: str,
    asked: int,
) -> tuple[MemoryCulprit, ...]:
    if verdict == "leak":
        named = [
            MemoryCulprit(s.site, "other", s.live_bytes, s.live_allocations) for s in growth.sites
        ]
    elif verdict == "fragmentation":
        named = _by_line(subject, ((p.life, p.inactive) for p in held.pinned))
    elif (
        verdict == "large_allocation" and asked >= max((c.bytes for c in culprits), default=0) // 2
    ):
        named = [MemoryCulprit(site, "requested", asked, 1), *culprits]
    else:
        named = culprits
    return tuple(named[:MAX_CULPRITS])
