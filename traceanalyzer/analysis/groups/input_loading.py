"""How input is loaded, as far as the recording shows: by whom, from what memory, and what the time goes into."""

import re

import numpy as np

from traceanalyzer.analysis.algebra.intervals import IntervalSet, intersect, union
from traceanalyzer.analysis.algebra.lookup import texts_where
from traceanalyzer.analysis.causes.gaps import IdleCause
from traceanalyzer.analysis.tables.budget import StepBudgets
from traceanalyzer.analysis.time.host_timeline import HostState
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import Bool, MemoryKind, RangeKind

SINGLE = re.compile(r"_SingleProcessDataLoaderIter")
WORKERS = re.compile(r"_MultiProcessingDataLoaderIter")
"""Iterators of PyTorch's DataLoader without and with worker processes."""
STAGES = {
    "collate": re.compile(r"collate|default_convert|pin_memory\.py|^aten::(stack|cat)$", re.IGNORECASE),
    "decode": re.compile(r"decode|imread|jpeg|PIL/|torchvision/io|\bav/|decord|soundfile|librosa/core", re.IGNORECASE),
    "tokenise": re.compile(r"tokeni[sz]", re.IGNORECASE),
    "transform": re.compile(
        r"transforms?/|albumentations|augment|^aten::(_?upsample\w*|interpolate|rot90|flip|grid_sampler\w*)$",
        re.IGNORECASE,
    ),
    "storage": re.compile(
        r"built-in (method|function) (open|read|readinto|readline|recv)\b|torch/serialization|zipfile\.py|tarfile\.py"
        r"|h5py/|lmdb|fsspec/|s3fs/|boto",
        re.IGNORECASE,
    ),
}
"""Names of operators and Python functions by what they do for a batch."""
OS_READS = re.compile(
    r"^(p?readv?|p?read64|fread|open(at)?(64)?|fopen(64)?|f?getc|recv(from|msg)?|mmap(64)?|preadv2?)$"
)
"""Calls of the operating system that bring data from a file or a connection."""
WAITED_SHARE = 0.05
"""A step that idles for less of its time because of input did not wait for it."""


@dataclass(frozen=True, eq=False)
class Loading:
    """Loading of input in the steady steps."""

    workers: bool | None
    """Whether worker processes load; None where the names do not tell."""
    pinned: bool | None
    """Whether all input is copied from pinned memory; None where no such copy, or not its memory, was recorded."""
    waiting_steps: int
    """Steady steps in which the GPU waits for input, of ..."""
    steps: int
    stages: tuple[tuple[str, float], ...]
    """What the loading is in (names of `STAGES`), as shares of its time on the launching threads, largest first; empty
    where workers do it, or nothing in it was recorded."""
    os_share: float | None
    """Share of it in calls that read files and connections; None where such calls were not recorded."""


def loading(timed: Timed, budgets: StepBudgets | None) -> Loading | None:
    """How input is loaded; None where the launching threads do not load or wait for any."""
    inside = _loading_time(timed)
    if not inside.total:
        return None
    workers = _by_workers(timed)
    waiting, count = _waiting(timed, budgets)
    return Loading(
        workers=workers,
        pinned=_pinned(timed),
        waiting_steps=waiting,
        steps=count,
        stages=() if workers else tuple(_stages(timed, inside)),
        os_share=None if workers else _os_share(timed, inside),
    )


def _loading_time(timed: Timed) -> IntervalSet:
    """When the launching threads loaded in the steady steps."""
    steady = timed.steps.steady
    steps = union(timed.steps.host_start[steady], timed.steps.host_end[steady])
    return intersect(timed.timeline.states[HostState.INPUT], steps)


def _by_workers(timed: Timed) -> bool | None:
    strings, ranges = timed.trace.strings, timed.trace.host_ranges
    here = timed.steady_host(ranges.start)
    single, several = (bool(texts_where(strings, one.search)[ranges.name[here]].any()) for one in (SINGLE, WORKERS))
    return several if single != several else None


def _waiting(timed: Timed, budgets: StepBudgets | None) -> tuple[int, int]:
    steady = timed.steps.steady
    if budgets is None:
        return 0, timed.steps.steady_count
    waited = budgets.idle_by_cause[IdleCause.INPUT][steady] > WAITED_SHARE * budgets.duration[steady]
    return int(waited.sum()), len(waited)


def _pinned(timed: Timed) -> bool | None:
    ops = timed.trace.device_ops
    kinds = ops.source_memory[timed.joined.brings_input & timed.steady_ops]
    if not len(kinds) or (kinds == MemoryKind.UNKNOWN).any():
        return None
    return bool((kinds == MemoryKind.PINNED).all())


def _stages(timed: Timed, inside: IntervalSet) -> list[tuple[str, float]]:
    ranges, strings = timed.trace.host_ranges, timed.trace.strings
    known = (ranges.kind == RangeKind.PYTHON) | (ranges.kind == RangeKind.OP)
    shares = [
        (name, _share(timed, known & texts_where(strings, test.search)[ranges.name], inside))
        for name, test in STAGES.items()
    ]
    return sorted(((name, share) for name, share in shares if share > 0), key=lambda one: -one[1])


def _os_share(timed: Timed, inside: IntervalSet) -> float | None:
    ranges = timed.trace.host_ranges
    calls = ranges.kind == RangeKind.OS
    if not calls.any():
        return None
    return _share(timed, calls & texts_where(timed.trace.strings, OS_READS.search)[ranges.name], inside)


def _share(timed: Timed, rows: Bool, inside: IntervalSet) -> float:
    """Share of the loading within these ranges on the launching threads."""
    ranges = timed.trace.host_ranges
    rows = rows & np.isin(ranges.thread, [one.thread for one in timed.timeline.threads])
    return intersect(union(ranges.start[rows], ranges.end[rows]), inside).total / inside.total
