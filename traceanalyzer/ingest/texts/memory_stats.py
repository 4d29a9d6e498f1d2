"""`torch.cuda.memory_stats()` as JSON or as Python prints it, and the memory that examples of PEFT and
Accelerate print around a training."""

import re
from collections.abc import Iterator
from pathlib import Path

from traceanalyzer.base import counted, regex
from traceanalyzer.ingest.texts.figures import MIB, sized
from traceanalyzer.ingest.texts.memory_summary import FRAGMENTED_SHARE, RECORD
from traceanalyzer.trace import PastedText

_PAIR = regex(
    r"""["'](?P<name>[a-z_]{3,40}(?:\.all\.(?:current|peak))?)["']\s*[:,]\s*(?P<value>\d{1,18})\b"""
)
_PEAK = "allocated_bytes.all.peak"
_AROUND = regex(
    r"^(?P<cpu>CPU )?(?:Total Peak Memory consumed during the (?P<phase>\w{3,10}) \(max\))\s*:\s*(?P<mib>\d{1,9})\s*$",
    re.MULTILINE,
)


def recognise(text: str) -> bool:
    """Whether a text is such a dictionary."""
    return f'"{_PEAK}"' in text or f"'{_PEAK}'" in text


def summarise(text: str, path: Path) -> PastedText | None:
    """What was allocated and reserved at the peak, and what was held at the end."""
    found: dict[str, int] = {}
    for pair in _PAIR.finditer(text):
        found.setdefault(pair["name"], int(pair["value"]))
    peak = found.get(_PEAK)
    if peak is None:
        return None
    reserved = found.get("reserved_bytes.all.peak")
    now = found.get("allocated_bytes.all.current")
    held = f", {sized(reserved)} reserved" if reserved else ""
    still = f"; {sized(now)} are now" if now is not None else ""
    return PastedText(
        what="Statistics of PyTorch's allocator (torch.cuda.memory_stats)",
        tells=f"At its peak {sized(peak)} were allocated{held}{still}.",
        record=RECORD,
        notes=tuple(_notes(found, text.count(_PEAK))),
    )


def _notes(found: dict[str, int], dictionaries: int) -> Iterator[str]:
    retries = found.get("num_alloc_retries", 0)
    if retries:
        yield (
            f"{counted(retries, 'time')} the allocator found no memory and emptied its cache: that stalls the GPU. "
            "Use less memory, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."
        )
    if found.get("num_ooms", 0):
        yield f"{counted(found['num_ooms'], 'allocation')} failed for lack of memory."
    split = found.get("inactive_split_bytes.all.current", 0)
    reserved = found.get("reserved_bytes.all.current", 0)
    if reserved and split > FRAGMENTED_SHARE * reserved:
        yield f"{sized(split)} lie unused in blocks that cannot be given back: fragmentation."
    if dictionaries > 1:
        yield f"The text holds {dictionaries} dictionaries; the first is read."


def recognise_around(text: str) -> bool:
    """Whether a text has the memory of a phase as PEFT's and Accelerate's examples print it."""
    return _AROUND.search(text) is not None


def summarise_around(text: str, path: Path) -> PastedText | None:
    """The most memory of the GPU and of the host, by phase."""
    gpu: dict[str, float] = {}
    host: dict[str, float] = {}
    for found in _AROUND.finditer(text):
        kept = host if found["cpu"] else gpu
        phase = found["phase"]
        size = float(found["mib"]) * MIB
        kept[phase] = max(kept.get(phase, 0.0), size)
    if not gpu:
        return None
    listed = ", ".join(f"{sized(size)} during {phase}" for phase, size in gpu.items())
    most = ", ".join(f"{sized(size)} during {phase}" for phase, size in host.items())
    return PastedText(
        what="Peak memory around phases of a training (TorchTracemalloc)",
        tells=f"At most {listed} of GPU memory.",
        record=RECORD,
        notes=(f"Of the host's memory at most {most}.",) if most else (),
    )
