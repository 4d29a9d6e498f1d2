"""What a change of the program takes, beside what it would bring."""

from collections.abc import Iterable
from dataclasses import replace

from traceanalyzer.diagnosis.finding import Recommendation
from traceanalyzer.diagnosis.serving.switches import is_flag

ONE_LINE = "one line"
HOURS = "hours"
DAY = "a day"
DAYS = "days"
ORDER = (ONE_LINE, HOURS, DAY, DAYS)
EFFORTS = {
    "cuda_graph": DAY,
    "compile": ONE_LINE,
    "fused_optimizer": ONE_LINE,
    "fuse_elementwise": HOURS,
    "fused_attention": HOURS,
    "fused_rnn": HOURS,
    "batch_calls": DAY,
    "batched_matmul": HOURS,
    "larger_batch": ONE_LINE,
    "remove_syncs": HOURS,
    "move_host_work": HOURS,
    "avoid_allocations": HOURS,
    "preallocate": HOURS,
    "warm_up": ONE_LINE,
    "fixed_shapes": HOURS,
    "data_loader_workers": ONE_LINE,
    "pinned_memory": ONE_LINE,
    "copy_ahead": HOURS,
    "copy_less": HOURS,
    "keep_on_device": HOURS,
    "tf32": ONE_LINE,
    "low_precision": ONE_LINE,
    "channels_last": ONE_LINE,
    "pad_shapes": HOURS,
    "no_recompute": ONE_LINE,
    "freeze_parameters": ONE_LINE,
    "sparse_gradients": HOURS,
    "faster_kernels": DAYS,
    "no_sync_accumulation": HOURS,
    "larger_buckets": ONE_LINE,
    "smaller_buckets": ONE_LINE,
    "compress_gradients": HOURS,
    "overlap_communication": DAY,
    "keep_parameters": ONE_LINE,
    "prefetch_parameters": ONE_LINE,
    "smaller_messages": HOURS,
    "fix_straggler": DAY,
    "remove_graph_breaks": HOURS,
    "expandable_segments": ONE_LINE,
    "chunked_loss": HOURS,
    "accumulate_gradients": HOURS,
    "free_tensors": HOURS,
    "checkpoint": HOURS,
    "mark_dynamic": ONE_LINE,
    "warm_cache": HOURS,
    "fix_compile_error": HOURS,
}
"""By remedy, of somebody who knows the program; where the change still has to be checked for its
effect on training, that is not in it. Advice that takes more or less than its remedy usually does
says so itself (`Words.effort`)."""


EFFORTS_OF_ADVICE = {
    "depthwise-convolutions": DAY,
    "device-copies": HOURS,
    "exposed-copies-less": HOURS,
    "gpus-by-turns": DAYS,
    "launch-latency": HOURS,
    "late-first-token": HOURS,
    "layout-copies": HOURS,
    "managed-memory-loop": HOURS,
    "nccl-few-channels": ONE_LINE,
    "nccl-no-gpudirect": HOURS,
    "nccl-no-p2p": HOURS,
    "nccl-socket": HOURS,
    "odd-channels": HOURS,
    "page-migration": HOURS,
    "slow-input": HOURS,
    "uncoalesced-access": DAY,
    "undersized-kernels": HOURS,
}
"""The same by the id of advice that has no remedy's name."""


def usual_effort(remedy: str | None, action: str, id_: str = "") -> str | None:
    """What advice of a remedy, or of this id, takes as a rule, in a few words; None where it is not
    known."""
    return ONE_LINE if is_flag(action) else EFFORTS.get(remedy or "", EFFORTS_OF_ADVICE.get(id_))


def how_much(advice: Recommendation) -> int:
    """What advice takes, as a place in the order from little to much; the last one where it is not
    known."""
    effort = advice.effort or usual_effort(advice.remedy, advice.action, advice.id)
    return ORDER.index(effort) if effort in ORDER else len(ORDER)


def with_efforts(advice: Iterable[Recommendation]) -> list[Recommendation]:
    """Each recommendation with its effort: what the usual one of its remedy is, where it has none
    of its own."""
    return [
        replace(one, effort=one.effort or usual_effort(one.remedy, one.action, one.id))
        for one in advice
    ]
