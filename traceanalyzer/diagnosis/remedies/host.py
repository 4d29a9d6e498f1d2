"""Remedies for what the host does between launches: waits for the device, allocations, Python, first launches."""

import re

import numpy as np

from traceanalyzer.analysis.algebra import one_of, texts_where
from traceanalyzer.analysis.causes.gaps import only_searches
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.analysis.tables.shape_rows import new_shapes
from traceanalyzer.diagnosis.finding import Words, everywhere
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.remedies.program import may_load, tape_of
from traceanalyzer.diagnosis.remedies.remedy import Offer, remedy, wherever
from traceanalyzer.replay.changes.data.loading import no_allocations, worked_on_device
from traceanalyzer.replay.changes.fusion import Reading
from traceanalyzer.replay.changes.syncs.syncs import is_read, syncs_removed
from traceanalyzer.replay.changes.syncs.values import after_first_read, masks_spread, scalars_reuploaded
from traceanalyzer.replay.changes.warmup import (
    made_on_device,
    no_work_of_its_own,
    nothing_before_copies,
    prepared_before,
    warmed_up,
)
from traceanalyzer.replay.scenarios import Scenario
from traceanalyzer.replay.tape import Tape

NO_SYNCS = Scenario(
    "remove_syncs",
    syncs_removed(Reading.TYPICAL),
    "the host never waits for the GPU but to copy from pageable memory; operators that only read a value are gone, and "
    "so are chains of operators that lead to nothing else; what a mask picks is all there, in one pass, and what a "
    "loop reads item by item is read once; what comes back as a number costs a launch (upper end: all values are still "
    "calculated, masks and loops stay, numbers cost two)",
    optimistic=syncs_removed(Reading.OPTIMISTIC),
    pessimistic=syncs_removed(Reading.PESSIMISTIC),
)
KEEP_VALUES = (
    "Remove the sync: keep values on the GPU (loss.detach()), and call .item(), .cpu() or print every 100 iterations; "
    "replace nonzero() and masks by torch.where; drop synchronize()."
)
READ_TOGETHER = (
    "Read once: values.tolist() for all items, then walk through numbers in Python, without .item(), bool() or .cpu() "
    "for each; keep values that are only logged on the GPU, and drop synchronize()."
)
AS_TENSORS = (
    "Remove the sync: leave on the GPU what goes back to it as a number, as a tensor without dimensions, not .item() "
    "(x.addcmul_(p, share) for x.add_(p, alpha=share)), and test for the end every 25 rounds."
)
OF_MASKS = (
    "Remove the sync: x[mask] and nonzero() read how many values there are; use torch.where or a weighted sum over all "
    "values, or find indices once where the mask stays the same."
)
COALESCE = (
    "Coalesce the sparse matrix once, before the loop (m = m.coalesce()), or keep it in CSR (m.to_sparse_csr()): every "
    "operator on one that is not sorts it, and waits to know how many entries are left."
)
COALESCING = re.compile(r"\bcoalesce\b|_coalesce\b")
READ_LATER = "Remove the sync: queue work without waiting for it (events, asynchronous copies) and read results later."
LEAST_OF_SYNCS = 0.04
"""Calls that wait are host time, too; where the GPU waits for launches alone, they were hardly what held it up."""


@remedy("remove_syncs", "sync", "host-waits", LEAST_OF_SYNCS)
def remove_syncs(m: Measurements) -> Offer | None:
    """Wherever the host waits, except where a library waits to choose its algorithms."""
    return None if m.timed.memo(only_searches) else Offer(Words(instead_of_waits(m), READ_LATER), NO_SYNCS)


def instead_of_waits(m: Measurements) -> str:
    """What to do about most of the waits in PyTorch."""
    idle = sum(row.gpu_idle_ms for row in m.syncs)
    if 2 * sum(row.gpu_idle_ms for row in m.syncs if COALESCING.search(row.op or "")) > idle:
        return COALESCE
    tape = tape_of(m)
    if tape is None:
        return KEEP_VALUES
    if tape.memo(scalars_reuploaded).any():
        return AS_TENSORS
    if tape.memo(after_first_read).any():
        return READ_TOGETHER
    return OF_MASKS if _waits_for_masks(tape) else KEEP_VALUES


def _waits_for_masks(tape: Tape) -> bool:
    """Whether most waits are for how many values a mask picks."""
    spread = tape.memo(masks_spread)
    return spread is not None and 2 * int(is_read(spread).sum()) < int(is_read(tape).sum())


NO_WORK = Scenario(
    "move_host_work",
    no_work_of_its_own,
    "no host work between launches but dispatch, what has a name of its own (allocation, first use, compilation), and "
    "pauses of PyTorch, which are short and few",
)
ELSEWHERE = Words(
    "Take Python work off the launching thread: logging, metrics and I/O on another one or once every 100 iterations; "
    "record with_stack=True to see the lines."
)
BEFORE_COPIES = Scenario(
    "move_host_work",
    nothing_before_copies,
    "the host makes nothing that it then copies to the GPU (lower end: the GPU makes it, and nothing is "
    "copied), and does no other long work of its own between launches",
    optimistic=made_on_device,
)
PREPARE_ELSEWHERE = Words(
    "Move the host's preparation to the GPU: the same in torch on the GPU instead of NumPy or Python, once before "
    "the loop, or in another thread; record with_stack=True to see the lines."
)


