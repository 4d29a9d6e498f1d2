"""What the groups share: which device ops, their time, their names, and runs of neighbours."""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import (
    Groups,
    at,
    compact,
    first_alike,
    isin_few,
    stable_order,
)
from traceanalyzer.analysis.joined.joined import HostAttribution
from traceanalyzer.analysis.joined.launched import is_nested
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names.kernel_names import short_name
from traceanalyzer.analysis.roofline.rated import WithRoofline
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import ms, regex
from traceanalyzer.trace import F64, I32, I64, Bool, distinct, is_sorted

SHOWN = 5
TOP_KERNELS = 3


class ApiTime(NamedTuple):
    """Calls of one name."""

    name: str
    calls: int
    ms: float


PRODUCT = regex(
    r"^aten::(?:bmm|baddbmm)$"
)  # batched products: of queries and keys, of scores and values
SOFTMAX = regex(
    r"^aten::_?(?:log_)?softmax(?:_backward_data)?$|^aten::_safe_softmax$|masked_softmax"
)
"""Operators between them that make attention of it."""
LOG_SOFTMAX = regex(r"LogSoftMax|softmax_warp_\w+<[^<>]*, true, (true|false)>")
"""Softmax kernels of a loss: the logarithm is a parameter of their templates."""
SOFTMAX_BACKWARD = regex(r"softmax_backward|softmax_warp_backward|SoftMaxBackward")
BESIDE_SOFTMAX = ("elementwise", "layout", "softmax", "random", "fill", "memset")
"""Classes of kernels between the products of an attention; what has others there is a loss, or a
choice of experts."""
WITH_BIAS = regex(r"_bias_|epilogue_bias", re.IGNORECASE)
"""Products that add a bias: of a layer, not of two results."""
LEAST_OF_SOFTMAX = 0.5
"""Share of the shorter product's time that a softmax over scores takes at least, where nothing else
tells it from one over a few classes or experts."""
MAX_BETWEEN = 16
"""Kernels between two products of one attention: scaling, softmax, dropout, casts, a mask made for
it, a copy of the values, and each one's copy."""


def api_times(linked: TraceJoins) -> list[ApiTime]:
    """The calls with the most host time; calls made by others do not count again."""
    calls = linked.trace.api_calls
    rows = np.flatnonzero(~linked.memo(is_nested))
    groups = Groups.of(calls.name[rows])
    time = groups.sum((calls.end - calls.start)[rows])
    names = calls.name[rows][groups.first]
    order = np.argsort(-time, kind="stable")[:SHOWN].tolist()
    return [
        ApiTime(
            linked.trace.strings[names[place]],
            calls=int(groups.count[place]),
            ms=ms(time[place]),
        )
        for place in order
    ]


class OpsGroup(NamedTuple):
    """Device ops of the steady state with something in common."""

    rows: Bool  # which device ops
    total_ms: float  # their time a step
    top: list[tuple[str, float]]  # the kernels with the most of it, and its ms


def group(timed: Timed, rows: Bool) -> OpsGroup:
    """These device ops as a group."""
    time: dict[str, float] = {}
    kinds = Groups.of(timed.trace.device_ops.name[rows])
    spent = kinds.sum(duration(timed.linked)[rows]) / timed.steps.steady_count
    codes = timed.trace.device_ops.name[rows][kinds.first]
    for code, ns in zip(codes.tolist(), spent.tolist(), strict=True):
        name = title(timed.linked, code)
        time[name] = time.get(name, 0.0) + ms(ns)
    top = sorted(time.items(), key=lambda item: -item[1])[:TOP_KERNELS]
    return OpsGroup(rows, per_step(timed, duration(timed.linked)[rows]), top)


def steady(timed: Timed) -> Bool:
    """The steady state's device ops on the device that the step's figures speak of. Not to be
    written to."""
    return timed.memo(_steady)


def _steady(timed: Timed) -> Bool:
    rows = timed.steady_ops & (
        timed.trace.device_ops.device == (-1 if timed.device is None else timed.device)
    )
    rows.flags.writeable = False
    return rows


