"""Profiles of the host alone, as people paste them: Lightning's simple profiler, Python's cProfile,
a dump of py-spy."""

import re
from pathlib import Path

from traceanalyzer.base import counted, dataclass, digits, regex
from traceanalyzer.trace import PastedText

_N = r"(\d[\d,]{0,15}(?:\.\d{1,12})?)"
_LIGHTNING = regex(
    rf"^\|([^|\n]{{2,200}})\|\s*{_N}\s*\|\s*(\d{{1,15}})\s*\|\s*{_N}\s*\|\s*{_N}\s*+%?\s*\|",
    re.MULTILINE,
)
_CPROFILE = regex(r"^(?>.*?function calls ).*?in (\d{1,15}\.?\d{0,15}) seconds", re.MULTILINE)
_CPROFILE_ROW = regex(
    r"^[^\S\n]*+(\d{1,15})(?:/\d{1,15})?\s+(\d{1,15}\.?\d{0,15})\s+\d{1,15}\.?\d{0,15}\s+(\d{1,15}\.?\d{0,15})\s+\d{1,15}\.?\d{0,15}\s+(\S[^\n]{0,200})$",
    re.MULTILINE,
)
_THREAD = regex(
    r'^Thread (?:0x)?[0-9A-Fa-f]{1,18} \((\w[\w+ ]{0,20})\)(?:: "([^"\n]{1,80})")?', re.MULTILINE
)
_FRAME = regex(r"^ {4}(\S[^\n(]{0,200}) \(([^()\n]{1,300}:\d{1,9})\)", re.MULTILINE)
_PROCESS = regex(r"^Process (\d{1,9}): ([^\n]{1,200})", re.MULTILINE)
_LIBRARIES = ("site-packages/", "dist-packages/", "torch/", "threading.py", "lib/python", "<frozen")
_DATA = regex(r"dataloader_next|get_train_batch|fetch_next|dataload", re.IGNORECASE)
_WHOLES = regex(r"^(?:run_training_epoch|run_training_batch|Total)$")
SHOWN = 4
MUCH_DATA = 0.2
"""From this share of the total_s on, the time for data is worth a word."""
RECORD = (
    "A profile of the host does not show the GPU: `traceanalyzer collect torch --stacks -- python "
    "train.py` records both."
)


@dataclass(frozen=True)
class _Spent:
    """What something took in all, and how often it ran."""

    name: str
    seconds: float
    calls: int


def recognise_lightning(text: str) -> bool:
    """Whether a text has the table of Lightning's simple profiler."""
    return "Mean duration (s)" in text and "Num calls" in text


def summarise_lightning(text: str, path: Path) -> PastedText | None:
    """What took longest, by action; actions stand within each other."""
    rows = [
        _Spent(name.strip(), _number(total), int(calls))
        for name, _, calls, total, _ in _LIGHTNING.findall(text)
        if int(calls)
    ]
    if not rows:
        return None
    total_s = max(row.seconds for row in rows)
    parts = [
        row for row in sorted(rows, key=lambda row: -row.seconds) if not _WHOLES.match(row.name)
    ]
    data = [row for row in rows if _DATA.search(row.name)]
    notes = [
        f"Waiting for data takes {row.seconds / total_s:.0%} of it: more workers, or a cheaper transform."
        for row in data[:1]
        if total_s and row.seconds >= MUCH_DATA * total_s
    ]
    return PastedText(
        what="The table of Lightning's simple profiler",
        tells=f"{digits(total_s)} s in all. {_listed(parts)}.",
        record=RECORD,
        notes=(
            *notes,
            "Its actions stand within each other, and calls return before the GPU is done.",
        ),
    )


def recognise_cprofile(text: str) -> bool:
    """Whether a text has the table of Python's cProfile."""
    return _CPROFILE.search(text) is not None and "tottime" in text


def summarise_cprofile(text: str, path: Path) -> PastedText | None:
    """Which functions took longest by themselves."""
    total_s = _CPROFILE.search(text)
    rows = [
        _Spent(name.strip(), _number(own), int(calls))
        for calls, own, _, name in _CPROFILE_ROW.findall(text)
    ]
    if total_s is None or not rows:
        return None
    ordered = sorted(rows, key=lambda row: -row.seconds)
    return PastedText(
        what="A table of cProfile",
        tells=f"{digits(_number(total_s[1]))} s in all; by themselves: {_listed(ordered)}.",
        record=RECORD,
        notes=(
            "A function that waits for the GPU (item, synchronize, cpu) has its time, not the kernels.",
        ),
    )


def recognise_stacks(text: str) -> bool:
    """Whether a text is a dump of py-spy."""
    return _THREAD.search(text) is not None and _FRAME.search(text) is not None


def summarise_stacks(text: str, path: Path) -> PastedText | None:
    """Where each thread is: its innermost frame, and the program's own line."""
    starts = list(_THREAD.finditer(text))
    ends = [*(following.start() for following in starts[1:]), len(text)]
    found = [_place(thread, text, end) for thread, end in zip(starts, ends, strict=True)]
    places = [place for place in found if place]
    process = _PROCESS.search(text)
    owner = f" of process {process[1]}" if process else ""
    if not places:
        return None
    return PastedText(
        what=f"Stacks{owner} at one moment (py-spy), {counted(len(places), 'thread')}",
        tells=places[0],
        record=(
            "Of a job that hangs give the Flight Recorder dumps of all ranks (`traceanalyzer analyze FOLDER`); of "
            "a slow one a recording: `traceanalyzer collect torch --stacks -- python train.py`."
        ),
        notes=tuple(places[1 : SHOWN + 1]),
    )


def _place(thread: re.Match[str], text: str, end: int) -> str:
    """Where a thread is, in a sentence; empty without frames."""
    frames = _FRAME.findall(text, thread.end(), end)
    if not frames:
        return ""
    name, at = frames[0]
    line = next((file for _, file in frames if not _is_of_library(file)), at)
    within = f", called at {line}" if line != at else ""
    return f"{thread[2] or 'A thread'} is in {name} ({at}){within}."


def _is_of_library(file: str) -> bool:
    return any(part in file for part in _LIBRARIES)


def _listed(rows: list[_Spent]) -> str:
    return ", ".join(
        f"{row.name} {digits(row.seconds)} s ({counted(row.calls, 'call')})" for row in rows[:SHOWN]
    )


def _number(text: str) -> float:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return 0.0
