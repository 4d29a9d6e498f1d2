"""Remedies for communication: fewer and shorter messages, and messages while the GPU computes."""

from dataclasses import replace

from traceanalyzer.analysis.names.collectives import WIDE
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.remedies.program import (
    LEAST_OF_MESSAGES,
    USUAL_BUCKET_BYTES,
    by_links_ms,
    median_bucket,
    program,
    reduced_by_hooks,
    tape_of,
    waiting_share,
)
from traceanalyzer.diagnosis.remedies.remedy import Offer, remedy, scenario_of, text, words
from traceanalyzer.replay.changes.communication.buckets import (
    BucketSize,
    cost_of,
    rebucketed,
    reduced_bytes,
)
from traceanalyzer.replay.changes.communication.collectives import (
    MOST_OVERLAP_COST,
    OVERLAP_COST,
    accumulated_without_sync,
    compressed,
    overlapped,
    overlapped_by_halves,
    parameters_kept,
    prefetched,
    wide_sums,
)
from traceanalyzer.replay.changes.communication.collectives import smaller_messages as shrunk
from traceanalyzer.replay.scenario import AS_RECORDED

ACCUMULATED = scenario_of("no_sync_accumulation", accumulated_without_sync)
LARGER = scenario_of(
    "larger_buckets",
    rebucketed(BucketSize(bytes=USUAL_BUCKET_BYTES)),
    may_cost=True,
    baseline=AS_RECORDED,
)
OVERLAPPED = scenario_of(
    "overlap_communication",
    overlapped(OVERLAP_COST),
    "assumes_overlapped",
    optimistic=overlapped(0.0),
    pessimistic=overlapped(MOST_OVERLAP_COST),
)
SMALLER = replace(OVERLAPPED, id="smaller_buckets", basis=text("smaller_buckets", "assumes"))
LARGE_BUCKETS = 2  # buckets of more than so many times the usual size were asked for
COMPRESSED = scenario_of("compress_gradients", compressed)
BY_HALVES = scenario_of(
    "overlap_communication",
    overlapped_by_halves(OVERLAP_COST),
    "assumes_by_halves",
    optimistic=overlapped_by_halves(0.0),
    pessimistic=overlapped_by_halves(MOST_OVERLAP_COST),
)
LEAST_BY_HALVES = 0.08  # share of the step that it must save: the model has to be rewritten for it
PARAMETERS_KEPT = scenario_of("keep_parameters", parameters_kept)
PREFETCHED = scenario_of("prefetch_parameters", prefetched)
SHRUNK = scenario_of("smaller_messages", shrunk(0.5, 1.0), optimistic=shrunk(0.25, 0.5))


@remedy("no_sync_accumulation", "communication")
def no_sync_accumulation(m: Measurements) -> Offer:
    """Wherever the same bytes are reduced with each of several backward passes of a step."""
    return Offer(
        words("no_sync_accumulation", "accelerate" if program(m).accelerate else "plain"),
        ACCUMULATED,
    )


@remedy("larger_buckets", "communication", LEAST_OF_MESSAGES)
def larger_buckets(m: Measurements) -> Offer | None:
    """Where gradients are reduced in buckets that are smaller than DDP's usual ones, or each by
    itself."""
    how = words("larger_buckets", "cap_larger" if program(m).ddp else "wrap")
    return Offer(how, LARGER) if small_buckets(m) else None


def small_buckets(m: Measurements) -> bool:
    """Whether gradients are reduced in buckets that are smaller than DDP's usual ones."""
    size = median_bucket(m)
    return size is not None and size < USUAL_BUCKET_BYTES and reduced_by_hooks(m)


def bucket_size_unknown(m: Measurements) -> bool:
    """Whether buckets are small, and nothing tells how much of their time is latency."""
    tape = tape_of(m)
    return tape is not None and small_buckets(m) and cost_of(tape, reduced_bytes(tape)) is None


@remedy("smaller_buckets", "communication", LEAST_OF_MESSAGES)
def smaller_buckets(m: Measurements) -> Offer | None:
    """Where DDP's buckets are larger than usual, so that they fill up late."""
    size = median_bucket(m)
    large = size is not None and size > LARGE_BUCKETS * USUAL_BUCKET_BYTES
    return Offer(words("smaller_buckets"), SMALLER) if program(m).ddp and large else None


@remedy("compress_gradients", "communication", LEAST_OF_MESSAGES)
def compress_gradients(m: Measurements) -> Offer | None:
    """Where DDP reduces gradients of 32 bits, unless all of that may be waiting for other ranks."""
    wide = any(row.dtype in WIDE for row in m.collectives)
    untold = waiting_share(m) is None and by_links_ms(m) is not None
    return (
        Offer(words("compress_gradients"), COMPRESSED)
        if program(m).ddp and wide and not untold
        else None
    )


@remedy("overlap_communication", "communication", LEAST_OF_MESSAGES)
def overlap_communication(m: Measurements) -> Offer | None:
    """Where gradients are reduced after the backward pass, and smaller buckets would not help; or
    where the layers of a model that is spread over GPUs wait for what they exchange."""
    known = program(m)
    replay = m.replay
    if smaller_buckets.offer(m) is not None or replay is None:
        return None
    if (
        not (known.ddp or known.fsdp)
        and replay.gain_ms(BY_HALVES) >= LEAST_BY_HALVES * replay.base_ms
    ):
        return Offer(words("overlap_communication", "in_halves"), BY_HALVES)
    return Offer(
        words("overlap_communication", "as_they_come" if known.ddp else "with_ddp"), OVERLAPPED
    )


@remedy("keep_parameters", "communication", LEAST_OF_MESSAGES)
def keep_parameters(m: Measurements) -> Offer | None:
    """Where parameters are sharded and gathered again for the backward pass."""
    return Offer(words("keep_parameters"), PARAMETERS_KEPT) if program(m).fsdp else None


@remedy("prefetch_parameters", "communication", LEAST_OF_MESSAGES)
def prefetch_parameters(m: Measurements) -> Offer | None:
    """Where parameters are sharded."""
    return Offer(words("prefetch_parameters"), PREFETCHED) if program(m).fsdp else None


@remedy("smaller_messages", "communication")
def smaller_messages(m: Measurements) -> Offer | None:
    """Wherever all ranks exchange messages, or add up results in more bits than they were computed
    in."""
    tape = tape_of(m)
    if tape is None:
        return None
    return Offer(
        words("smaller_messages", "sum_less" if tape.memo(wide_sums).any() else "exchange_less"),
        SHRUNK,
    )
