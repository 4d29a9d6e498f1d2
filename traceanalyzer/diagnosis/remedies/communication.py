"""Communication, one remedy each: fewer, earlier, smaller or larger messages, and ranks that wait for nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.buckets import BucketSize, rebucketed
from traceanalyzer.analysis.replay.collectives import (
    OVERLAP_COST,
    accumulated_without_sync,
    compressed,
    halved_messages,
    overlapped,
    parameters_kept,
    prefetched,
)
from traceanalyzer.analysis.replay.scenarios import Scenario, lower_median, nobody_waited_for
from traceanalyzer.diagnosis.remedies.program import program
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

ACCUMULATED = Scenario(
    "no_sync_accumulation",
    accumulated_without_sync,
    "gradients are reduced with the last backward pass of a step alone; computation beside the others is not slowed",
    missing="no gradients are reduced several times a step",
)
LARGER = Scenario(
    "larger_buckets",
    rebucketed(BucketSize(bytes=25 * 2**20)),
    "gradients are reduced in messages of 25 MB; what one takes is fitted to those recorded",
    missing="sizes and times of the collectives do not tell",
    may_cost=True,
)
SMALLER = Scenario(
    "smaller_buckets",
    overlapped(OVERLAP_COST),
    "gradients are reduced in messages of 25 MB beside the backward pass, which they slow by half of their time; the "
    "last one stays behind it (lower end: they slow nothing; upper end: by all of their time)",
    hopeful=overlapped(0.0),
    cautious=overlapped(1.0),
    missing="no reductions begin after the backward pass",
)
COMPRESSED = Scenario(
    "compress_gradients", compressed, "gradients are reduced in half as many bytes", missing="nothing is reduced"
)
OVERLAPPED = Scenario(
    "overlap_communication",
    overlapped(OVERLAP_COST),
    "reductions run beside the backward pass, which they slow by half of their time, and the last bucket stays behind "
    "it (lower end: they slow nothing; upper end: by all of their time)",
    hopeful=overlapped(0.0),
    cautious=overlapped(1.0),
    missing="no reductions begin after the backward pass",
)
KEPT = Scenario(
    "keep_parameters",
    parameters_kept,
    "parameters are gathered once a step, for the forward pass",
    missing="no parameters are gathered twice a step",
)
PREFETCHED = Scenario(
    "prefetch_parameters",
    prefetched,
    "parameters are gathered one layer ahead, on a stream of their own",
    missing="no parameters are gathered",
)
HALVED = Scenario(
    "smaller_messages", halved_messages, "exchanges between all ranks move half as many bytes", missing="none recorded"
)
EVEN = Scenario(
    "fix_straggler",
    nobody_waited_for,
    "every rank takes as long as the middle one, and collectives only transfer",
    missing="it takes the recordings of several ranks that share collectives",
    step_of_run=lower_median,
)
MIN_WAIT_SHARE = 0.05
"""Share of the step that a rank must wait for another before that one is said to hold up the run."""
BUCKET_BYTES = 25 * 2**20
"""DDP's usual bucket."""
LARGE_BUCKETS = 2
"""Buckets of more than so many times the usual size were asked for."""


def _accumulated(m: Measurements) -> Offer:
    """Where the same bytes are reduced with each of several backward passes of a step."""
    known = program(m)
    how = "with model.no_sync(): around all but the last backward (FSDP2: set_requires_gradient_sync(False))"
    if known.accelerate:
        how = "with accelerator.accumulate(model):, gradient_accumulation_steps=N"
    return Offer(f"Reduce once per optimizer step: {how}.", ACCUMULATED)


