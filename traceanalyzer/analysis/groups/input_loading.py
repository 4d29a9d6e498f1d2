"""How input is loaded, as far as the recording shows: by whom, from what memory, what the time goes
into; and many small copies to the GPU, each of which costs the host a call and the operators around
it."""

import re
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import IntervalSet, intersect, texts_where, union
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.joined.joined import HostAttribution
from traceanalyzer.analysis.names.pytorch import COPYING
from traceanalyzer.analysis.tables.budget import StepBudgets
from traceanalyzer.analysis.time.host_timeline import HostState
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import ms, regex
from traceanalyzer.trace import Bool, MemoryKind, RangeKind, distinct

STAGES = {
    "collate": regex(r"(?i)collate|default_convert|pin_memory\.py|^aten::(stack|cat)$"),
    "decode": regex(
        r"(?i)decode|imread|jpeg|PIL/|torchvision/io|\bav/|decord|soundfile|librosa/core"
    ),
    "tokenise": regex(r"(?i)tokeni[sz]"),
    "transform": regex(
        r"(?i)transforms?/|albumentations|augment|^aten::(_?upsample\w*|interpolate|rot90|flip|grid_sampler\w*)$"
    ),
    "storage": regex(
        r"(?i)built-in (method|function) (open|read|readinto|readline|recv)\b|torch/serialization|zipfile\.py"
        r"|tarfile\.py|h5py/|lmdb|fsspec/|s3fs/|boto"
    ),
}
"""Names of operators and Python functions by what they do for a batch."""
OS_READS = regex(
    r"^(p?readv?|p?read64|fread|f?open(64)?|openat(64)?|f?getc|recv(from|msg)?|mmap(64)?|preadv2?)$"
)
"""Calls of the operating system that bring data from a file or a connection."""
WAITED_SHARE = 0.05  # a step that idles for less of its time because of input did not wait for it


class Loading(NamedTuple):
    """Loading of input in the steady steps."""

    workers: bool | None  # whether worker processes load; None where the names do not tell
    pinned: bool | None
    """Whether all input is copied from pinned memory; None where no such copy, or not its memory,
    was recorded."""
    waiting_steps: int  # steady steps in which the GPU waits for input, of ...
    steps: int
    stages: tuple[tuple[str, float], ...]
    """What the loading is in (names of `STAGES`), as shares of its time on the launching threads,
    largest first; empty where workers do it, or nothing in it was recorded."""
    os_share: float | None
    """Share of it in calls that read files and connections; None where such calls were not
    recorded."""


SMALL_BYTES = 64_000
"""Copies of up to this size take a few microseconds on any link: less than the host takes to ask
for them."""
MANY = 16
"""A batch of fewer tensors is usual (ids, masks, labels), and one copy for them saves little."""


def loaders_in(texts: Sequence[str]) -> tuple[bool, bool]:
    """Whether iterators of PyTorch's DataLoader without and with worker processes are among
    them."""
    single = "_SingleProcessDataLoaderIter"
    several = "_MultiProcessingDataLoaderIter"
    return any(single in text for text in texts), any(several in text for text in texts)


def loading(timed: Timed, budgets: StepBudgets | None) -> Loading | None:
    """How input is loaded; None where the launching threads do not load or wait for any."""
    steady = timed.steps.steady
    ranges = timed.trace.host_ranges
    inside = intersect(
        timed.timeline.states[HostState.INPUT],
        union(timed.steps.host_start[steady], timed.steps.host_end[steady]),
    )
    if not inside.total:
        return None
    named = timed.steady_host(ranges.start) & (ranges.name >= 0)
    names = distinct(ranges.name[named]).tolist()
    single, several = loaders_in([timed.trace.strings[code] for code in names])
    workers = several if single != several else None
    os_share = None
    stages: list[tuple[str, float]] = []
    if not workers:
        code = (ranges.kind == RangeKind.PYTHON) | (ranges.kind == RangeKind.OP)
        stages = [(name, _share(timed, code, test, inside)) for name, test in STAGES.items()]
        of_os = ranges.kind == RangeKind.OS
        os_share = _share(timed, of_os, OS_READS, inside) if of_os.any() else None
    return Loading(
        workers=workers,
        pinned=_pinned(timed),
        waiting_steps=_waiting_steps(budgets, steady),
        steps=timed.steps.steady_count,
        stages=_largest_first(stages),
        os_share=os_share,
    )


def _largest_first(stages: list[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """The stages that take any time."""
    taking = filter(itemgetter(1), stages)
    return tuple(sorted(taking, key=itemgetter(1), reverse=True))


def _pinned(timed: Timed) -> bool | None:
    """Whether all input comes from pinned memory; None where the recording does not tell."""
    rows = timed.joined.is_input_h2d & timed.steady_ops
    kinds = timed.trace.device_ops.source_memory[rows].tolist()
    if min(kinds, default=MemoryKind.UNKNOWN) == MemoryKind.UNKNOWN:
        return None
    return all(kind == MemoryKind.PINNED for kind in kinds)


def _waiting_steps(budgets: StepBudgets | None, steady: slice) -> int:
    """Steady steps of which the device waits for input."""
    if budgets is None:
        return 0
    idle = budgets.idle_by_cause[IdleCause.INPUT][steady]
    return int((idle > WAITED_SHARE * budgets.duration[steady]).sum())


def _share(timed: Timed, rows: Bool, test: re.Pattern[str], inside: IntervalSet) -> float:
    """Share of the loading within these ranges of such names on the launching threads."""
    ranges = timed.trace.host_ranges
    rows = rows & texts_where(timed.trace.strings, test.search)[ranges.name]
    rows &= np.isin(ranges.thread, [one.thread for one in timed.timeline.threads])
    return intersect(union(ranges.start[rows], ranges.end[rows]), inside).total / inside.total


class SmallCopies(NamedTuple):
    """Small copies from the host that the program asks for."""

    a_step: float
    median_bytes: float
    host_ms: float  # host time of a step in the calls and operators that make them
    device_ms: float  # time of a step that they take on the GPU
    operator: str | None  # the outermost operator that makes most of them


def which_small(joined: HostAttribution) -> Bool:
    """Which device ops are small copies from the host that the program asks for."""
    size = joined.trace.device_ops.bytes
    return joined.user_h2d & (size > 0) & (size <= SMALL_BYTES)


def small_copies(timed: Timed) -> SmallCopies | None:
    """The small copies of the steady steps; None where they are few."""
    rows = np.flatnonzero(which_small(timed.joined) & timed.steady_ops & (timed.linked.launch >= 0))
    ops = timed.trace.device_ops
    tree = timed.linked.tree
    steps = timed.steps.steady_count
    if len(rows) < MANY * steps:
        return None
    # each call of the API, or the outermost copying operator around it
    call = tree.node_of_call[timed.linked.launch[rows]]
    copying = (tree.kind == RangeKind.OP) & tree.named(
        texts_where(timed.trace.strings, COPYING.match)
    )
    outer = tree.outermost(copying)[call]
    node = np.where(outer >= 0, outer, call)
    asked = distinct(node)
    names = tree.names(node)
    known = names[names >= 0]
    usual = np.bincount(known).argmax() if len(known) else -1
    return SmallCopies(
        a_step=len(rows) / steps,
        median_bytes=float(np.median(ops.bytes[rows])),
        host_ms=ms(union(tree.start[asked], tree.end[asked]).total) / steps,
        device_ms=ms((ops.end - ops.start)[rows].sum()) / steps,
        operator=timed.trace.text(int(usual)),
    )
