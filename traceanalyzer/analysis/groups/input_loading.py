"""How input is loaded, as far as the recording shows: by whom, from what memory, and what the time goes into."""

import re

import numpy as np

from traceanalyzer.analysis.algebra import IntervalSet, intersect, texts_where, union
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.tables.budget import StepBudgets
from traceanalyzer.analysis.time.host_timeline import HostState
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass
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
    steps, steady, ranges = timed.steps, timed.steps.steady, timed.trace.host_ranges
    windows = union(steps.host_start[steady], steps.host_end[steady])
    inside = intersect(timed.timeline.states[HostState.INPUT], windows)
    if not inside.total:
        return None

    def named(pattern: re.Pattern[str]) -> Bool:
        return texts_where(timed.trace.strings, pattern.search)[ranges.name]

    here = timed.steady_host(ranges.start)
    single, several = bool(named(SINGLE)[here].any()), bool(named(WORKERS)[here].any())
    waited = np.zeros(0, bool)
    if budgets is not None:
        waited = budgets.idle_by_cause[IdleCause.INPUT][steady] > WAITED_SHARE * budgets.duration[steady]
    kinds = timed.trace.device_ops.source_memory[timed.joined.brings_input & timed.steady_ops]
    workers, of_os = several if single != several else None, ranges.kind == RangeKind.OS
    code = (ranges.kind == RangeKind.PYTHON) | (ranges.kind == RangeKind.OP)
    shares = () if workers else ((name, _share(timed, code & named(test), inside)) for name, test in STAGES.items())
    return Loading(
        workers=workers,
        pinned=bool((kinds == MemoryKind.PINNED).all()) if len(kinds) and (kinds != MemoryKind.UNKNOWN).all() else None,
        waiting_steps=int(waited.sum()),
        steps=steps.steady_count,
        stages=tuple(sorted((one for one in shares if one[1] > 0), key=lambda one: -one[1])),
        os_share=_share(timed, of_os & named(OS_READS), inside) if not workers and of_os.any() else None,
    )


def _share(timed: Timed, rows: Bool, inside: IntervalSet) -> float:
    """Share of the loading within these ranges on the launching threads."""
    ranges = timed.trace.host_ranges
    rows = rows & np.isin(ranges.thread, [one.thread for one in timed.timeline.threads])
    return intersect(union(ranges.start[rows], ranges.end[rows]), inside).total / inside.total