def _median_bucket(m: Measurements) -> float | None:
    """Median bytes of the reductions of gradients; None without any."""
    sizes = sorted(row.message_bytes for row in m.collectives if row.message_bytes and row.collective == "all_reduce")
    return float(sizes[len(sizes) // 2]) if sizes else None


def _larger(m: Measurements) -> Offer | None:
    """Where DDP's buckets are smaller than usual."""
    size = _median_bucket(m)
    if not program(m).ddp or size is None or size >= BUCKET_BYTES:
        return None
    return Offer("Reduce larger buckets: DistributedDataParallel(..., bucket_cap_mb=25) or more.", LARGER)


def _smaller(m: Measurements) -> Offer | None:
    """Where DDP's buckets are larger than usual, so that they start late."""
    size = _median_bucket(m)
    if not program(m).ddp or size is None or size <= LARGE_BUCKETS * BUCKET_BYTES:
        return None
    return Offer("Reduce smaller buckets: DistributedDataParallel(..., bucket_cap_mb=25).", SMALLER)


def _compressed(m: Measurements) -> Offer | None:
    """Where DDP reduces gradients of fp32."""
    if not program(m).ddp or not any(row.dtype in ("Float", "float32", "float") for row in m.collectives):
        return None
    how = "model.register_comm_hook(None, default_hooks.bf16_compress_hook)"
    return Offer(f"Reduce gradients in bf16: {how}.", COMPRESSED)


def _overlapped(m: Measurements) -> Offer | None:
    """Where gradients are reduced after the backward pass, and no smaller bucket would change that."""
    known = program(m)
    if _smaller(m) is not None:
        return None
    how = "wrap the model in DistributedDataParallel" if known.pytorch and not known.ddp else "reduce as they come"
    return Offer(f"Overlap the reduction with the backward pass: {how}.", OVERLAPPED)


def _kept(m: Measurements) -> Offer | None:
    """Where parameters are sharded and gathered again for the backward pass."""
    how = "fully_shard(..., reshard_after_forward=False) (FSDP1: ShardingStrategy.SHARD_GRAD_OP)"
    return Offer(f"Keep gathered parameters: {how}.", KEPT) if program(m).fsdp else None


def _prefetched(m: Measurements) -> Offer | None:
    """Where parameters are sharded, and computation waits for them."""
    how = "set_modules_to_forward_prefetch, backward_prefetch=BACKWARD_PRE, limit_all_gathers=False"
    return Offer(f"Gather parameters earlier: {how}.", PREFETCHED) if program(m).fsdp else None


def _halved(m: Measurements) -> Offer | None:
    """Where all ranks exchange messages."""
    if not any(row.collective == "all_to_all" for row in m.collectives):
        return None
    return Offer("Exchange fewer bytes: a lower expert capacity, bf16 or fp8 messages.", HALVED)


def _even(m: Measurements) -> Offer | None:
    """Where one rank is late at the collectives, and others wait."""
    ranks = m.ranks
    if ranks is None or len(ranks.rows) < 2 or not ranks.rows[ranks.critical].straggler:
        return None
    slow = ranks.rows[ranks.critical]
    others = [row for row in ranks.rows if row.rank != slow.rank]
    waited = max((row.waiting_ms or 0.0 for row in others), default=0.0)
    if waited < MIN_WAIT_SHARE * m.mean_step_ms:
        return None
    longer = slow.compute_ms - sum(row.compute_ms for row in others) / len(others)
    if longer > MIN_WAIT_SHARE * m.mean_step_ms:
        how = f"its kernels take {longer:.3g} ms more: even out batches, stages or experts; check its clocks"
    else:
        how = "its host is late: see its idle gaps (traceanalyzer gaps --rank)"
    return Offer(f"Fix rank {slow.rank}: {how}.", EVEN)


NO_SYNC_ACCUMULATION = Remedy("no_sync_accumulation", "communication", "exposed-communication", _accumulated)
LARGER_BUCKETS = Remedy("larger_buckets", "communication", "exposed-communication", _larger)
SMALLER_BUCKETS = Remedy("smaller_buckets", "communication", "exposed-communication", _smaller)
COMPRESS_GRADIENTS = Remedy("compress_gradients", "communication", "exposed-communication", _compressed)
OVERLAP_COMMUNICATION = Remedy("overlap_communication", "communication", "exposed-communication", _overlapped)
KEEP_PARAMETERS = Remedy("keep_parameters", "communication", "exposed-communication", _kept)
PREFETCH_PARAMETERS = Remedy("prefetch_parameters", "communication", "exposed-communication", _prefetched)
SMALLER_MESSAGES = Remedy("smaller_messages", "communication", "exposed-communication", _halved)
FIX_STRAGGLER = Remedy("fix_straggler", "communication", "straggler", _even)
