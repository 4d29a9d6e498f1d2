"""Time that kernels need to issue their instructions, where that is not the arithmetic that FLOPs count.

Conversions, indices, special functions and random numbers take instructions too. An SM issues four a cycle, each for
32 threads, so elements times instructions is a least time as much as FLOPs over the peak are. How many instructions a
kernel takes for an element is a property of its code: they were counted by Nsight Compute (`sm__inst_executed`;
`kernel_tables.toml` says on which PyTorch and GPU; HELD_OUT of benchmarks/ncu_cases.py had no part). Kernels that are
not listed have none, and are never called bound by them.

Counted are issue slots: the greater of all instructions, twice those of the integer and comparison pipe (64 lanes an
SM) and eight times those of the special function unit (16 lanes). Source of the rates: CUDA C++ programming guide,
"throughput of native arithmetic instructions".
"""

import numpy as np

from traceanalyzer.analysis.algebra.grouping import Groups
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.roofline.kernel_tables import kernel_tables
from traceanalyzer.analysis.roofline.op_models import Figure, OpWork
from traceanalyzer.base.figures import NS_PER_S
from traceanalyzer.trace import F64, I64

LANES = 32
"""Threads of an instruction."""


SLOTS = kernel_tables().slots
"""The first that fits counts."""


def issue_time(linked: Linked, work: OpWork, row: I64) -> F64:
    """Least time, ns, that each device op needs to issue its instructions; NaN where they are not known, or would need
    more than it took: it does not go over the operator's largest tensor. `row` is the host range whose work it is part
    of."""
    ops = linked.trace.device_ops
    if not (row >= 0).any():
        return np.broadcast_to(np.nan, len(ops))
    groups = Groups.of(ops.name)
    slots = np.array([_slots(linked.trace.text(int(c)) or "") for c in ops.name[groups.first]]).reshape(-1, 4)
    element, block, thread, operation = slots[groups.index].T
    blocks, threads = np.maximum(ops.blocks, 0).astype(np.float64), np.maximum(ops.threads, 0)
    elements, operations = (work.of(column, row) for column in (Figure.ELEMENTS, Figure.FLOPS))
    needed = elements * element + blocks * (block + threads * thread) + operations * operation
    time = needed / linked.limit("issue_rate") * NS_PER_S
    return np.where(linked.is_kernel & (time <= ops.end - ops.start), time, np.nan)


def _slots(kernel: str) -> tuple[float, ...]:
    found = next((s for s in SLOTS if s.kernel.search(kernel)), None)
    return tuple(found[1:]) if found else (np.nan,) * 4
