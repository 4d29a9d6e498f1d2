"""Remedies for communication: fewer and shorter messages, and messages while the GPU computes."""

from dataclasses import replace

from traceanalyzer.analysis.names.collectives import WIDE
from traceanalyzer.diagnosis.finding import Words, everywhere
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
from traceanalyzer.diagnosis.remedies.remedy import Offer, remedy
from traceanalyzer.replay.changes.communication.buckets import BucketSize, cost_of, rebucketed, reduced_bytes
from traceanalyzer.replay.changes.communication.collectives import (
    MOST_OVERLAP_COST,
    OVERLAP_COST,
    accumulated_without_sync,
    compressed,
    overlapped,
    overlapped_by_halves,
    wide_sums,
)
from traceanalyzer.replay.changes.communication.collectives import smaller_messages as shrunk
from traceanalyzer.replay.changes.communication.gathers import parameters_kept, prefetched
from traceanalyzer.replay.limits import OF_MOVES
from traceanalyzer.replay.scenarios import Scenario

EXPOSED = "exposed-communication"
ACCUMULATED = Scenario(
    "no_sync_accumulation",
    accumulated_without_sync,
    "gradients are reduced with the last backward pass of a step alone; computation beside the others is not slowed",
    spread=OF_MOVES,
)
PLAIN = Words(
    "Reduce once per optimizer step: with model.no_sync(): around all but the last backward (FSDP2: "
    "set_requires_gradient_sync(False))."
)
ACCELERATE = Words(
    "Reduce once per optimizer step: with accelerator.accumulate(model):, and "
    "Accelerator(gradient_accumulation_steps=N)."
)


@remedy("no_sync_accumulation", "communication", EXPOSED)
def no_sync_accumulation(m: Measurements) -> Offer:
    """Wherever the same bytes are reduced with each of several backward passes of a step."""
    return Offer(ACCELERATE if program(m).accelerate else PLAIN, ACCUMULATED)


LARGER = Scenario(
    "larger_buckets",
    rebucketed(BucketSize(bytes=USUAL_BUCKET_BYTES), at_recorded_rate=True),
    "gradients are reduced in messages of 25 MB, which the host launches once each; what one takes is fitted to those "
    "recorded, else as fast as the fastest of them",
    may_cost=True,
    baseline=rebucketed(None, at_recorded_rate=True),
    spread=OF_MOVES,
)
CAP_LARGER = everywhere("Reduce larger buckets: DistributedDataParallel(..., bucket_cap_mb=25) or more.")
WRAP = everywhere(
    "Reduce larger buckets: wrap the model in DistributedDataParallel instead of a hook that reduces each gradient."
)


@remedy("larger_buckets", "communication", EXPOSED, LEAST_OF_MESSAGES)
def larger_buckets(m: Measurements) -> Offer | None:
    """Where gradients are reduced in buckets that are smaller than DDP's usual ones, or each by itself."""
    return Offer(CAP_LARGER if program(m).ddp else WRAP, LARGER) if small_buckets(m) else None


def small_buckets(m: Measurements) -> bool:
    """Whether gradients are reduced in buckets that are smaller than DDP's usual ones."""
    size = median_bucket(m)
    return size is not None and size < USUAL_BUCKET_BYTES and reduced_by_hooks(m)


def untold_buckets(m: Measurements) -> bool:
    """Whether buckets are small, and nothing tells how much of their time is latency."""
    tape = tape_of(m)
    return tape is not None and small_buckets(m) and cost_of(tape, reduced_bytes(tape)) is None


OVERLAPPED = Scenario(
    "overlap_communication",
    overlapped(OVERLAP_COST),
    "reductions run beside the backward pass, which they slow by half of their time, and the last bucket stays behind "
    "it (lower end: they slow nothing; upper end: by three quarters of it)",
    optimistic=overlapped(0.0),
    pessimistic=overlapped(MOST_OVERLAP_COST),
    spread=OF_MOVES,
)
SMALLER = replace(
    OVERLAPPED,
    id="smaller_buckets",
    basis="gradients are reduced in messages of 25 MB beside the backward pass, which they slow by half of their time; "
    "the last one stays behind it (lower end: they slow nothing; upper end: by three quarters of it)",
)
CAP_SMALLER = everywhere("Reduce smaller buckets: DistributedDataParallel(..., bucket_cap_mb=25).")
LARGE_BUCKETS = 2
"""Buckets of more than so many times the usual size were asked for."""


@remedy("smaller_buckets", "communication", EXPOSED, LEAST_OF_MESSAGES)
def smaller_buckets(m: Measurements) -> Offer | None:
    """Where DDP's buckets are larger than usual, so that they fill up late."""
    size = median_bucket(m)
    large = size is not None and size > LARGE_BUCKETS * USUAL_BUCKET_BYTES
    return Offer(CAP_SMALLER, SMALLER) if program(m).ddp and large else None


