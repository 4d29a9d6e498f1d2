"""Findings on the computation: each rule claims device ops that no earlier one has, so that no time is won twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.diagnosis.draft import Draft
from traceanalyzer.diagnosis.finding import Evidence
from traceanalyzer.diagnosis.rules.attention import written_out_attention
from traceanalyzer.diagnosis.rules.device import memory_chains, optimizer_passes
from traceanalyzer.diagnosis.rules.kernel_rows import duration, title
from traceanalyzer.diagnosis.rules.layout import channels_last, layout_copies, repeated_casts
from traceanalyzer.diagnosis.rules.matrix import fp32_matmul, misaligned, small_products, wave_quantisation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.diagnosis.rules.kernel_rows import Claim
    from traceanalyzer.trace import Bool

CLAIMS: tuple[Callable[[Measurements, Bool], Iterable[Claim]], ...] = (
    optimizer_passes,
    written_out_attention,
    channels_last,
    memory_chains,
    fp32_matmul,
    small_products,
    misaligned,
    wave_quantisation,
    repeated_casts,
    layout_copies,
)
"""In this order: what removes whole kernels goes before what makes them faster, and the sure before the likely. Those
that claim no headroom come last, and see what is left."""

SHOWN = 3


def computation(m: Measurements) -> Iterator[Draft]:
    """What the kernels of the step could do better."""
    free = np.ones(len(m.trace.device_ops), bool)
    for rule in CLAIMS:
        for claim in rule(m, free):
            if claim.draft.claim_ms is None or claim.draft.claim_ms > 0:
                free &= ~claim.rows
                yield claim.draft


def above_roofline(m: Measurements) -> Iterator[Draft]:
    """Kernels faster than their roofline: their data was in a cache, or their model does not fit."""
    r, time = m.roofline, duration(m)
    rows = m.steady_ops & r.rated & (r.attainable > time)
    if not rows.any():
        return
    cached = rows & (r.bytes <= m.limit("cache_bytes")) & ~r.arithmetic
    names = [title(m, int(code)) for code in _by_time(m, rows)]
    evidence = [
        Evidence("kernels", ", ".join(names), "", "with the most time above their roofline"),
        Evidence("share of device time", _share(m, rows), "share", "above the roofline"),
        Evidence("highest", float((r.attainable[rows] / time[rows]).max()), "", "least time over recorded time"),
        Evidence("of it from cache", _share(m, cached), "share", "their data fits the last cache, written just before"),
        Evidence(
            "of it unexplained",
            _share(m, rows & ~cached),
            "share",
            "their data does not fit the cache whole: part of it was still there, an operand was passed twice, or the "
            "algorithm needs less than its model (Winograd, sparse or masked work)",
        ),
    ]
    what = "Some kernels are faster than their roofline: their headroom is counted as none"
    yield Draft("above-roofline", "inconclusive", what, "none", None, evidence)


def _by_time(m: Measurements, rows: Bool) -> list[int]:
    names, inverse = np.unique(m.trace.device_ops.name[rows], return_inverse=True)
    time = np.bincount(inverse, weights=duration(m)[rows])
    return [int(names[i]) for i in np.argsort(-time, kind="stable")[:SHOWN]]


def _share(m: Measurements, rows: Bool) -> float:
    time = duration(m)
    return float(time[rows].sum() / max(time[m.steady_ops].sum(), 1))
