"""Switches of serving engines: what each changes, and how each engine spells it."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from traceanalyzer.base import dataclass
from traceanalyzer.diagnosis.finding import BottleneckClass


@dataclass(frozen=True)
class Spelling:
    """A switch in the words of one engine."""

    flag: str
    version: str  # of the engine, in which it is spelled so
    source: str  # the page that says so


@dataclass(frozen=True)
class ServingSwitch:
    """A change of how iterations are launched."""

    change: str
    cls: BottleneckClass
    remedy: str
    words: str
    engines: Mapping[str, Spelling]

    def said(self, engine: str | None) -> str:
        """What to do, in the flags of this engine; of all where it is not known."""
        known = self.engines.get(engine or "")
        if known is not None:
            return f"{self.words} ({engine}: {known.flag})"
        if not self.engines:
            return self.words
        each = "; ".join(f"{name}: {one.flag}" for name, one in self.engines.items())
        return f"{self.words} ({each})"


@cache
def switches() -> dict[str, ServingSwitch]:
    """The switches of `switches.toml`, by what they change."""
    text = Path(__file__).with_name("switches.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["switch"]
    return {
        entry["change"]: ServingSwitch(
            change=entry["change"],
            cls=entry["class"],
            remedy=entry["remedy"],
            words=entry["words"],
            engines=msgspec.convert(entry.get("engines", {}), dict[str, Spelling]),
        )
        for entry in entries
    }


def is_flag(action: str) -> bool:
    """Whether what an advice says to do is a switch that engines have a flag for."""
    return any(
        switch.engines and action.startswith(f"{switch.words} (") for switch in switches().values()
    )
