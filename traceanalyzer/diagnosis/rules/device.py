"""Findings on passes over memory that could be fewer, and on what the device is busy with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, parse_inputs
from traceanalyzer.diagnosis.draft import Draft, Remedy, share
from traceanalyzer.diagnosis.finding import Evidence
from traceanalyzer.diagnosis.rules.kernel_rows import (
    TOP_KERNELS,
    Claim,
    duration,
    in_stream_order,
    named,
    of_class,
    per_step,
    runs,
    steady,
    title,
    top_kernels,
)
from traceanalyzer.diagnosis.shares import step_shares
from traceanalyzer.figures import ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.analysis.roofline.op_models.tensors import Input
    from traceanalyzer.diagnosis.finding import BottleneckClass
    from traceanalyzer.trace import F64, I64, Bool

FUSIBLE = ("elementwise", "normalisation", "softmax", "reduction", "layout", "random", "fill", "loss")
"""Classes whose kernels a compiler can merge with their neighbours; all are limited by memory bandwidth."""
COMPILED = re.compile(r"^triton_(poi|red|per|for)_")
"""Kernels of torch.compile: it merged what works on the same data, and left what could not be merged."""
MIN_CHAIN = 3
"""Shorter runs of such kernels are the residual adds and activations of any model, with little to merge."""
ASIDE = 64
"""An operand this many times smaller than another is a statistic or a parameter beside it, not data of its own."""
FUSED_PASS_RATIO = 7 / 4
"""A fused Adam step touches 7 tensors (parameter, gradient, two moments; three are written back), a single
foreach operator at most 4: fused, the step takes at least this many times its longest operator."""
FUSED_OPTIMIZER = re.compile(r"fused", re.IGNORECASE)
MIN_BUSY_SHARE = 0.25
"""A GPU that computes less than this much of the step has no kernels worth looking at first."""


def optimizer_passes(m: Measurements, free: Bool) -> Iterator[Claim]:
    """An optimizer step written as many passes over its state."""
    fused = named(m, FUSED_OPTIMIZER)
    rows = np.flatnonzero(steady(m) & of_class(m, "optimizer") & ~fused & free)
    if not len(rows):
        return
    names, inverse = np.unique(m.trace.device_ops.name[rows], return_inverse=True)
    by_name = np.bincount(inverse, weights=duration(m)[rows]) / m.steps.steady_count
    total, longest = ms(by_name.sum()), ms(by_name.max())
    evidence = [
        share(total, m.mean_step_ms, "optimizer kernels that are not fused"),
        Evidence("different passes", len(names), "", "kernels by name"),
        Evidence("longest pass", longest, "ms", title(m, int(names[by_name.argmax()]))),
    ]
    basis = "a fused step takes at least 7/4 of the longest pass (tensors touched: 7 against 4)"
    remedy = Remedy("Use the fused implementation: torch.optim.AdamW(..., fused=True), or compile the step.", basis)
    claim = max(total - FUSED_PASS_RATIO * longest, 0.0)
    what = "The optimizer makes many passes over its state"
    claimed = np.zeros(len(free), bool)
    claimed[rows] = True
    yield Claim(Draft("optimizer-not-fused", "memory", what, "compute", claim, evidence, [remedy]), claimed)


def memory_chains(m: Measurements, free: Bool) -> Iterator[Claim]:
    """Runs of memory-bound kernels one after the other, which one kernel could do in a single pass."""
    order = in_stream_order(m, steady(m))
    fusible = of_class(m, *FUSIBLE) & m.is_kernel & free & ~named(m, COMPILED)
    run, number = _of_same_data(m, order, *runs(m, order, fusible[order]))
    count = np.bincount(run[run >= 0], minlength=number)
    if not (count >= MIN_CHAIN).any():
        return
    inside = (run >= 0) & (count >= MIN_CHAIN)[run]
    chained, run = order[inside], run[inside]
    rows = np.zeros(len(free), bool)
    rows[chained] = True
    total = per_step(m, duration(m)[rows])
    evidence = [
        share(total, m.mean_step_ms, "runs of memory-bound kernels"),
        Evidence("runs per step", (count >= MIN_CHAIN).sum() / m.steps.steady_count, "", f"of at least {MIN_CHAIN}"),
        Evidence("kernels per run", float(count[count >= MIN_CHAIN].mean()), "", "mean"),
        *_traffic_saved(m, chained, run),
        *(Evidence("time", t, "ms", name) for name, t in top_kernels(m, rows)),
    ]
    action = (
        "Merge them: torch.compile, a fused library operator (F.layer_norm, F.scaled_dot_product_attention, fused "
        "losses) or a Triton kernel, so that the data goes through memory once."
    )
    basis = "each run taking as long as its longest kernel; kernels that work on different data save less"
    claim = total - per_step(m, _most(duration(m)[chained], run))
    title_ = "Chains of memory-bound kernels could be one kernel each"
    yield Claim(Draft("memory-chains", "memory", title_, "compute", claim, evidence, [Remedy(action, basis)]), rows)


def _of_same_data(m: Measurements, order: I64, run: I64, number: int) -> tuple[I64, int]:
    """The runs, ended also where the largest operand changes its size: the kernels then work on different tensors.
    Operands that are far smaller (the row means of a normalisation) go with the run."""
    rows = np.flatnonzero(run >= 0)
    current, last, count, parts = 0, -1, -1, []
    for one, here in zip(run[rows].tolist(), _elements(m)[order][rows].tolist(), strict=True):
        differs = here and current and here != current and max(here, current) < ASIDE * min(here, current)
        if one != last or differs:
            count, current = count + 1, 0
        last, current = one, max(current, here)
        parts.append(count)
    result = np.full(len(run), -1, np.int64)
    result[rows] = parts
    return result, count + 1 if number else 0


def _elements(m: Measurements) -> I64:
    """Elements of the largest operand of the operator that each device op is part of, 0 where not known."""
    trace, row = m.trace, m.roofline.row
    codes = np.append(trace.host_ranges.shapes, np.int32(-1))[row]
    known, inverse = np.unique(codes, return_inverse=True)
    sizes = [_largest(parse_inputs(trace.text(int(code)) or "", None, None)) for code in known]
    return np.array(sizes, np.int64)[inverse] if len(known) else np.zeros(0, np.int64)


def _largest(inputs: tuple[Input, ...] | None) -> int:
    return max((operand.numel for operand in inputs or () if isinstance(operand, Tensor)), default=0)


def _traffic_saved(m: Measurements, chained: I64, run: I64) -> Iterator[Evidence]:
    """What the runs move beyond their kernel with the most traffic, where all of it is known."""
    moved = m.roofline.bytes[chained]
    if not np.isfinite(moved).all():
        return
    saved = float(moved.sum() - _most(moved, run).sum()) / m.steps.steady_count
    yield Evidence("traffic saved", saved, "bytes", "a step, each run moving as much as its kernel with the most")


def _most(values: I64 | F64, run: I64) -> F64:
    """The greatest value of each run."""
    result = np.zeros(int(run.max(initial=-1)) + 1)
    np.maximum.at(result, run, values)
    return result


def plain_compute(m: Measurements) -> Iterator[Draft]:
    """Where the device is the bottleneck: what it spends its time on."""
    shares = step_shares(m)
    if shares is None or m.budget is None or shares.device < MIN_BUSY_SHARE:
        return
    cls: BottleneckClass = "compute" if shares.compute >= shares.memory else "memory"
    evidence = [share(m.budget.compute, m.mean_step_ms, "the GPU computes")]
    classes = [row for row in m.class_rows if _computes(m, row.cls)]
    total = sum(row.total_ms for row in classes)
    evidence += [Evidence("share of compute time", c.total_ms / total, "share", c.title) for c in classes[:TOP_KERNELS]]
    evidence += [Evidence("time", t, "ms", name) for name, t in top_kernels(m, steady(m) & m.is_compute)]
    evidence += _at_the_roofline(m)
    action = (
        "Make the top kernels cheaper: lower precision (bf16, fp8), fused operators, torch.compile, better shapes; "
        "or accept it: the GPU is busy."
    )
    remedy = Remedy(action, "the roofline is a bound that few kernels come near; without models nothing bounds it")
    yield Draft("gpu-busy", cls, "Time on the GPU's own work", "compute", None, evidence, [remedy])


def _computes(m: Measurements, cls: str) -> bool:
    """Whether work of a class is computation: neither communication nor a copy."""
    return cls != "memcpy" and not m.classes.is_communication[m.classes.index(cls)]


def _at_the_roofline(m: Measurements) -> Iterator[Evidence]:
    """What the roofline leaves of the computation, and the kernels furthest above it."""
    if m.roofline_step is None or m.roofline_step.ideal_ms is None:
        return
    yield Evidence(
        "ideal time", m.roofline_step.ideal_ms, "ms", f"of the computation at the roofline of {m.roofline_step.gpu}"
    )
    if m.roofline_step.reachable_ms is not None:
        yield Evidence(
            "reachable time", m.roofline_step.reachable_ms, "ms", "the same at the rates measured on the machine"
        )
    kernels = [row for row in m.kernels if _computes(m, row.cls) and row.headroom_ms]
    for row in sorted(kernels, key=lambda k: -(k.headroom_ms or 0.0))[:TOP_KERNELS]:
        yield Evidence("above the roofline", row.headroom_ms, "ms", f"{row.name} ({row.bound_by}-bound)")