def of_class(joined: HostAttribution, *names: str) -> Bool:
    """Device ops of these classes."""
    return isin_few(joined.linked.op_class, [joined.linked.classes.index(name) for name in names])


def named_like(linked: TraceJoins, pattern: re.Pattern[str]) -> Bool:
    """Device ops in whose names the pattern is found."""
    return _in_text(linked, linked.memo(_device_names), pattern).take(linked.trace.device_ops.name)


def with_text(linked: TraceJoins, column: I32 | I64, pattern: re.Pattern[str]) -> Bool:
    """Entries of a column of text codes in which the pattern is found."""
    return _in_text(linked, distinct(column), pattern).take(column)


def _in_text(linked: TraceJoins, codes: I32 | I64, pattern: re.Pattern[str]) -> Bool:
    """By code whether the pattern is found in its text, as far as it is one of these; False for
    -1. Texts that are equal but for their numbers are looked at once."""
    alike = first_alike(linked.trace.strings)[codes]
    found = np.zeros(len(linked.trace.strings) + 1, bool)
    for code in distinct(alike).tolist():
        found[code] = code >= 0 and pattern.search(linked.trace.strings[code]) is not None
    found[codes] = found[alike]
    return found


def _device_names(linked: TraceJoins) -> I32:
    """The distinct names of device ops."""
    return distinct(linked.trace.device_ops.name)


def op_code(rated: WithRoofline) -> I64:
    """Name code of the modelled operator that each device op is part of, -1 without one."""
    return at(rated.trace.host_ranges.name, rated.roofline.row, -1).astype(np.int64)


def judged(
    rated: WithRoofline, rows: I32 | I64, columns: tuple[str, ...], judge: Callable[..., str | None]
) -> tuple[Bool, Groups, list[str | None]]:
    """Which of these host ranges the judge says something of; the kinds that there are by the texts
    of these columns, and what it says of each: it is given the texts (None where one was not
    recorded)."""
    codes = [getattr(rated.trace.host_ranges, name)[rows] for name in columns]
    kinds = Groups.of(*codes)
    each = zip(*(column[kinds.first].tolist() for column in codes), strict=True)
    found = [judge(*map(rated.trace.text, kind)) for kind in each]
    return np.array([one is not None for one in found], bool)[kinds.index], kinds, found


def duration(linked: TraceJoins) -> I32 | I64:
    """Duration of each device op, ns. Not to be written to."""
    return linked.memo(_duration)


def _duration(linked: TraceJoins) -> I32 | I64:
    length = compact(linked.trace.device_ops.end - linked.trace.device_ops.start)
    length.flags.writeable = False
    return length


def per_step(timed: Timed, values: I32 | I64 | F64) -> float:
    """The sum of these times (ns) as milliseconds a step."""
    return ms(values.sum()) / timed.steps.steady_count


def title(linked: TraceJoins, code: int) -> str:
    """A kernel's name as the tables have it, cut where it is longer than 80 characters."""
    name = short_name(linked.trace.strings[code])
    return name if len(name) <= 80 else name[:79] + "…"


def in_stream_order(timed: Timed, rows: Bool) -> I64:
    """These device ops by step, stream and start."""
    chosen = np.flatnonzero(rows)  # rows are in the order of their starts
    for column in (timed.trace.device_ops.stream, timed.steps.of_op):
        if not is_sorted(column[chosen]):
            chosen = chosen[stable_order(column[chosen])]
    return chosen


def runs_of_neighbours(timed: Timed, order: I64, inside: Bool) -> tuple[I32, int]:
    """The run of neighbours (in step and stream, all `inside`) of each op of `order`, -1 for none;
    and their number."""
    stream = timed.trace.device_ops.stream[order]
    step = timed.steps.of_op[order]
    starts = inside.copy()
    same_step = step[1:] == step[:-1]
    same_run = inside[:-1] & same_step & (stream[1:] == stream[:-1])
    starts[1:] &= ~same_run
    run = np.cumsum(starts, dtype=np.int32)
    run -= 1
    run[~inside] = -1
    return run, int(starts.sum())


