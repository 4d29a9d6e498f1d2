"""Convolutions that have a filter a channel: depthwise ones, which no tensor core can take."""

from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import texts_where
from traceanalyzer.analysis.groups.ops import (
    OpsGroup,
    duration,
    group,
    judged,
    named_like,
    of_class,
    op_code,
    per_step,
    steady,
)
from traceanalyzer.analysis.groups.products import CONVOLUTION, FEW_CHANNELS
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, inputs_of
from traceanalyzer.analysis.roofline.rated import WithRoofline
from traceanalyzer.base import regex
from traceanalyzer.trace import Bool

OWN_KERNELS = regex(r"conv_depthwise[23]d")
"""PyTorch's kernels for tensors whose channels lie apart; those whose channels come last go to
cuDNN."""
NEAR_ROOFLINE = 0.5
"""Share of the roofline from which they are as fast as passes over memory usually are."""


class DepthwiseConvolutions(NamedTuple):
    """Depthwise convolutions, forward and backward, far from the roofline."""

    kernels: OpsGroup
    shapes: list[str]  # of their weights
    reached: float | None  # share of the roofline; None where shapes were not recorded
    own_share: float  # part of their time in PyTorch's own kernels


def depthwise_convolutions(rated: WithRoofline, free: Bool) -> DepthwiseConvolutions | None:
    """Depthwise convolutions by their weights or by their kernels, of ops that are `free`; None
    without any, and where they are near the roofline."""
    own = named_like(rated.linked, OWN_KERNELS) & steady(rated.timed) & free
    by_weight, weights = _by_weight(rated, free)
    found = group(rated.timed, own | by_weight)
    if found.total_ms <= 0:
        return None
    reached = _reached(rated, found.rows)
    if reached is not None and reached >= NEAR_ROOFLINE:
        return None
    own_ms = per_step(rated.timed, duration(rated.linked)[own])
    return DepthwiseConvolutions(found, weights, reached, own_ms / found.total_ms)


def _by_weight(rated: WithRoofline, free: Bool) -> tuple[Bool, list[str]]:
    """The free ops of convolutions whose weights are those of depthwise ones, and these weights."""
    code = op_code(rated)
    rows = steady(rated.timed) & free & of_class(rated.joined, "convolution") & (code >= 0)
    rows &= texts_where(rated.trace.strings, CONVOLUTION.match)[code]
    columns = ("name", "shapes", "dtypes")
    rows[rows], _, shapes = judged(rated, rated.roofline.row[rows], columns, _depthwise_weight)
    return rows, sorted({*filter(None, shapes)})


def _reached(rated: WithRoofline, rows: Bool) -> float | None:
    """The share of the roofline that these ops reach; None where it is not known of any."""
    known = rows & np.isfinite(rated.roofline.attainable[:])
    spent = duration(rated.linked)[known].sum()
    return float(rated.roofline.attainable[known].sum() / spent) if spent else None


def _depthwise_weight(name: str, shapes: str | None, dtypes: str | None) -> str | None:
    """The shape of the weight, where each channel has a filter of its own; None where it has not,
    or it cannot be told."""
    backward = "backward" in name
    tensors = [
        one
        for one in inputs_of(shapes, dtypes)[: 2 + backward]
        if isinstance(one, Tensor) and len(one.shape) >= 3
    ]
    if len(tensors) < 2 + backward or "transpose" in name:
        return None
    x, weight = tensors[-2:]
    channels = x.shape[1]
    results = weight.shape[0]
    # a gradient with other channels than the weight has filters is of a transposed convolution
    fits = not backward or tensors[0].shape[1] == results
    if channels <= FEW_CHANNELS or weight.shape[1] != 1 or results % channels or not fits:
        return None
    return "x".join(map(str, weight.shape))
