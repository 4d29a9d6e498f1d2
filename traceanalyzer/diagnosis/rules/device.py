"""Findings on passes over memory that could be fewer, slow matrix products, and what the device is
busy with."""

from collections.abc import Iterator
from dataclasses import replace

from traceanalyzer.analysis.groups import bounds, passes, products
from traceanalyzer.analysis.groups.bounds import undersized_kernels
from traceanalyzer.analysis.groups.depthwise import depthwise_convolutions
from traceanalyzer.analysis.groups.ops import (
    TOP_KERNELS,
    duration,
    group,
    of_class,
    per_step,
    steady,
)
from traceanalyzer.analysis.groups.products import TENSOR_EFFICIENCY
from traceanalyzer.analysis.names.kernel_names import MAX_LENGTH, function_name
from traceanalyzer.base import digits
from traceanalyzer.base.figures import cut
from traceanalyzer.diagnosis.draft import Draft, Proposal, finding, share, times
from traceanalyzer.diagnosis.finding import GPU_BUSY, BottleneckClass, Evidence, Words, same_for_all
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.pages import said
from traceanalyzer.diagnosis.remedies.program import program
from traceanalyzer.diagnosis.remedies.remedy import words
from traceanalyzer.diagnosis.shares import device_class, step_shares
from traceanalyzer.replay.changes.precision import wide_matrices
from traceanalyzer.replay.patterns import small_products as patterns
from traceanalyzer.trace import Bool
from traceanalyzer.trace.hardware import WARP

SHAPES = 3  # shapes named in the evidence
FUSED_PASS_RATIO = 7 / 4
"""A fused Adam step touches 7 tensors (parameter, gradient, two moments; three are written back), a
single foreach operator at most 4: fused, the step takes at least this many times its longest
operator."""
UNDERSIZED = "undersized-kernels"
NARROW = "Blocks smaller than a warp: most lanes of the GPU do nothing"
LONGEST_NAME = 40  # characters of a kernel in advice; of a longer one its function's name
NEARLY_ALL = 0.99  # something is left of the work, however fast
UNREACHED = 0.35
"""Share of their time by which even good kernels stay above the roofline: large products reach 0.71
to 0.79 of it."""
FOR_THEMSELVES = ("embedding", "sort", "pooling", "random", "fft")
"""Classes of kernels that are an operator each, for which a program has no other."""
MOSTLY_OWN = 0.5  # share of their time from which PyTorch's own kernels are what makes them slow
MOSTLY_BUSY = 0.5  # share of the step from which its kernels are what makes it long
MIN_BUSY_SHARE = 0.25
"""A GPU that computes less than this much of the step has no kernels worth looking at first."""

CHEAPER = (
    "Speed up the kernels furthest from their roofline: fused operators, other shapes or "
    "layouts{precision}."
)
LIMITED = (
    "Make the top kernels cheaper: lower precision, fusion, better shapes; Nsight Compute "
    "(ncu) says what limits each."
)
LIMITED_IN_JAX = (
    "Make the top kernels cheaper: bfloat16, shapes that fill the tensor cores, a fused kernel (Pallas, cuDNN); "
    "Nsight Compute (ncu) says what limits each."
)


