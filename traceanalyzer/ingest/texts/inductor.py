"""What torch.compile's backend prints: CUDA graphs that it skips, hints at performance, the choice of
kernels (autotune), and the table of its compile times."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from traceanalyzer.base import counted, digits, regex
from traceanalyzer.trace import PastedText

_SKIPPED = regex(
    r"skipping cudagraphs due to ([^\n]{3,120}?)(?:\s*\(\d+ instances\))?\.?(?: Found from\b[^\n]*)?$",
    re.MULTILINE,
)
_AT = regex(r"skipping cudagraphs[^\n]*\n\s+File \"([^\"\n]{1,300})\", line (\d{1,9})")
_HINT = regex(r"\[__perf_hints\] (?:\[[^\]\n]*\] )?([^\n]{5,200})")
_AUTOTUNE = regex(
    r"^[ \t]*AUTOTUNE (\w{2,40}\([^)\n]{0,200}\))[^\S\n]*+\n(?:[^\S\n]*+\n)*+(?:(?:strides|dtypes):[^\n]*+\n)*+"
    r"\s*+(\w{1,80}) (\d{1,15}\.?\d{0,15}) ms 100\.0%",
    re.MULTILINE,
)
_TIMES = regex(r"TorchDynamo compilation metrics:")
_STAGE = regex(
    r"^([A-Za-z_][\w.<>]{2,120})\s{2,}(\d{1,12}+\.?+\d{0,12}+(?:, \d{1,12}+\.?+\d{0,12}+)*+)[^\S\n]*+$",
    re.MULTILINE,
)
SHOWN = 5
RECORD = (
    "For what it costs in a step: `traceanalyzer collect torch --compile-log -- python train.py`, then "
    "`traceanalyzer analyze FOLDER`."
)


def recognise(text: str) -> bool:
    """Whether a text has such messages."""
    return any(pattern.search(text) for pattern in (_SKIPPED, _HINT, _AUTOTUNE, _TIMES))


def summarise(text: str, path: Path) -> PastedText | None:
    """What it skipped, chose and hinted at, and how long stages took."""
    skipped = Counter(reason.strip() for reason in _SKIPPED.findall(text))
    hints = Counter(hint.strip().rstrip(".") for hint in _HINT.findall(text))
    chosen = _AUTOTUNE.findall(text)
    stages = _stages(text) if _TIMES.search(text) else []
    parts = []
    if skipped:
        parts.append(f"CUDA graphs were skipped {counted(skipped.total(), 'time')}")
    if chosen:
        parts.append(f"a kernel was chosen for {counted(len(chosen), 'product')}")
    if stages:
        parts.append(f"{stages[0][0]} took {digits(stages[0][1])} s in all")
    if hints:
        parts.append(counted(hints.total(), "hint"))
    if not parts:
        return None
    sentence = "; ".join(parts)
    first = sentence[0].upper() if skipped or chosen else sentence[0]
    return PastedText(
        what="Messages of torch.compile's backend",
        tells=f"{first}{sentence[1:]}.",
        record=RECORD,
        notes=(
            *_skipped_at(skipped, text),
            *(f"{product}: {kernel}, {time} ms." for product, kernel, time in chosen[:SHOWN]),
            *_counted(hints),
            *(f"{name}: {digits(seconds)} s." for name, seconds in stages[1:SHOWN]),
        ),
    )


def _skipped_at(skipped: Counter[str], text: str) -> Iterator[str]:
    """Why CUDA graphs were skipped, and at which lines."""
    for reason, times in skipped.most_common(SHOWN):
        yield f"Skipped for {reason}: {counted(times, 'time')}."
    for file, line in dict.fromkeys(_AT.findall(text)):
        yield f"At {file}:{line}."


def _counted(hints: Counter[str]) -> Iterator[str]:
    for hint, times in hints.most_common(SHOWN):
        yield f"{hint}: {counted(times, 'time')}."


def _stages(text: str) -> list[tuple[str, float]]:
    """The stages of a compilation and their times, the longest first."""
    found = [
        (
            name,
            sum(float(part) for part in times.split(", ") if part.count(".") < 2 and part != "."),
        )
        for name, times in _STAGE.findall(text)
    ]
    return sorted(found, key=lambda stage: -stage[1])
