"""Findings on the computation itself, from kernel names and classes (FLOPs and bytes are not looked at here)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.metric import ms
from traceanalyzer.diagnosis.draft import Draft, Remedy, share
from traceanalyzer.diagnosis.finding import Evidence
from traceanalyzer.diagnosis.shares import step_shares

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.diagnosis.finding import BottleneckClass
    from traceanalyzer.trace import I32, I64, Bool

FUSIBLE = ("elementwise", "normalisation", "softmax", "reduction", "layout", "random", "fill", "loss")
"""Classes whose kernels a compiler can merge with their neighbours; all are limited by memory bandwidth."""
MIN_CHAIN = 3
"""Shorter runs of such kernels are the residual adds and activations of any model, with little to merge."""
FUSED_PASS_RATIO = 7 / 4
"""A fused Adam step touches 7 tensors (parameter, gradient, two moments; three are written back), a single
foreach operator at most 4: fused, the step takes at least this many times its longest operator."""
FP32_MATMUL = re.compile(r"ffma|sgemm|simt|_f32f32_f32f32_", re.IGNORECASE)
FUSED_OPTIMIZER = re.compile(r"fused", re.IGNORECASE)
TOP_KERNELS = 3
MIN_BUSY_SHARE = 0.25
"""A GPU that computes less than this much of the step has no kernels worth looking at first."""


def optimizer_passes(m: Measurements) -> Iterator[Draft]:
    """An optimizer step written as many passes over its state."""
    ctx = m.ctx
    fused = _named(m, FUSED_OPTIMIZER)
    rows = np.flatnonzero(_steady(m) & _of_class(m, "optimizer") & ~fused)
    if not len(rows):
        return
    names, inverse = np.unique(ctx.trace.device_ops.name[rows], return_inverse=True)
    by_name = np.bincount(inverse, weights=_duration(m)[rows]) / ctx.steps.steady_count
    total, longest = ms(by_name.sum()), ms(by_name.max())
    evidence = [
        share(total, m.mean_step_ms, "optimizer kernels that are not fused"),
        Evidence("different passes", len(names), "", "kernels by name"),
        Evidence("longest pass", longest, "ms", _title(m, int(names[by_name.argmax()]))),
    ]
    basis = "a fused step takes at least 7/4 of the longest pass (tensors touched: 7 against 4)"
    remedy = Remedy("Use the fused implementation: torch.optim.AdamW(..., fused=True), or compile the step.", basis)
    claim = max(total - FUSED_PASS_RATIO * longest, 0.0)
    yield Draft(
        "optimizer-not-fused",
        "memory",
        "The optimizer makes many passes over its state",
        "compute",
        claim,
        evidence,
        [remedy],
    )


def memory_chains(m: Measurements) -> Iterator[Draft]:
    """Runs of memory-bound kernels one after the other, which one kernel could do in a single pass."""
    ctx, ops = m.ctx, m.ctx.trace.device_ops
    fusible = np.isin(np.array(ctx.classes.names)[ctx.op_class], FUSIBLE) & ctx.is_kernel & _steady(m)
    rows = np.flatnonzero(_steady(m))
    order = rows[np.lexsort((ops.start[rows], ctx.steps.of_op[rows], ops.stream[rows]))]
    run, runs = _runs(fusible[order], ops.stream[order], ctx.steps.of_op[order])
    if not runs:
        return
    inside = run >= 0
    run, time = run[inside], _duration(m)[order[inside]]
    count = np.bincount(run, minlength=runs)
    total = np.bincount(run, weights=time, minlength=runs)
    longest = np.zeros(runs)
    np.maximum.at(longest, run, time)
    long = count >= MIN_CHAIN
    if not long.any():
        return
    steps = ctx.steps.steady_count
    claim = ms((total - longest)[long].sum() / steps)
    evidence = [
        share(ms(total[long].sum() / steps), m.mean_step_ms, "runs of memory-bound kernels"),
        Evidence("runs per step", long.sum() / steps, "", f"of at least {MIN_CHAIN} kernels"),
        Evidence("kernels per run", float(count[long].mean()), "", "mean"),
    ]
    action = (
        "Merge them: torch.compile, a fused library operator (F.layer_norm, F.scaled_dot_product_attention, fused "
        "losses) or a Triton kernel, so that the data goes through memory once."
    )
    basis = "each run taking as long as its longest kernel; kernels that work on different data save less"
    yield Draft(
        "memory-chains",
        "memory",
        "Chains of memory-bound kernels could be one kernel each",
        "compute",
        claim,
        evidence,
        [Remedy(action, basis)],
    )


def _runs(fusible: Bool, stream: I32, step: I32) -> tuple[I64, int]:
    """Number of the run that each op is in (-1: none) and how many runs there are."""
    starts = fusible.copy()
    same = (stream[1:] == stream[:-1]) & (step[1:] == step[:-1])
    starts[1:] &= ~(fusible[:-1] & same)
    run = np.cumsum(starts) - 1
    run[~fusible] = -1
    return run, int(starts.sum())


def fp32_matmul(m: Measurements) -> Iterator[Draft]:
    """Matrix products in fp32 on the ordinary cores."""
    rows = _steady(m) & _of_class(m, "gemm") & _named(m, FP32_MATMUL)
    total = ms(_duration(m)[rows].sum() / m.ctx.steps.steady_count)
    if total <= 0:
        return
    evidence = [share(total, m.mean_step_ms, "matrix products in full fp32, without tensor cores")]
    evidence += [Evidence("time", t, "ms", name) for name, t in _top_kernels(m, rows)]
    action = (
        "Let them use the tensor cores: torch.set_float32_matmul_precision('high') (TF32), or bf16 autocast, if the "
        "model's accuracy allows."
    )
    basis = "the gain depends on the GPU's tensor-core rate, which this version does not look at"
    yield Draft(
        "fp32-matmul",
        "compute",
        "Matrix products run in fp32 off the tensor cores",
        "compute",
        None,
        evidence,
        [Remedy(action, basis)],
    )


def plain_compute(m: Measurements) -> Iterator[Draft]:
    """Where the device is the bottleneck: what it spends its time on."""
    shares = step_shares(m)
    if shares is None or m.budget is None or shares.device < MIN_BUSY_SHARE:
        return
    cls: BottleneckClass = "compute" if shares.compute >= shares.memory else "memory"
    evidence = [share(m.budget.compute, m.mean_step_ms, "the GPU computes")]
    evidence += [
        Evidence("share of compute time", c.share_of_device, "share", c.title) for c in m.classes[:TOP_KERNELS]
    ]
    evidence += [Evidence("time", t, "ms", name) for name, t in _top_kernels(m, _steady(m) & m.ctx.is_compute)]
    action = (
        "Make the top kernels cheaper: lower precision (bf16, fp8), fused operators, torch.compile, better shapes; "
        "or accept it: the GPU is busy."
    )
    remedy = Remedy(action, "what the kernels could reach is not told from times alone")
    yield Draft("gpu-busy", cls, "Time on the GPU's own work", "compute", None, evidence, [remedy])


def _steady(m: Measurements) -> Bool:
    result: Bool = m.ctx.steady_ops & (m.ctx.trace.device_ops.device == (-1 if m.ctx.device is None else m.ctx.device))
    return result


def _of_class(m: Measurements, name: str) -> Bool:
    result: Bool = m.ctx.op_class == m.ctx.classes.index(name)
    return result


def _named(m: Measurements, pattern: re.Pattern[str]) -> Bool:
    ops, strings = m.ctx.trace.device_ops, m.ctx.trace.strings
    codes, inverse = np.unique(ops.name, return_inverse=True)
    found = np.array([bool(c >= 0 and pattern.search(strings[c])) for c in codes], bool)
    return found[inverse] if len(codes) else np.zeros(0, bool)


def _duration(m: Measurements) -> I64:
    return m.ctx.trace.device_ops.end - m.ctx.trace.device_ops.start


def _title(m: Measurements, code: int, limit: int = 80) -> str:
    name = m.ctx.trace.strings[code]
    return name if len(name) <= limit else name[: limit - 1] + "…"


def _top_kernels(m: Measurements, rows: Bool) -> list[tuple[str, float]]:
    """The names with the most time a step among the device ops, with that time in ms."""
    names, inverse = np.unique(m.ctx.trace.device_ops.name[rows], return_inverse=True)
    time = np.bincount(inverse, weights=_duration(m)[rows], minlength=len(names)) / m.ctx.steps.steady_count
    order = np.argsort(-time, kind="stable")[:TOP_KERNELS]
    return [(_title(m, int(names[i])), ms(time[i])) for i in order]
