"""How much of the time of real recordings has FLOPs and bytes; printed with the operators that have
none (-s)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.recorded import GPU, KINETO, label
from traceanalyzer.analysis.joined.linked import owner_nodes
from traceanalyzer.analysis.roofline.op_models import model_ops
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.ingest import load
from traceanalyzer.trace import RangeKind

LEAST_SHARE = 0.9


@dataclass
class Coverage:
    """Nanoseconds of compute kernels (not collectives) by what is known of them."""

    total: int
    from_ops: int
    """Launched by recorded operators, and not replayed from a graph."""
    modelled: int
    unmodelled: Counter[str]


def coverage(path: Path) -> Coverage:
    ctx = measure(load([path]).traces[0])
    work = model_ops(ctx.joined)
    ops = ctx.trace.device_ops
    ranges = ctx.trace.host_ranges
    spent = np.where(ctx.linked.is_kernel & ~ctx.linked.is_communication, ops.end - ops.start, 0)
    node = owner_nodes(ctx.linked, ctx.joined.launch_node)
    row = np.where(node >= 0, ctx.linked.tree.row[node], -1)
    from_op = (row >= 0) & (np.append(ranges.kind, 0)[row] == RangeKind.OP) & (ops.graph <= 0)
    known = np.isfinite(np.append(work.flops, np.nan) + np.append(work.bytes, np.nan))[
        work.of_device_op
    ]
    left: Counter[str] = Counter()
    for op in np.flatnonzero(~known & (spent > 0)):
        name = (
            ctx.trace.text(int(ranges.name[row[op]]))
            if from_op[op]
            else "(launched by no recorded operator)"
        )
        left[str(name)] += int(spent[op])
    return Coverage(
        int(spent.sum()), int(spent[from_op].sum()), int(spent[from_op & known].sum()), left
    )


@pytest.mark.parametrize("path", [*GPU, *KINETO], ids=label)
def test_most_compute_time_has_flops_and_bytes(path: Path) -> None:
    found = coverage(path)
    names = ", ".join(
        f"{n} {t / max(found.total, 1):.1%}" for n, t in found.unmodelled.most_common(3)
    )
    share = found.modelled / found.from_ops if found.from_ops else 1.0
    print(
        f"{path.name}: {share:.1%} of what operators launched ({found.from_ops / max(found.total, 1):.1%} of"
    )
    print(f"  compute kernel time); no figures: {names or 'none'}")
    assert share >= LEAST_SHARE
    assert found.modelled + sum(found.unmodelled.values()) == found.total