def _done_on_device(tape: Tape) -> Tape | None:
    """What the host does with results of the device, and what else it does of its own, is gone from the step."""
    left = worked_on_device(tape)
    return left and (no_work_of_its_own(left) or left)


OF_RESULTS = Scenario(
    "move_host_work",
    _done_on_device,
    "the GPU does what the host does with its results before it copies something back: without these copies, the waits "
    "for them, and other long work of the host between launches; what the GPU takes for it is not recorded (upper end: "
    "the copies stay)",
    pessimistic=no_work_of_its_own,
)
ON_DEVICE = Words(
    "Do on the GPU, in torch, what the host does in NumPy or Python with results copied from it: nothing is copied "
    "there and back or waited for; record with_stack=True to see the lines."
)
LEAST_OF_HOST_WORK = 0.1
"""Pauses of a tenth of a millisecond occur in any eager program: threads that hand over, Python that collects."""


@remedy("move_host_work", "host", "host-work", LEAST_OF_HOST_WORK)
def move_host_work(m: Measurements) -> Offer | None:
    """Where the GPU idles while the host works, on the GPU's results or else, or prepares input without a loader."""
    replay = m.replay
    if replay is not None and replay.gain_ms(OF_RESULTS) > replay.gain_ms(NO_WORK) > 0:
        return Offer(ON_DEVICE, OF_RESULTS)
    if replay is not None and not may_load(m) and replay.gain_ms(BEFORE_COPIES) > replay.gain_ms(NO_WORK):
        return Offer(PREPARE_ELSEWHERE, BEFORE_COPIES, against=("input-wait", "input"))
    return Offer(ELSEWHERE, NO_WORK) if m.step.idle is not None and m.step.idle.host > 0 else None


CONVOLUTION = re.compile(r"convolution|miopen|cudnn", re.IGNORECASE)
MOSTLY = 0.5
NO_ALLOCATIONS = Scenario("avoid_allocations", no_allocations, "no device or pinned memory is allocated or freed")
EXPANDABLE = (
    "Allocate once: no torch.cuda.empty_cache() in the loop; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True where "
    "sizes change."
)
LIBRARY = (
    "Allocate once: keep input shapes fixed, so that cuDNN or MIOpen search and allocate once (AMD: "
    "MIOPEN_FIND_MODE=FAST); no torch.cuda.empty_cache() in the loop."
)
POOL = "Allocate once: a memory pool (cudaMallocAsync), or buffers made before the loop."


@remedy("avoid_allocations", "host", "host-work")
def avoid_allocations(m: Measurements) -> Offer:
    """Wherever memory is allocated or freed within the steps."""
    return Offer(Words(LIBRARY if _by_library(m) else EXPANDABLE, POOL), NO_ALLOCATIONS)


def _by_library(m: Measurements) -> bool:
    """Whether convolutions (cuDNN, MIOpen) make most of the calls' time that allocate or free memory."""
    calls, tree, strings = m.trace.api_calls, m.linked.tree, m.trace.strings
    rows = np.flatnonzero(one_of(m.linked.api_kind, (ApiKind.ALLOCATE, ApiKind.FREE)))
    around = tree.named(texts_where(strings, CONVOLUTION.search))
    inside = tree.innermost(around)[tree.node_of_call[rows]] >= 0
    time = (calls.end - calls.start)[rows]
    return bool(time[inside].sum() > MOSTLY * time.sum())


warm_up = wherever(
    "kernels are loaded while the GPU waits",
    "warm_up",
    "host",
    "host-work",
    everywhere("Warm up: run every input shape once before serving or timing, or set CUDA_MODULE_LOADING=EAGER."),
    Scenario("warm_up", warmed_up, "no device code is loaded or compiled"),
)

PREPARED = "convolution|cudnn"
"""Operators for which cuDNN chooses an algorithm and builds a plan: convolutions, and attention where it is cuDNN's."""
PREPARED_BEFORE = Scenario(
    "fixed_shapes",
    prepared_before(PREPARED),
    "these operators are ready when they are called: no long work of the host in them, nothing tried out",
)
KEEP_SHAPES = Words(
    "Keep shapes: pad or bucket the inputs, generate with a static KV cache; else set "
    "torch.backends.cudnn.benchmark=False and torch.backends.cuda.enable_cudnn_sdp(False)."
)


@remedy("fixed_shapes", "host", "new-shapes")
def fixed_shapes(m: Measurements) -> Offer | None:
    """Where cuDNN's operators get new shapes from step to step."""
    return Offer(KEEP_SHAPES, PREPARED_BEFORE) if new_shapes(m.causes, PREPARED) is not None else None
