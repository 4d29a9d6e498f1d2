"""`chromium_events.json` of tlparse: how long each stage of torch.compile took."""

from collections import defaultdict
from pathlib import Path
from typing import Any

from traceanalyzer.base import counted, digits
from traceanalyzer.ingest.side_files import decoded, mapping, mappings
from traceanalyzer.trace import PastedText

_US_PER_S = 1e6
WHOLE = ("entire_frame_compile", "_compile.compile_inner", "dynamo", "entire_backward_compile")
"""What spans a compilation, as versions call it."""
SHOWN = 8
RECORD = (
    "For graph breaks, recompilations and what they cost: give the log itself "
    "(TORCH_TRACE=FOLDER), and a trace of the run with it."
)


def recognise(text: str) -> bool:
    """Whether a text begins like such a file."""
    return text.lstrip().startswith("[") and "dynamo_timed" in text


def summarise(text: str, path: Path) -> PastedText | None:
    """The time of each stage."""
    events = [e for e in mappings(decoded(text)) if isinstance(e.get("ts"), int | float)]
    spent = _spent_us(events)
    if not spent:
        return None
    longest = sorted(spent.items(), key=lambda item: -item[1])
    outermost = next((name for name in WHOLE if name in spent), None)
    total = spent[outermost] if outermost else longest[0][1]
    ids = [mapping(event.get("args")).get("compile_id") for event in events]
    compiled = {compile_id for compile_id in ids if isinstance(compile_id, str)}
    graphs = counted(len(compiled), "compilation") if compiled else "Compilation"
    return PastedText(
        what="Stages of torch.compile (chromium_events.json of tlparse)",
        tells=f"{graphs} took {digits(total / _US_PER_S)} s.",
        record=RECORD,
        notes=tuple(
            f"{name}: {digits(us / _US_PER_S)} s."
            for name, us in longest[:SHOWN]
            if name != outermost
        ),
    )


def _spent_us(events: list[dict[str, Any]]) -> dict[str, float]:
    """Time by name: of events with a length, and from a begin to its end."""
    spent: dict[str, float] = defaultdict(float)
    begun: dict[tuple[Any, Any, str], list[float]] = defaultdict(list)
    for event in events:
        name = str(event.get("name"))
        key = (event.get("pid"), event.get("tid"), name)
        kind = event.get("ph")
        if kind == "B":
            begun[key].append(float(event["ts"]))
        elif kind == "E" and begun[key]:
            spent[name] += float(event["ts"]) - begun[key].pop()
        elif kind == "X" and isinstance(event.get("dur"), int | float):
            spent[name] += float(event["dur"])
    return spent
