"""What a stored report says of its run beside the figures: the program, and where its step comes
from."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, Literal

import msgspec

from traceanalyzer.base import UnreadableInputError, dataclass, regex

StepBasis = Literal["measured", "estimated", "recorded"]
GIVEN_NAME = regex(
    r"(?:trace|timings?|nsys|rocprofv3|snapshot|profile|report|rank)?[._-]?(?:rank[._-]?\d+)?"
)
"""What recorders call a file themselves: the folder names the run."""
OF_A_TIME = regex(r"\d{9}")
"""In names that hold a time, as recorders give them, too."""
SUFFIXES = regex(
    r"(?:\.(?:pt|trace|json|jsonl|gz|xz|zst|sqlite|nsys-rep|csv|log|txt|pickle|pftrace|xplane|pb|db))+$"
)


@dataclass(frozen=True)
class Said:
    """What the report of a run says."""

    name: str  # its command, else its recording; empty where it says neither
    basis: StepBasis  # what its step rests on: a stopwatch, a replay, or the recording


NOTHING_SAID = Said("", "recorded")


class _Condition(msgspec.Struct):
    name: str
    value: Any = None


class _Tables(msgspec.Struct):
    conditions: list[_Condition] = []


class _Input(msgspec.Struct):
    path: str = ""


class _Summary(msgspec.Struct):
    basis: str = ""


class _Unprofiled(msgspec.Struct):
    source: str = ""


class _Metrics(msgspec.Struct):
    step_source: str = ""
    unprofiled: _Unprofiled | None = None


class _Report(msgspec.Struct):
    """What of a stored report is read here."""

    inputs: list[_Input] = []
    summary: _Summary = msgspec.field(default_factory=_Summary)
    metrics: _Metrics = msgspec.field(default_factory=_Metrics)
    tables: _Tables = msgspec.field(default_factory=_Tables)


def said_by(report: str) -> Said:
    """What a stored report says. Raises UnreadableInputError where it is damaged."""
    try:
        read = msgspec.json.decode(report, type=_Report)
    except msgspec.MsgspecError as error:
        raise UnreadableInputError(f"the history is damaged: {error}") from error
    paths = [item.path for item in read.inputs]
    return Said(_command(read) or recording_name(paths), _basis(read))


def _command(report: _Report) -> str:
    """The command that was recorded, where it says more than the interpreter."""
    found = (str(one.value) for one in report.tables.conditions if one.name == "command")
    command = next(found, "")
    return command if " " in command else ""


def _basis(report: _Report) -> StepBasis:
    unprofiled = report.metrics.unprofiled
    if report.summary.basis == "unprofiled" and unprofiled:
        return "measured" if unprofiled.source == "measured" else "estimated"
    return "measured" if report.metrics.step_source == "timing_log" else "recorded"


def recording_name(paths: Sequence[str]) -> str:
    """The name of a recording: its file's, or its folder's where a recorder named the file or there
    are several; empty without files."""
    if not paths:
        return ""
    file = PurePath(paths[0])
    name = SUFFIXES.sub("", file.name)
    is_given = GIVEN_NAME.fullmatch(name) or OF_A_TIME.search(name)
    is_of_folder = len(paths) > 1 or is_given
    return file.parent.name or name if is_of_folder else name
