"""What the trials of a saved answer (`try.json`) found, for who reads it as a report."""

from collections.abc import Sequence
from dataclasses import field
from os.path import isfile
from pathlib import Path

import msgspec

from traceanalyzer.base import dataclass, digits, metric
from traceanalyzer.report.document import Document, Section, Table
from traceanalyzer.report.printed import Printed

MOST_BYTES = 1 << 26
MARK = b'"trials"'
TITLE = "Trials"
NOTHING = "Nothing that was tried makes the step shorter."
NOT_ASKED = "-"


@dataclass(frozen=True)
class SavedStep:
    """The step of several runs, ms."""

    ms: float
    low_ms: float
    high_ms: float


@dataclass(frozen=True)
class SavedSwitch:
    """A switch that was tried."""

    switch: str
    outcome: str
    why: str = ""
    measured: SavedStep | None = None
    speedup: float | None = None
    changes_numerics: bool = False
    write: str = ""
    where: str = ""
    on_top_of: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class SavedTrials:
    """What `try.json` has of them; what is of no use here is left out."""

    base: SavedStep
    switches: list[SavedSwitch]
    best: list[str] = field(default_factory=list)
    best_step: SavedStep | None = None
    best_base: SavedStep | None = None
    not_supported: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answered:
    """A report whose trials are known."""

    trials: SavedTrials


@dataclass(frozen=True)
class TriedRow:
    """A switch of one answer."""

    switch: str = metric("what was put on; + on top of what had won", text="own")
    step_ms: float | None = metric("the step with it; null where it was not timed")
    speedup: float | None = metric("the step without it over that; null where it was not timed")
    result: str = metric("what came of it", text="sentence")
    write: str = metric("what to write into the program, where that is faster", text="sentence")


@dataclass(frozen=True)
class BothTriedRow:
    """A switch of two answers."""

    switch: str = metric("what was put on", text="own")
    a: str = metric("what came of it in A", text="sentence")
    b: str = metric("what came of it in B", text="sentence")


def trials_in(reference: str) -> SavedTrials | None:
    """The trials of a saved answer; None where the reference names something else."""
    if not isfile(reference) or Path(reference).stat().st_size > MOST_BYTES:
        return None
    text = Path(reference).read_bytes()
    if not text.startswith(b"{") or MARK not in text:
        return None
    try:
        return msgspec.json.decode(text, type=Answered).trials
    except msgspec.DecodeError:
        return None


def headline_of_saved(trials: SavedTrials) -> str:
    """What the trials found, in a sentence."""
    if trials.best_step is None or trials.best_base is None or not trials.best_step.ms:
        return f"{NOTHING} It is {digits(trials.base.ms)} ms."
    before = trials.best_base.ms
    after = trials.best_step.ms
    steps = f"{digits(before)} → {digits(after)} ms a step"
    return f"{steps}, {before / after:.2f}x, with {', '.join(trials.best)}."


def tried_document(trials: SavedTrials) -> Printed:
    """The trials of one answer."""
    rows = [
        TriedRow(
            switch=f"+ {one.switch}" if one.on_top_of else one.switch,
            step_ms=None if one.measured is None else one.measured.ms,
            speedup=one.speedup,
            result=_result(one),
            write=_written(one) if one.switch in trials.best else "",
        )
        for one in trials.switches
    ]
    section = Section(TITLE, [headline_of_saved(trials), Table(rows)])
    return Printed(Document(TITLE, [section]), rows)


def compared_section(before: SavedTrials | None, after: SavedTrials | None) -> Section | None:
    """The trials of two answers, switch by switch; None where neither has any."""
    if before is None and after is None:
        return None
    sides = (before, after)
    heads = [
        f"{name}: {headline_of_saved(side)}"
        for name, side in zip("AB", sides, strict=True)
        if side is not None
    ]
    names = dict.fromkeys(
        one.switch for side in sides if side for one in side.switches if not one.on_top_of
    )
    rows = [BothTriedRow(name, _came_of(name, before), _came_of(name, after)) for name in names]
    return Section(TITLE, [*heads, Table(rows)])


def _came_of(name: str, trials: SavedTrials | None) -> str:
    """What came of a switch, in a clause."""
    if trials is None:
        return NOT_ASKED
    found = _first(name, trials.switches)
    if found is None:
        return trials.not_supported.get(name, NOT_ASKED)
    times = f"{found.speedup:.2f}x, " if found.speedup else ""
    best = ", among the best" if name in trials.best else ""
    return f"{times}{_result(found)}{best}"


def _first(name: str, switches: Sequence[SavedSwitch]) -> SavedSwitch | None:
    return next((one for one in switches if one.switch == name and not one.on_top_of), None)


def _result(switch: SavedSwitch) -> str:
    if switch.changes_numerics:
        return f"{switch.outcome}, changes numerics"
    return f"{switch.outcome}: {switch.why}" if switch.why else switch.outcome


def _written(switch: SavedSwitch) -> str:
    return f"{switch.where}: {switch.write}" if switch.where else switch.write
