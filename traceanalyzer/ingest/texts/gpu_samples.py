"""Samples of GPUs: `nvidia-smi dmon`, `nvidia-smi --query-gpu --format=csv`, `dcgmi dmon`, `xpu-smi
dump`, DCGM's metrics as an exporter prints them, and what `gpu_snapshots` reads."""

import csv
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from traceanalyzer.base import digits, plural, regex
from traceanalyzer.ingest.side_files import number_in
from traceanalyzer.ingest.texts.figures import mean
from traceanalyzer.ingest.texts.gpu_snapshots import Sample, snapshot_samples
from traceanalyzer.trace import PastedText

_DMON = regex(r"^#\s*(?:Date\s+Time\s+|Time\s+)?gpu\s.*\bsm\b", re.MULTILINE)
_DCGMI = regex(r"^#\s*(?:Entity|ID)\s.*\b(?:GRACT|SMACT|GPUTL|TENSO|DRAMA)\b", re.MULTILINE)
_QUERY = regex(
    r"^.*(?:\butilization\.gpu(?: \[%\])?\s*(?:,|$)|GPU Utilization \(%\))", re.MULTILINE
)
_UNTITLED = regex(r"^(?>[^\n]*?,[ \t]*\d{1,3} %,)[^\n]*\bMiB\b", re.MULTILINE)
"""Rows of a query without their header: units say what some columns are."""
_UNITS = {"%": "busy", "W": "power_w", "MiB": "memory_mib"}
_WITH_UNIT = regex(r"(\d{1,9}(?:\.\d{1,6})?) (%|W|MiB)")
_METRIC = regex(
    r'^(DCGM_FI_\w+)\{(?>[^}\n]*?gpu="(\d{1,9})")[^}\n]*+\}\s+([-+\d.eE]{1,30})', re.MULTILINE
)
_NUMBER = regex(r"-?\d{1,15}(?:\.\d{1,12})?")
_MOST_GPUS = 8  # that are listed
_NAMES = {
    "sm": "busy",
    "utilization.gpu [%]": "busy",
    "utilization.gpu": "busy",
    "GPU Utilization (%)": "busy",
    "GPU Power (W)": "power_w",
    "GPU Memory Used (MiB)": "memory_mib",
    "power.draw": "power_w",
    "memory.used": "memory_mib",
    "clocks.sm": "clock_mhz",
    "clocks.current.sm": "clock_mhz",
    "GPUTL": "busy",
    "DCGM_FI_DEV_GPU_UTIL": "busy",
    "GRACT": "graphics",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "graphics",
    "SMACT": "sms",
    "DCGM_FI_PROF_SM_ACTIVE": "sms",
    "TENSO": "tensor",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "tensor",
    "DRAMA": "dram",
    "DCGM_FI_PROF_DRAM_ACTIVE": "dram",
    "pwr": "power_w",
    "power.draw [W]": "power_w",
    "power.limit [W]": "limit_w",
    "enforced.power.limit [W]": "limit_w",
    "POWER": "power_w",
    "DCGM_FI_DEV_POWER_USAGE": "power_w",
    "pclk": "clock_mhz",
    "clocks.current.sm [MHz]": "clock_mhz",
    "clocks.sm [MHz]": "clock_mhz",
    "memory.used [MiB]": "memory_mib",
    "fb": "memory_mib",
}
"""What columns are, as each tool calls them."""
_BUSY = frozenset(name for name, what in _NAMES.items() if what == "busy")
_IDS_IN_QUERIES = ("index", "DeviceId", "uuid", "pci.bus_id")
_IDS_IN_COLUMNS = ("gpu", "Entity", "ID")
"""Columns that say which GPU a row is of."""
_WORDS = {
    "busy": "GPU utilisation {:.0%}",
    "graphics": "the GPU is active {:.0%} of the time",
    "sms": "SMs are busy {:.0%} of it",
    "tensor": "tensor cores {:.0%}",
    "dram": "memory {:.0%}",
}
_BUSY_TIMES = ("busy", "graphics", "sms")
UNEVEN = 0.15
"""GPUs whose busy time differs by more of the time than this do not work alike."""
ALWAYS = 0.9  # from this utilisation on a kernel runs nearly all the time
LITTLE_POWER = 0.4
"""Of the limit: a GPU that computes, or reads its memory, at its full rate draws more; one that idles
with its clocks up draws a seventh to a quarter."""
RECORD = (
    "What the GPU waits for, samples do not say: `traceanalyzer collect torch -- python train.py`, "
    "or {}, and analyse that."
)
_ELSE = (("ROCm System", "rocprofv3"), ("GPU Utilization (%)", "unitrace"))
"""What else records on other makers' GPUs, by a text that their tools print."""
_SLOWED = regex(r"^[^\S\n]++((?:SW|HW) [A-Z][A-Za-z ]{4,30}?)\s+: Active", re.MULTILINE)


