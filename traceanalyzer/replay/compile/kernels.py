"""The kernels that inductor wrote, with their times in the step."""

import re
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np

from traceanalyzer.base import NS_PER_MS
from traceanalyzer.replay.compile.model import KernelRow
from traceanalyzer.replay.compile.regions import Traced
from traceanalyzer.trace.compile_log import CompileLog, GraphCode

NS_PER_US = US_PER_MS = 1e3
_FUSED = re.compile(r"op\d+(?:_op\d+)*")
"""What inductor calls nodes that it writes kernels for; library calls have the name of their function."""


def kernel_rows(log: CompileLog) -> list[KernelRow]:
    """The kernels inductor wrote, in the order in which it did."""
    rows = []
    for compilation in log.compilations:
        noted = {kernel.name: kernel for kernel in compilation.triton}
        for code in compilation.codes:
            estimates = estimates_us(code)
            for kernel in code.kernels:
                about = noted.get(kernel.name)
                rows.append(
                    KernelRow(
                        name=kernel.name,
                        compile_id=compilation.compile_id,
                        graph=code.key,
                        direction=code.direction,
                        lines=list(kernel.lines),
                        operators=list(kernel.operators),
                        nodes=len(kernel.nodes),
                        compile_ms=about.compile_us / 1e3 if about else None,
                        configurations=about.configurations if about else None,
                        autotune_cache=about.autotune_cache if about else "",
                        estimate_us=estimates.get(kernel.name),
                    )
                )
    return rows


def estimates_us(code: GraphCode) -> dict[str, float]:
    """Inductor's guess for a launch of each kernel of a graph, the mean of its launches; empty unless its operations
    and the launches in its code pair off one by one."""
    fused = [one.time_ns for one in code.estimates if _FUSED.fullmatch(one.name)]
    if len(fused) != len(code.launches):
        return {}
    times: dict[str, list[float]] = defaultdict(list)
    for name, time_ns in zip(code.launches, fused, strict=True):
        if time_ns is not None:
            times[name].append(time_ns)
    return {name: sum(each) / len(each) / NS_PER_US for name, each in times.items()}


def measured_kernels(rows: list[KernelRow], traced: Traced) -> tuple[list[KernelRow], float, float | None]:
    """The kernels with their times in the step, the time of all that inductor wrote (ms), and the share of it with a
    known source line (None without such kernels)."""
    rated, code = traced.rated, traced.code
    ops, duration = rated.trace.device_ops, (rated.trace.device_ops.end - rated.trace.device_ops.start).astype(float)
    known, extra, every = _places(rows), dict[tuple[str, str], int](), list(rows)
    calls, regions = [*code.calls.text, ""], [*code.regions.text, ""]
    chosen = np.flatnonzero(traced.steady & rated.linked.is_kernel)
    place = np.full(len(chosen), -1)
    for i, op in enumerate(chosen.tolist()):
        name, key = rated.trace.text(int(ops.name[op])) or "", calls[code.call_of_op[op]]
        region = regions[code.region_of_op[op]]
        place[i] = known.get((key, name), known.get((region, name), known.get(("", name), -1)))
        if place[i] < 0 and code.is_triton[op]:
            place[i] = extra.setdefault((key, name), len(every))
            if place[i] == len(every):
                every.append(KernelRow(name, region, key, "", [], [], 0, None, None, ""))
    chosen, place = chosen[place >= 0], place[place >= 0]
    time, attainable = (np.bincount(place, of[chosen], len(every)) for of in (duration, rated.roofline.attainable))
    count, busy = np.bincount(place, minlength=len(every)).tolist(), float(duration[traced.steady].sum())
    figures = zip(every, time.tolist(), count, attainable.tolist(), strict=True)
    result = [_measured(row, traced, ns, n, limit, busy) if n else row for row, ns, n, limit in figures]
    total, mapped = float(time.sum()), float(sum(time[i] for i, row in enumerate(rows) if row.lines))
    result.sort(key=lambda row: -(row.measured_ms or 0.0))
    return result, traced.per_step(total) / NS_PER_MS, mapped / total if total and rows else None


def _places(rows: list[KernelRow]) -> dict[tuple[str, str], int]:
    """Where a kernel is among the rows: by the key of its graph, else its compile id, else its name where one graph
    alone has it."""
    names = Counter(row.name for row in rows)
    result: dict[tuple[str, str], int] = {}
    for index, row in enumerate(rows):
        if row.graph:
            result[row.graph, row.name] = index
        else:
            result.setdefault((row.compile_id, row.name), index)
        if names[row.name] == 1:
            result["", row.name] = index
    return result


def _measured(row: KernelRow, traced: Traced, time: float, count: int, attainable: float, busy: float) -> KernelRow:
    limit = attainable if np.isfinite(attainable) else None
    per_step = traced.per_step(count)
    return replace(
        row,
        per_step=per_step,
        estimated_ms=None if row.estimate_us is None else row.estimate_us * per_step / US_PER_MS,
        measured_ms=traced.per_step(time) / NS_PER_MS,
        share=time / busy if busy else None,
        attainable_ms=None if limit is None else traced.per_step(limit) / NS_PER_MS,
    )
