"""What to do about a loader that is too slow, by what the recording shows of it."""

from collections.abc import Iterator

from traceanalyzer.analysis.groups.input_loading import Loading
from traceanalyzer.diagnosis.effort import HOURS
from traceanalyzer.diagnosis.finding import Evidence, Words
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.trace.run import TORCH_PROFILER

LARGE_STAGE = 0.25  # a stage with less of the loading time is not where it goes
FEW_STEPS_SHARE = 0.25
"""Waits in fewer of the steps than this are those of an epoch's start, or of single slow
batches."""
ENOUGH_STEPS = 8  # with fewer recorded steps a share of them says nothing
BUSY_CPUS_SHARE = 90.0
"""Per cent of the host's CPUs in use, above which more workers find no free core."""
IO_WAIT_SHARE = 10.0
"""Per cent of the CPUs' time spent waiting for a disk, above which storage is slow: 0 to 2 where
data is cached."""
LOADS = {
    "host: CPUs busy": BUSY_CPUS_SHARE,
    "host: CPUs idle while a disk is waited for": IO_WAIT_SHARE,
}
"""Samples of the host that are evidence, and what is much of each, %."""
STAGES = {
    "collate": ("Building the batch is", "collate arrays, not lists, into one preallocated tensor"),
    "decode": (
        "Decoding is",
        "decode once and store, in a smaller size, or on the GPU (nvJPEG, DALI)",
    ),
    "tokenise": ("Tokenising is", "tokenise once and store the ids"),
    "transform": (
        "Transforms are",
        "do them on the GPU for the whole batch (torchvision.transforms.v2)",
    ),
    "storage": (
        "Reading is",
        "fewer and larger files (WebDataset, LMDB, Parquet), a local disk, a cache in memory",
    ),
}
"""What takes the time in each stage, and what to do."""


def action(found: Loading | None, workers: int | None = None, *, has_loader: bool = True) -> str:
    """What to type, for a program with PyTorch; `workers` is how many the loading needs, where that
    is known; `has_loader`: whether it may have a DataLoader."""
    pinned = "" if found is not None and found.pinned else ", pin_memory=True"
    count = f"num_workers{'> 0' if workers is None else f'={workers}'}"
    how = f"DataLoader(..., {count}{pinned}, persistent_workers=True)"
    if not has_loader:
        who = (
            f"Prepare the next input while the GPU works: {how}, or threads of your own; a single input has nothing "
            "to overlap"
        )
    elif found is None or not found.workers:
        who = f"Load ahead of the step: {how}"
    elif found.steps >= ENOUGH_STEPS and 0 < found.waiting_steps <= FEW_STEPS_SHARE * found.steps:
        who = (
            f"The loader has workers, and {found.waiting_steps} of {found.steps} steps wait: keep the workers "
            f"over epochs (persistent_workers=True), more batches ready (prefetch_factor){pinned}"
        )
    else:
        who = (
            "The loader has workers, and they do not keep up: raise num_workers while the host has idle cores, then "
            "make each batch cheaper (decode and transform less, or on the GPU)"
            f"{pinned.replace(', ', '; ')}"
        )
    return ". ".join([who, *(_where(found) if found is not None else ())]) + "."


def has_loader(m: Measurements) -> bool:
    """Whether the program may have a DataLoader: torch.profiler names its iterator, other recorders
    do not."""
    is_named = m.loading is not None and m.loading.workers is not None
    return is_named or m.trace.source not in TORCH_PROFILER


def load_ahead(
    m: Measurements, cuda: str, jax: str | None = None, workers: int | None = None
) -> Words:
    """What to do so that data is there when it is needed, in programs of each framework; a program
    that has to be given a DataLoader takes longer than a change of one."""
    found = has_loader(m)
    pytorch = action(m.loading, workers, has_loader=found)
    return Words(pytorch, cuda, jax, effort=None if found else HOURS)


def _where(found: Loading) -> list[str]:
    large = {stage: share for stage, share in found.stages if share >= LARGE_STAGE}
    if found.os_share is not None and found.os_share >= LARGE_STAGE:
        large.setdefault("storage", found.os_share)
    return [
        f"{STAGES[stage][0]} {share:.0%} of the loading: {STAGES[stage][1]}"
        for stage, share in large.items()
    ]


def evidence(m: Measurements, loading: Loading) -> Iterator[Evidence]:
    """What the recording shows of the loader."""
    if loading.workers is not None:
        yield Evidence(
            "loaded by",
            "worker processes" if loading.workers else "the launching thread",
            "",
            "DataLoader",
        )
    if loading.workers and loading.waiting_steps < loading.steps:
        yield Evidence(
            "steps that wait for input",
            loading.waiting_steps,
            "",
            f"of {loading.steps} steady steps",
        )
    for stage, share in loading.stages:
        if share >= LARGE_STAGE:
            yield Evidence(
                f"loading time in {stage}", share, "share", "of the loading, by names of functions"
            )
    if loading.os_share is not None:
        yield Evidence(
            "loading time in calls that read",
            loading.os_share,
            "share",
            "of the loading, calls to the OS",
        )
    for load in m.trace.loads:
        least = LOADS.get(load.what)
        if least:
            samples = f"mean of {load.samples} samples of the run"
            yield Evidence(load.what, load.mean / 100, "share", samples, least / 100)