COMPRESSED = Scenario(
    "compress_gradients",
    compressed,
    "gradients are reduced in half as many bytes, and cast before and after that",
    spread=OF_MOVES,
)
COMPRESS = everywhere(
    "Reduce gradients in bf16: model.register_comm_hook(dist.group.WORLD, default_hooks.bf16_compress_hook)."
)


@remedy("compress_gradients", "communication", EXPOSED, LEAST_OF_MESSAGES)
def compress_gradients(m: Measurements) -> Offer | None:
    """Where DDP reduces gradients of 32 bits, unless all of that may be waiting for other ranks."""
    wide = any(row.dtype in WIDE for row in m.collectives)
    untold = waiting_share(m) is None and by_links_ms(m) is not None
    return Offer(COMPRESS, COMPRESSED) if program(m).ddp and wide and not untold else None


BY_HALVES = Scenario(
    "overlap_communication",
    overlapped_by_halves(OVERLAP_COST),
    "the layers work on two halves of the batch in turn, so that the collectives of one run while the other computes, "
    "slower by half of their time; the host launches twice as much (lower end: they slow nothing; upper end: by three "
    "quarters of it)",
    optimistic=overlapped_by_halves(0.0),
    pessimistic=overlapped_by_halves(MOST_OVERLAP_COST),
    spread=OF_MOVES,
)
IN_HALVES = everywhere(
    "Overlap communication: run two halves of the batch in turn, dist.all_reduce(..., async_op=True) for one while "
    "the other computes, and wait() before its next layer."
)
WITH_BACKWARD = "Overlap the reduction of gradients with the backward pass: "
AS_THEY_COME = f"{WITH_BACKWARD}reduce them as they come."
WITH_DDP = Words(f"{WITH_BACKWARD}wrap the model in DistributedDataParallel.", AS_THEY_COME)
LEAST_BY_HALVES = 0.08
"""Share of the step that it must save: the model has to be rewritten for it."""


@remedy("overlap_communication", "communication", EXPOSED, LEAST_OF_MESSAGES)
def overlap_communication(m: Measurements) -> Offer | None:
    """Where gradients are reduced after the backward pass, and smaller buckets would not help; or where the
    layers of a model that is spread over GPUs wait for what they exchange."""
    known, replay = program(m), m.replay
    if smaller_buckets.offer(m) is not None or replay is None:
        return None
    if not (known.ddp or known.fsdp) and replay.gain_ms(BY_HALVES) >= LEAST_BY_HALVES * replay.base_ms:
        return Offer(IN_HALVES, BY_HALVES)
    return Offer(everywhere(AS_THEY_COME) if known.ddp else WITH_DDP, OVERLAPPED)


PARAMETERS_KEPT = Scenario(
    "keep_parameters",
    parameters_kept,
    "parameters are gathered once a step, for the forward pass; what the host does for the other gathers is not done",
    spread=OF_MOVES,
)
KEEP = Words("Keep gathered parameters: fully_shard(..., reshard_after_forward=False) (FSDP1: SHARD_GRAD_OP).")


@remedy("keep_parameters", "communication", EXPOSED, LEAST_OF_MESSAGES)
def keep_parameters(m: Measurements) -> Offer | None:
    """Where parameters are sharded and gathered again for the backward pass."""
    return Offer(KEEP, PARAMETERS_KEPT) if program(m).fsdp else None


PREFETCHED = Scenario(
    "prefetch_parameters",
    prefetched,
    "parameters are gathered one layer ahead, on a stream of their own",
    spread=OF_MOVES,
)
PREFETCH = Words(
    "Gather parameters earlier: module.set_modules_to_forward_prefetch([...]) (FSDP1: forward_prefetch=True, "
    "backward_prefetch=BACKWARD_PRE)."
)


@remedy("prefetch_parameters", "communication", EXPOSED, LEAST_OF_MESSAGES)
def prefetch_parameters(m: Measurements) -> Offer | None:
    """Where parameters are sharded."""
    return Offer(PREFETCH, PREFETCHED) if program(m).fsdp else None


SHRUNK = Scenario(
    "smaller_messages",
    shrunk(0.5, 1.0),
    "exchanges between all ranks, and sums of fp32 results of 16-bit products, move half as many bytes (lower end: "
    "exchanges a quarter, and what computes on them between two has half as much to do, as with half the capacity of "
    "experts)",
    optimistic=shrunk(0.25, 0.5),
    spread=OF_MOVES,
)
EXCHANGE_LESS = everywhere("Exchange fewer bytes: a lower expert capacity factor, or bf16 or fp8 messages.")
SUM_LESS = everywhere("Add up in bf16 over the ranks what the layers compute in bf16: no .float() before all_reduce.")


@remedy("smaller_messages", "communication", EXPOSED)
def smaller_messages(m: Measurements) -> Offer | None:
    """Wherever all ranks exchange messages, or add up results in more bits than they were computed in."""
    tape = tape_of(m)
    return None if tape is None else Offer(SUM_LESS if tape.memo(wide_sums).any() else EXCHANGE_LESS, SHRUNK)