def recognise(text: str) -> bool:
    """Whether a text holds such samples."""
    patterns = (_DMON, _DCGMI, _QUERY, _METRIC, _UNTITLED)
    return any(pattern.search(text) for pattern in patterns) or bool(snapshot_samples(text))


def summarise(text: str, path: Path) -> PastedText | None:
    """The mean of each figure, over all GPUs and by GPU."""
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for sample in _samples(text):
        scale = 0.01 if sample.what == "busy" else 1.0  # the others are shares, or have a unit
        values[sample.what][sample.gpu].append(sample.value * scale)
    if not values:
        return None
    gpus = {gpu for by_gpu in values.values() for gpu in by_gpu}
    means = {what: {gpu: mean(of) for gpu, of in by.items()} for what, by in values.items()}
    samples = max(len(of) for by in values.values() for of in by.values())
    figures = _figures({what: mean(by_gpu.values()) for what, by_gpu in means.items()})
    if not figures:
        return None
    sentence = f"{figures[0][0].upper()}{', '.join(figures)[1:]}"
    of_each = f"each of {len(gpus)} " if len(gpus) > 1 else "1 "
    return PastedText(
        what=f"{samples:,} {plural('sample', samples)} of {of_each}{plural('GPU', len(gpus))}",
        tells=f"{sentence}.",
        record=_record(text),
        notes=(*_notes(means, values), *_slowed(text)),
    )


def _figures(means: dict[str, float]) -> list[str]:
    """The figures in words."""
    figures = [words.format(means[what]) for what, words in _WORDS.items() if what in means]
    if "power_w" in means:
        figures.append(f"{digits(means['power_w'])} W")
    return figures


def _notes(
    means: dict[str, dict[str, float]], values: dict[str, dict[str, list[float]]]
) -> Iterator[str]:
    if "busy" in means:
        yield (
            "This utilisation counts the time with any kernel at all: a GPU at 100 % may still use a "
            "tenth of its SMs."
        )
    yield from _nearly_empty(means)
    by_gpu = next(filter(_are_uneven, (means.get(what, {}) for what in _BUSY_TIMES)), None)
    if by_gpu is not None:
        ordered = sorted(by_gpu.items(), key=lambda item: item[1])
        shown = ", ".join(f"GPU {gpu} {share:.0%}" for gpu, share in ordered[:_MOST_GPUS])
        yield f"The GPUs do not work alike: {shown}."
    clocks = [clock for of in values.get("clock_mhz", {}).values() for clock in of]
    if clocks and max(clocks) > 0:
        lowest = digits(min(clocks))
        highest = digits(max(clocks))
        reached = lowest if lowest == highest else f"{lowest} to {highest}"
        yield f"SM clock {reached} MHz."
    memory = [used for of in values.get("memory_mib", {}).values() for used in of]
    if memory:
        yield f"Most memory in use: {digits(max(memory) / 1024)} GiB."


