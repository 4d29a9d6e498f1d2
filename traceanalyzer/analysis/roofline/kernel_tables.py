"""What is known of kernels by counting (`kernel_tables.toml`), with the PyTorch that it was counted
on."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from traceanalyzer.base import dataclass
from traceanalyzer.trace import Trace, distinct


class Slots(NamedTuple):
    """Issue slots that kernels of such a name take, in threads' instructions."""

    kernel: re.Pattern[str]
    element: float = 0.0  # for each element of their operator's largest tensor
    block: float = 0.0  # for each block
    thread: float = 0.0  # for each thread
    operation: float = 0.0  # for each FLOP of their operator


@dataclass(frozen=True)
class TensorPasses:
    """How often the kernels of such a name go over a tensor as large as their operator's
    largest."""

    kernel: re.Pattern[str]
    tensors: float  # tensors of the operator's type read and written
    # tensors of which blocks, of a row or more each, read their part more than once
    again: float = 0.0
    times: int = 1  # how often they read it again
    in_fp32: float = 0.0  # tensors of as many elements in fp32 read and written beside them
    each: int = 0
    """Elements of a thread, where the launch says how many elements there are, and not the
    operator's largest input."""
    inputs: float = 0.0  # how often all inputs of the operator, or as much, are read and written
    operator: str | None = None  # only of this one, where the kernel's name is a common one
    calculates: bool = False  # whether it does the operator's matrix products


@dataclass(frozen=True)
class KernelTables:
    """The tables; of entries for one kernel the first counts."""

    torch: str  # version of PyTorch, major and minor, whose kernels were counted
    slots: tuple[Slots, ...]
    passes: tuple[TensorPasses, ...]
    operator_flops: Mapping[str, float]
    """FLOPs an element of the operators that Inductor's names of kernels are made of."""


@cache
def kernel_tables() -> KernelTables:
    """The tables of this package."""
    known = tomllib.loads(
        Path(__file__).with_name("kernel_tables.toml").read_text(encoding="utf-8")
    )
    return KernelTables(
        torch=known["torch"],
        slots=tuple(
            Slots(**entry | {"kernel": re.compile(entry["kernel"])})
            for entry in known["instructions"]
        ),
        passes=tuple(
            TensorPasses(**entry | {"kernel": re.compile(entry["kernel"])})
            for entry in known["passes"]
        ),
        operator_flops=known["operator_flops"],
    )


def other_version(trace: Trace) -> str | None:
    """A sentence where a recording with kernels of the tables is of another PyTorch than was
    counted, else None."""
    tables = kernel_tables()
    stated = {condition.name: condition.value for condition in trace.conditions}
    version = re.match(r"\d+\.\d+", stated.get("PyTorch", ""))
    if version is None or version[0] == tables.torch:
        return None
    names = list(filter(None, map(trace.text, distinct(trace.device_ops.name).tolist())))
    patterns = [*(slots.kernel for slots in tables.slots), *(each.kernel for each in tables.passes)]
    if not any(pattern.search(name) for pattern in patterns for name in names):
        return None
    return (
        f"Instructions and memory passes of kernels were counted on PyTorch {tables.torch}; this recording is of "
        f"{version[0]}, so instruction bounds and expected traffic may be off."
    )
