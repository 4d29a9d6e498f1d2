"""Tracks over time on a recording's own clock, for a viewer."""

from dataclasses import field

from traceanalyzer.base import OWN, SENTENCE, dataclass
from traceanalyzer.trace import I32, I64


@dataclass(frozen=True)
class Label:
    """What a slice says. `kind` is the product's own word, the rest comes from the recording."""

    kind: str = field(metadata=OWN)
    name: str
    detail: str = field(metadata=SENTENCE, default="")


@dataclass(frozen=True, eq=False)
class Track:
    """Slices that do not overlap, in time order; those without a length are moments."""

    title: str = field(metadata=SENTENCE)
    start: I64  # on the recording's own clock, ns
    duration: I64
    label: I32 | I64  # index of each slice's label
    labels: list[Label]


@dataclass(frozen=True, eq=False)
class CounterTrack:
    """A number over time: from each moment on it has that value."""

    title: str = field(metadata=SENTENCE)
    time: I64
    value: I64


@dataclass(frozen=True, eq=False)
class Overlay:
    """Tracks of one process, in order of display."""

    path: str
    opens_in_viewer: bool  # as in `Trace`: then the overlay can be merged with it
    rank: int | None
    epoch_ns: int
    tracks: list[Track]
    counters: list[CounterTrack]