def undersized(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Long kernels with too few threads to fill the GPU, or in blocks of fewer threads than a
    warp."""
    small = m.rated.memo(undersized_kernels)
    if small is None:
        return
    held = f" of {small.resident:,.0f} that the GPU holds" if small.resident else ""
    what = (
        "kernels in blocks smaller than a warp"
        if small.is_narrow
        else "kernels too small for the GPU"
    )
    evidence = [share(m, small.kernels.total_ms, what)]
    if not small.is_narrow:
        where = f"of a launch{held}, mean over their time"
        evidence.append(Evidence("threads", small.threads, "", where))
    if small.narrow_share:
        where = f"in blocks of {digits(small.narrow_threads)} threads: a warp runs {WARP} together"
        evidence.append(Evidence("of their time", small.narrow_share, "share", where))
    evidence += times(small.kernels.top)
    basis = "no estimate: at most what they take, if their work can be spread over the whole GPU"
    which = "narrow" if small.is_narrow else "words"
    words = said(UNDERSIZED, which, kernels=_named(small.kernels.top))
    claim = min(small.lost_ms, NEARLY_ALL * small.kernels.total_ms)
    spread = Proposal(words, basis, bound=True)
    draft = finding(UNDERSIZED, "compute", claim, evidence, [spread], small.kernels.rows, words)
    yield replace(draft, title=NARROW) if small.is_narrow else draft


def _named(top: list[tuple[str, float]]) -> str:
    """Kernels by the longest of them."""
    full, _ = top[0]
    name = full if len(full) <= LONGEST_NAME else cut(function_name(full), MAX_LENGTH)
    return f"{name} and others like it" if len(top) > 1 else name


def optimizer_passes(m: Measurements, free: Bool) -> Iterator[Draft]:
    """An optimizer step written as many passes over its state."""
    found = passes.find_optimizer_passes(m.rated, free)
    if found is None:
        return
    total = found.kernels.total_ms
    rows = found.kernels.rows
    evidence = [
        share(m, total, "optimizer kernels that are not fused"),
        Evidence("different passes", found.names, "", "kernels by name"),
        Evidence("longest pass", found.longest_ms, "ms", found.longest),
    ]
    basis = "a fused update takes at least 7/4 of the longest pass (tensors touched: 7 against 4)"
    claim = max(total - FUSED_PASS_RATIO * found.longest_ms, 0.0)
    name = "fused_optimizer"
    yield finding(
        "optimizer-not-fused", "compute", claim, evidence, rows=rows, basis=basis, name=name
    )


def memory_chains(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Runs of memory-bound kernels one after the other, which one kernel could do in a single
    pass."""
    chains = passes.chains(m.rated, free)
    if chains is None:
        return
    total = chains.kernels.total_ms
    rows = chains.kernels.rows
    evidence = [
        share(m, total, "runs of memory-bound kernels"),
        Evidence(
            f"runs {m.timed.steps.per}", chains.runs_per_step, "", f"of at least {passes.MIN_CHAIN}"
        ),
        Evidence("kernels per run", chains.kernels_per_run, "", "mean"),
    ]
    if chains.bytes_saved is not None:
        where = f"{m.timed.steps.per}, each run moving as much as its kernel with the most"
        evidence.append(Evidence("traffic saved", chains.bytes_saved, "bytes", where))
    evidence += times(chains.kernels.top)
    claim = total - chains.longest_ms
    basis = (
        "each run taking as long as its longest kernel; kernels that work on different data "
        "save less"
    )
    yield finding(
        "memory-chains", "compute", claim, evidence, rows=rows, basis=basis, name="fuse_elementwise"
    )


def plain_compute(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Where the device is the bottleneck: what it spends its time on. What its kernels take beyond
    their roofline is what there is to win at most; all that they take, where no roofline bounds
    it."""
    shares = m.memo(step_shares)
    if shares is None or m.step.budget is None or shares.device < MIN_BUSY_SHARE:
        return
    cls: BottleneckClass = device_class(m, shares) if shares.limit_known else "inconclusive"
    evidence = [
        share(m, m.step.budget.compute, "the GPU computes"),
        *_classes(m),
        *times(group(m.timed, steady(m.timed) & m.linked.is_compute).top),
        *_at_the_roofline(m),
    ]
    action = CHEAPER.format(precision=", lower precision" if wide_matrices(m.rated).any() else "")
    basis = "no estimate: few kernels reach their roofline"
    faster = Proposal(same_for_all(action), basis, bound=True, name="faster_kernels")
    above = bounds.above_limits_ms(m.rated, free)
    proposals = [faster] if _could_be_faster(m) and not shares.mostly_small else []
    claim = m.step.budget.compute * NEARLY_ALL if above is None else above
    words = Words(action, LIMITED, LIMITED_IN_JAX)
    yield Draft(
        GPU_BUSY,
        cls,
        "GPU compute time by kernel",
        "compute",
        claim,
        evidence,
        proposals,
        words=words,
    )


def _classes(m: Measurements) -> Iterator[Evidence]:
    classes = [row for row in m.class_rows if _computes(m, row.cls)]
    total = sum(row.total_ms for row in classes)
    for row in classes[:TOP_KERNELS] if total else ():
        yield Evidence("share of compute time", row.total_ms / total, "share", row.title)


def _could_be_faster(m: Measurements) -> bool:
    """Whether faster kernels are to be had by another program and shorten the step: not where the
    GPU mostly waits, nearly all are as fast as kernels get, CUDA graphs hide what they work on, or
    what is slow has been left by a compiler, is a library's product or attention in 16 bits, or an
    operator that stands for itself."""
    known = program(m)
    if (
        m.step.budget is None
        or m.step.budget.compute < MOSTLY_BUSY * m.step.step_ms
        or known.compiled
    ):
        return False
    slow = (~m.linked.is_matrix | wide_matrices(m.rated)) & ~of_class(m.joined, *FOR_THEMSELVES)
    above = bounds.above_limits_ms(m.rated, slow)
    if above is None and known.in_graphs:
        return False
    if above is None:  # nothing says how fast kernels are
        rows = steady(m.timed) & m.linked.is_compute & slow
        above = per_step(m.timed, duration(m.linked)[rows])
    return above >= UNREACHED * m.step.budget.compute


def _computes(m: Measurements, cls: str) -> bool:
    """Whether work of a class is computation: neither communication nor a copy."""
    return cls != "memcpy" and not m.linked.classes.is_communication[m.linked.classes.index(cls)]


def _at_the_roofline(m: Measurements) -> Iterator[Evidence]:
    """What the roofline leaves of the computation, and the kernels furthest above it."""
    step = m.roofline_step
    if step is None or step.ideal_ms is None:
        return
    where = (
        f"of the computation at the roofline of {step.gpu}; the headroom leaves out what other "
        "findings count of the rest"
    )
    yield Evidence("ideal time", step.ideal_ms, "ms", where)
    if step.reachable_ms is not None:
        yield Evidence(
            "reachable time",
            step.reachable_ms,
            "ms",
            "the same at the rates measured on the machine",
        )
    kernels = [row for row in m.kernels if _computes(m, row.cls) and row.headroom_ms]
    for row in sorted(kernels, key=lambda k: -(k.headroom_ms or 0.0))[:TOP_KERNELS]:
        yield Evidence(
            "above the roofline", row.headroom_ms, "ms", f"{row.name} ({row.bound_by}-bound)"
        )


def above_roofline(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Kernels faster than their roofline: their data was in a cache, or their model does not
    fit."""
    above = bounds.kernels_above_roofline(m.rated)
    if above is None:
        return
    cached = "their data fits the last cache, written just before"
    unexplained = (
        "their data does not fit the cache whole: part of it was still there, an operand was passed twice, or the "
        "algorithm needs less than its model (Winograd, sparse or masked work)"
    )
    evidence = [
        Evidence(
            "kernels", ", ".join(above.kernels), "", "with the most time above their roofline"
        ),
        Evidence("share of device time", above.share, "share", "above the roofline"),
        Evidence("highest", above.highest, "", "least time over recorded time"),
        Evidence("of it from cache", above.cached_share, "share", cached),
        Evidence("of it unexplained", above.unexplained_share, "share", unexplained),
    ]
    yield finding("above-roofline", "none", None, evidence)


def fp32_matmul(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Matrix products in fp32 on the ordinary cores; what TF32 would give is computed, bf16 is
    named beside it."""
    matmuls = products.fp32_matrix_products(m.rated, free)
    if matmuls is None:
        return
    total = matmuls.kernels.total_ms
    at = matmuls.at_ms
    rows = matmuls.kernels.rows
    evidence = [
        share(m, total, "matmuls in full fp32, without tensor cores"),
        *times(matmuls.kernels.top),
    ]
    evidence += [
        Evidence(f"time in {name}", t, "ms", "at the rate tensor cores reach")
        for name, t in at.items()
    ]
    basis = (
        f"the products at {TENSOR_EFFICIENCY:.0%} of the dense {next(iter(at), 'tensor-core')} peak"
    )
    if matmuls.unknown:
        basis += "; where sizes were not recorded, the ordinary cores were at their peak before"
    if not at:
        basis = "the gain depends on the GPU's tensor-core rate, which is not known"
    claim = max(total - at["tf32"], 0.0) if "tf32" in at else None
    yield finding("fp32-matmul", "compute", claim, evidence, rows=rows, basis=basis, name="tf32")


def misaligned(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Matrix products whose sizes are not multiples of 16 bytes, and that are slow."""
    found = products.odd_products(m.rated, free)
    if found is None:
        return
    evidence = [
        share(m, found.kernels.total_ms, "products with sizes that are not multiples of 16 bytes")
    ]
    evidence += [Evidence("shape", shape, "", "of an operand") for shape in found.shapes[:SHAPES]]
    basis = f"these products at {TENSOR_EFFICIENCY:.0%} of their roofline, as aligned ones reach"
    remedy = Proposal(said("misaligned-matmul"), basis, name="pad_shapes")
    yield finding(
        "misaligned-matmul", "compute", found.saved_ms, evidence, [remedy], found.kernels.rows
    )


def odd_channels(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Convolutions whose channel counts are not multiples of 16 bytes. What aligned ones would take
    is not known: the library may pad them itself."""
    convolutions = products.odd_convolutions(m.rated, free)
    if convolutions is None:
        return
    evidence = [
        share(
            m,
            convolutions.kernels.total_ms,
            "convolutions with channels that are not multiples of 16 bytes",
        )
    ]
    what = "result channels x input channels x window"
    evidence += [Evidence("weight", shape, "", what) for shape in convolutions.shapes[:SHAPES]]
    evidence += times(convolutions.kernels.top)
    remedy = Proposal(
        said("odd-channels"), "what the padded convolutions would take is not in the recording"
    )
    yield finding("odd-channels", "compute", None, evidence, [remedy])


def depthwise(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Depthwise convolutions far below the roofline. What other kernels would take is not known."""
    found = depthwise_convolutions(m.rated, free)
    if found is None:
        return
    evidence = [share(m, found.kernels.total_ms, "convolutions with a filter a channel")]
    if found.reached is not None:
        evidence.append(Evidence("of the roofline", found.reached, "share", "over their time"))
    what = "result channels x input channels of a group x window"
    evidence += [Evidence("weight", shape, "", what) for shape in found.shapes[:SHAPES]]
    evidence += times(found.kernels.top)
    is_own = found.own_share >= MOSTLY_OWN
    action = said("depthwise-convolutions", "words" if is_own else "less")
    remedy = Proposal(action, "what other kernels would take is not in the recording")
    yield finding("depthwise-convolutions", "compute", None, evidence, [remedy])


def wave_quantisation(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Matrix kernels whose last wave of blocks leaves most SMs idle."""
    found = products.last_waves(m.rated, free)
    if found is None:
        return
    evidence = [
        share(m, found.kernels.total_ms, "matrix kernels with a mostly empty last wave"),
        Evidence("waves", found.waves, "", "mean blocks over the blocks that the GPU holds"),
        *times(found.kernels.top),
    ]
    basis = "the part of the last wave without blocks, as far as the roofline leaves room"
    fill = words("pad_shapes", "fill_waves")
    remedy = Proposal(fill, basis, name="pad_shapes")
    yield finding(
        "wave-quantisation", "compute", found.lost_ms, evidence, [remedy], found.kernels.rows, fill
    )


def small_products(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Runs of small matrix products of one shape, none of which needs another: one batched product
    could do them."""
    found = patterns.small_product_runs(m.rated, free)
    if found is None:
        return
    total = found.kernels.total_ms
    rows = found.kernels.rows
    evidence = [
        share(m, total, "small products of one shape in a row"),
        Evidence("products in a row", found.in_a_row, "", "mean"),
    ]
    claim = max(total - found.batched_ms, 0.0)
    basis = "each run as long as its longest product"
    yield finding(
        "small-matmuls", "compute", claim, evidence, rows=rows, basis=basis, name="batched_matmul"
    )
