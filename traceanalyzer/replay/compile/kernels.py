"""The kernels that inductor wrote, with their times in the step."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from traceanalyzer.base import NS_PER_MS, NS_PER_US, regex
from traceanalyzer.replay.compile.model import KernelRow
from traceanalyzer.replay.compile.regions import TracedCompile
from traceanalyzer.trace import I64
from traceanalyzer.trace.compile_log import CompileLog, GraphCode

UNTUNED = (None, None, "")
_FUSED = regex(r"op\d+(?:_op\d+)*")
"""What inductor calls nodes that it writes kernels for; library calls have the name of their
function."""


def kernel_rows(log: CompileLog) -> list[KernelRow]:
    """The kernels inductor wrote, in the order in which it did."""
    rows = []
    for compilation in log.compilations:
        noted = {kernel.name: kernel for kernel in compilation.triton}
        for code in compilation.codes:
            estimates = estimates_us(code)
            for written in code.kernels:
                about = noted.get(written.name)
                lines = list(written.lines)
                operators = list(written.operators)
                of_graph = (
                    compilation.compile_id,
                    code.key,
                    code.direction,
                    lines,
                    operators,
                    len(written.nodes),
                )
                tuned = (
                    (about.compile_us / 1e3, about.configurations, about.autotune_cache)
                    if about
                    else UNTUNED
                )
                rows.append(
                    replace(
                        KernelRow(written.name, *of_graph, *tuned),
                        estimate_us=estimates.get(written.name),
                    )
                )
    return rows


def estimates_us(code: GraphCode) -> dict[str, float]:
    """Inductor's guess for a launch of each kernel of a graph, the mean of its launches; empty
    unless its operations and the launches in its code pair off one by one."""
    fused = [one.time_ns for one in code.estimates if _FUSED.fullmatch(one.name)]
    if len(fused) != len(code.launches):
        return {}
    times: dict[str, list[float]] = defaultdict(list)
    for name, time_ns in zip(code.launches, fused, strict=True):
        if time_ns is not None:
            times[name].append(time_ns)
    return {name: sum(each) / len(each) / NS_PER_US for name, each in times.items()}


def measured_kernels(
    rows: list[KernelRow], traced: TracedCompile
) -> tuple[list[KernelRow], float, float | None]:
    """The kernels with their times in the step, the time of all that inductor wrote (ms), and the
    share of it with a known source line (None without such kernels)."""
    rated = traced.rated
    every = list(rows)
    duration = (rated.trace.device_ops.end - rated.trace.device_ops.start).astype(float)
    chosen = np.flatnonzero(traced.steady & rated.linked.is_kernel)
    place = _place(every, traced, chosen)
    chosen = chosen[place >= 0]
    place = place[place >= 0]
    time = np.bincount(place, duration[chosen], len(every))
    attainable = np.bincount(place, rated.roofline.attainable[chosen], len(every))
    count = np.bincount(place, minlength=len(every)).tolist()
    busy = float(duration[traced.steady].sum())
    figures = map(_Figures, time.tolist(), count, attainable.tolist())
    result = [
        _measured(row, traced, found, busy) for row, found in zip(every, figures, strict=True)
    ]
    result.sort(key=lambda row: -(row.measured_ms or 0.0))
    total = float(time.sum())
    mapped_share = _mapped_ns(rows, time.tolist()) / total if total and rows else None
    return result, traced.per_step(total) / NS_PER_MS, mapped_share


def _mapped_ns(rows: list[KernelRow], time: Sequence[float]) -> float:
    """The time of those of the log's kernels, which come first, that have a known source line."""
    return float(sum(time[i] for i, row in enumerate(rows) if row.lines))


def _place(every: list[KernelRow], traced: TracedCompile, chosen: I64) -> I64:
    """Where each of these kernels is among the rows, to which those that inductor wrote are added;
    -1 for others."""
    rated = traced.rated
    code = traced.code
    known = _places(every)
    extra = dict[tuple[str, str], int]()
    calls = [*code.calls.text, ""]
    regions = [*code.regions.text, ""]
    region_of_op = code.around(code.regions)[rated.joined.launch_node]
    place = np.full(len(chosen), -1)
    for i, op in enumerate(chosen.tolist()):
        name = rated.trace.text(int(rated.trace.device_ops.name[op])) or ""
        key = calls[code.call_of_op[op]]
        region = regions[region_of_op[op]]
        place[i] = _known_place(known, name, key, region, "")
        if place[i] < 0 and code.is_triton[op]:
            place[i] = extra.setdefault((key, name), len(every))
            if place[i] == len(every):
                every.append(KernelRow(name, region, key, "", [], [], 0, *UNTUNED))
    return place


def _known_place(known: dict[tuple[str, str], int], name: str, *code_keys: str) -> int:
    """Where a kernel of the first of these graphs or compile ids is that is known; -1 without
    any."""
    return next((known[key, name] for key in code_keys if (key, name) in known), -1)


def _places(rows: list[KernelRow]) -> dict[tuple[str, str], int]:
    """Where a kernel is among the rows: by its graph, else its compile id, else its name where one
    graph has it."""
    names = Counter(row.name for row in rows)
    result = dict[tuple[str, str], int]()
    for index, row in enumerate(rows):
        if row.graph:
            result[row.graph, row.name] = index
        else:
            result.setdefault((row.compile_id, row.name), index)
        if names[row.name] == 1:
            result["", row.name] = index
    return result


class _Figures(NamedTuple):
    """What was recorded of a kernel in the steady steps."""

    time_ns: float
    launches: int
    attainable_ns: float  # NaN where it is not known


def _measured(row: KernelRow, traced: TracedCompile, found: _Figures, busy_ns: float) -> KernelRow:
    """A kernel with its figures; as it was where it did not run."""
    if not found.launches:
        return row
    per_step = traced.per_step(found.launches)
    estimated = None if row.estimate_us is None else row.estimate_us * per_step / 1e3
    attainable_ms = traced.per_step(found.attainable_ns) / NS_PER_MS
    return replace(
        row,
        per_step=per_step,
        measured_ms=traced.per_step(found.time_ns) / NS_PER_MS,
        share=found.time_ns / busy_ns if busy_ns else None,
        estimated_ms=estimated,
        attainable_ms=attainable_ms if np.isfinite(attainable_ms) else None,
    )
