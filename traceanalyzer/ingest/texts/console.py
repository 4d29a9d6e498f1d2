"""What torch.compile prints on a console (`TORCH_LOGS`, warnings): recompilations and their limit,
graph breaks."""

import re
from collections import Counter
from pathlib import Path

from traceanalyzer.base import counted, regex
from traceanalyzer.trace import PastedText

_LIMIT = regex(r"hit config\.(?:recompile_limit|cache_size_limit|accumulated_\w+) \((\d{1,9})\)")
_FUNCTION = regex(r"function: '([^'\n]{1,200})' \(([^()\n]{1,400}?)\)")
_LAST_REASON = regex(r"last reason:\s*(?:\d+/\d+:\s*)?([^\n]{1,300})")
_BREAK = regex(
    r"Graph break (?:in user code at|from (?:(?!Graph break from)[^\n])*? at|: from user code at:?)\s*([^\s]+:\d+)"
)
_BREAK_LINE = regex(r"\[__graph_breaks\]|Graph [Bb]reak(?: Reason| in user code)")
_REASON = regex(r"(?:Graph Break )?Reason:\s*(?!last)([^\n]{1,300})")
_AGAIN = regex(r"Recompiling function (\S{1,200}) in ([^\s]+:\d+)")
_GUARD = regex(r"^.*?-\s*(?:\d+/\d+:\s*)([^\n]{1,300})$", re.MULTILINE)
_MARKS = ("torch._dynamo", "torch/_dynamo", "[__recompiles]", "[__graph_breaks]")
SHOWN = 5
RECORD = (
    "For what each costs, with its time: `traceanalyzer collect torch --compile-log -- python "
    "train.py`, or TORCH_TRACE=FOLDER, then `traceanalyzer analyze FOLDER`."
)


def recognise(text: str) -> bool:
    """Whether a text has such messages."""
    if not any(mark in text for mark in _MARKS):
        return False
    return any(pattern.search(text) for pattern in (_LIMIT, _BREAK_LINE, _AGAIN))


def summarise(text: str, path: Path) -> PastedText | None:
    """How often it recompiled and broke, where and why."""
    breaks = Counter(_BREAK.findall(text))
    again = Counter(_AGAIN.findall(text))
    told_of = []
    limit = _LIMIT.search(text)
    if limit is not None:
        told_of.append(
            f"The limit of {limit[1]} recompilations was reached{_where(text)}: from there on the "
            "function runs without torch.compile"
        )
    if again:
        told_of.append(
            f"{counted(again.total(), 'recompilation')} of {counted(len(again), 'function')}"
        )
    if breaks:
        places = counted(len(breaks), "place")
        told_of.append(f"{counted(breaks.total(), 'graph break')} at {places}")
    elif not told_of and _BREAK_LINE.search(text):
        told_of.append(f"{len(_BREAK_LINE.findall(text)):,} lines on graph breaks")
    if not told_of:
        return None
    notes = [
        f"Graph break at {place}, {counted(count, 'time')}."
        for place, count in breaks.most_common(SHOWN)
    ]
    notes += [f"Break: {reason.strip()}." for reason in dict.fromkeys(_REASON.findall(text))][
        :SHOWN
    ]
    notes += [
        f"{name} ({place}) recompiled {counted(count, 'time')}."
        for (name, place), count in again.most_common(SHOWN)
    ]
    notes += _guards(text)
    return PastedText(
        what="Messages of torch.compile",
        tells=f"{'; '.join(told_of)}.",
        record=RECORD,
        notes=tuple(notes),
    )


def _where(text: str) -> str:
    found = _FUNCTION.search(text)
    return f" in {found[1]} ({found[2]})" if found else ""


def _guards(text: str) -> list[str]:
    """Why it recompiled: the guards that failed."""
    last = _LAST_REASON.search(text)
    guards = [guard.strip() for guard in _GUARD.findall(text)]
    if last is not None:
        guards.insert(0, last[1].strip())
    if not guards:
        return []
    notes = [f"Failed guard: {guard}." for guard in list(dict.fromkeys(guards))[:SHOWN]]
    if any("size mismatch" in guard or "size()" in guard for guard in guards):
        notes.append(
            "Sizes change from call to call: mark them (torch._dynamo.mark_dynamic), compile with "
            "dynamic=True, or pad to a few sizes."
        )
    return notes