def greatest(values: I32 | I64 | F64, run: I32 | I64, count: int | None = None) -> F64:
    """The greatest value of each run."""
    result = np.zeros(int(run.max(initial=-1)) + 1 if count is None else count)
    np.maximum.at(result, run, values)
    return result


class WrittenOutAttention(NamedTuple):
    """Passes over the scores between the two products."""

    passes: OpsGroup
    attentions: float  # a step, forward and backward each
    bytes_saved: float | None  # what the passes read and write a step; None where not known


def find_written_out_attention(rated: WithRoofline, free: Bool) -> WrittenOutAttention | None:
    """Softmax and its neighbours between two batched products, forward or backward, of ops that are
    `free`."""
    order = in_stream_order(rated.timed, steady(rated.timed))
    between = between_products(rated, order)
    rows = np.zeros(len(free), bool)
    rows[order[between >= 0]] = True
    passes = group(rated.timed, rows & free)
    steps = rated.timed.steps.steady_count
    if passes.total_ms <= 0:
        return None
    moved = rated.roofline.bytes[passes.rows]
    saved = float(np.nansum(moved)) / steps if np.isfinite(moved).any() else None
    return WrittenOutAttention(passes, len(distinct(between[between >= 0])) / steps, saved)


class AttentionParts(NamedTuple):
    """What device ops would be in an attention that is written out."""

    product: Bool
    softmax: Bool
    backward: Bool  # whether they are a softmax's backward pass
    foreign: Bool  # whether no attention has them between its products


def attention_parts(rated: WithRoofline) -> AttentionParts:
    """The parts by operators; where a recording has none by kernels, of which nothing says that a
    product is of a batch."""
    linked = rated.linked
    if linked.tree.has_operators:
        operator = op_code(rated)
        softmax = with_text(linked, operator, SOFTMAX)
        backward = with_text(linked, operator, SOFTMAX_BACKWARD)
        product = with_text(linked, operator, PRODUCT)
        return AttentionParts(product, softmax, backward, np.zeros(len(operator), bool))
    softmax = of_class(rated.joined, "softmax") & ~named_like(linked, LOG_SOFTMAX)
    gemm = of_class(rated.joined, "gemm")
    product = gemm & ~named_like(linked, WITH_BIAS)
    beside = of_class(rated.joined, *BESIDE_SOFTMAX) & ~named_like(linked, LOG_SOFTMAX)
    backward = named_like(linked, SOFTMAX_BACKWARD)
    return AttentionParts(product, softmax, backward, ~beside & ~product)


def between_products(rated: WithRoofline, order: I64) -> I64:
    """For each op of `order` the number of the attention between whose products it lies, -1 outside
    of any."""
    parts = attention_parts(rated)
    product = np.flatnonzero(parts.product[order]).tolist()
    step = rated.timed.steps.of_op[order]
    stream = rated.trace.device_ops.stream[order]
    seen = np.append(0, np.cumsum(parts.softmax[order]))
    foreign = np.append(0, np.cumsum(parts.foreign[order]))
    has_operators = rated.linked.tree.has_operators
    time = duration(rated.linked)[order]
    softmax = parts.softmax[order]
    result = np.full(len(order), -1, np.int64)
    for number, (a, b) in enumerate(pairwise(product)):
        near = 1 < b - a <= MAX_BETWEEN + 1
        near = near and step[a] == step[b] and stream[a] == stream[b]
        near = near and foreign[b] == foreign[a + 1] and seen[b] > seen[a + 1]
        if near and (has_operators or _is_long(time, softmax, a, b)):
            result[a + 1 : b] = number
    return result


def _is_long(time: I32 | I64, softmax: Bool, a: int, b: int) -> bool:
    """Whether the softmax between two products takes as long as one over scores would."""
    between = slice(a + 1, b)
    longest = int(time[between][softmax[between]].max())
    return longest >= LEAST_OF_SOFTMAX * int(min(time[a], time[b]))