def _nearly_empty(means: dict[str, dict[str, float]]) -> Iterator[str]:
    """That GPUs with a kernel nearly all the time draw little power."""
    for gpu, limit_w in means.get("limit_w", {}).items():
        busy = means.get("busy", {}).get(gpu, 0.0)
        power_w = means.get("power_w", {}).get(gpu)
        if power_w is None or busy < ALWAYS or power_w > LITTLE_POWER * limit_w:
            continue
        yield (
            f"GPU {gpu} draws {digits(power_w)} of {digits(limit_w)} W: there is a kernel nearly all the time, "
            "and it hardly uses the GPU."
        )


def _are_uneven(by_gpu: dict[str, float]) -> bool:
    return len(by_gpu) > 1 and max(by_gpu.values()) - min(by_gpu.values()) > UNEVEN


def _record(text: str) -> str:
    """What to record to know more, with the maker's own tool."""
    tools = [tool for mark, tool in _ELSE if mark in text]
    return RECORD.format(tools[0] if tools else "nsys")


def _slowed(text: str) -> Iterator[str]:
    """Why the clocks are down, as `nvidia-smi -q` says."""
    reasons = dict.fromkeys(_SLOWED.findall(text))
    if reasons:
        yield f"The clocks are held down: {', '.join(reasons)}."


def _samples(text: str) -> Iterator[Sample]:
    if _METRIC.search(text):
        for name, gpu, value in _METRIC.findall(text):
            yield from _sample(gpu, name, value)
    elif _QUERY.search(text):
        yield from _of_query(text)
    elif _DMON.search(text) or _DCGMI.search(text):
        yield from _of_columns(text)
    else:
        yield from snapshot_samples(text) or _of_rows(text)


def _sample(gpu: str, name: str, value: str) -> Iterator[Sample]:
    read = number_in(value)
    if name in _NAMES and read is not None:
        yield Sample(gpu, _NAMES[name], read)


def _of_query(text: str) -> Iterator[Sample]:
    """`nvidia-smi --query-gpu=... --format=csv`."""
    for row in _rows_of_query(text):
        gpu = next(filter(None, map(row.get, _IDS_IN_QUERIES)), "0")
        for name, cell in row.items():
            number = _NUMBER.match(cell)
            if number is not None:
                yield from _sample(gpu, name, number[0])


def _rows_of_query(text: str) -> Iterator[dict[str, str]]:
    """The rows by column; a file may hold its header again."""
    header: list[str] = []
    for line in text.splitlines():
        try:
            cells = [cell.strip() for cell in next(csv.reader([line]), [])]
        except csv.Error:
            continue
        if _BUSY.intersection(cells):
            header = cells
        elif len(cells) == len(header):
            yield dict(zip(header, cells, strict=True))


def _of_rows(text: str) -> Iterator[Sample]:
    """Rows of a query without a header: the first whole number in a cell of its own is the GPU's,
    and of each unit the first cell counts."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        gpu = next((cell for cell in cells if cell.isdigit()), "0")
        seen: set[str] = set()
        for cell in cells:
            found = _WITH_UNIT.fullmatch(cell)
            if found is not None and found[2] not in seen:
                seen.add(found[2])
                yield Sample(gpu, _UNITS[found[2]], float(found[1]))


def _of_columns(text: str) -> Iterator[Sample]:
    """`nvidia-smi dmon`, `dcgmi dmon`: a header of names, and columns of numbers."""
    names: list[str] = []
    for line in text.splitlines():
        cells = line.lstrip("# ").split()
        if line.startswith("#"):
            names = names if _NAMES.keys().isdisjoint(cells) else cells
            continue
        if cells[:1] == ["GPU"]:  # `GPU 0`
            cells = cells[1:]
        if names and len(cells) == len(names):
            gpu = cells[next((i for i, name in enumerate(names) if name in _IDS_IN_COLUMNS), 0)]
            for name, cell in zip(names, cells, strict=True):
                yield from _sample(gpu, name, cell)
