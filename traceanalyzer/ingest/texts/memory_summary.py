"""What `torch.cuda.memory_summary()` prints."""

import re
from pathlib import Path

from traceanalyzer.base import regex
from traceanalyzer.ingest.texts.figures import size_in, sized
from traceanalyzer.trace import PastedText

_TITLE = regex(r"PyTorch \w+ memory summary, device ID\s*(\d{1,9})")
_COUNT = regex(r"(CUDA OOMs|cudaMalloc retries):\s*(\d{1,12})")
_ROW = regex(r"^\|\s*+([A-Z][\w -](?: *+[\w-]++)*+)\s*+\|([^|]++)\|([^|]++)\|", re.MULTILINE)
FRAGMENTED_SHARE = 0.1
"""Above this share of what is reserved, memory in blocks that cannot be given back is worth a word."""
RECORD = (
    "To see which tensors these are: `traceanalyzer collect torch --memory-snapshot -- python "
    "train.py` (torch.cuda.memory._record_memory_history, _dump_snapshot)."
)


def recognise(text: str) -> bool:
    """Whether a text is such a summary."""
    return _TITLE.search(text) is not None


def summarise(text: str, path: Path) -> PastedText | None:
    """What the first summary says."""
    titles = list(_TITLE.finditer(text))
    end = titles[1].start() if len(titles) > 1 else len(text)
    summary = text[titles[0].start() : end]
    now: dict[str, float] = {}
    peak: dict[str, float] = {}
    for name, current, most in _ROW.findall(summary):
        for sizes, cell in ((now, current), (peak, most)):
            size = size_in(cell)
            if size is not None:
                sizes.setdefault(name.lower(), size)
    if "allocated memory" not in peak:
        return None
    counts = {name: int(count) for name, count in _COUNT.findall(summary)}
    reserved = peak.get("gpu reserved memory")
    held = f", {sized(reserved)} reserved" if reserved else ""
    return PastedText(
        what=f"A memory summary of PyTorch, GPU {titles[0][1]}",
        tells=(
            f"At its peak {sized(peak['allocated memory'])} were allocated{held}; "
            f"{sized(now.get('allocated memory', 0.0))} are now."
        ),
        record=RECORD,
        notes=tuple(_notes(counts, now, len(titles))),
    )


def _notes(counts: dict[str, int], now: dict[str, float], summaries: int) -> list[str]:
    notes = []
    retries = counts.get("cudaMalloc retries", 0)
    if retries:
        notes.append(
            f"{retries:,} times cudaMalloc failed and the cache was emptied: that stalls the GPU. "
            "Use less memory, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."
        )
    if counts.get("CUDA OOMs", 0):
        notes.append(f"{counts['CUDA OOMs']:,} allocations failed for lack of memory.")
    stuck = now.get("non-releasable memory", 0.0)
    reserved = now.get("gpu reserved memory", 0.0)
    if reserved and stuck > FRAGMENTED_SHARE * reserved:
        notes.append(
            f"{sized(stuck)} lie unused in blocks that cannot be given back: fragmentation."
        )
    if summaries > 1:
        notes.append(f"The text holds {summaries} summaries; the first is read.")
    return notes
