"""A figure carries its definition and unit with it: `metric()` is the field of every measurement.

The report's definitions, the headers of its tables and the documentation are all read from here."""

import math
from collections.abc import Mapping
from dataclasses import Field, field, fields
from functools import partial
from typing import Any, Literal

from traceanalyzer.base.frozen import dataclass

Text = Literal["name", "sentence", "own", "scenario"]
"""What the text in a field is, and so what `--redact` does with it. `name`: one name of the
program's, or a path of names (so is every field that does not say). `sentence`: names may stand
among other words. `own`: words of this product's, a fixed set, which stay. `scenario`: own words as
well, but with a `=` what a user asked for."""
OWN: Mapping[str, Text] = {"text": "own"}
SENTENCE: Mapping[str, Text] = {
    "text": "sentence"
}  # the same as metadata of a field that needs no definition
MEMORY = "bytes of GPU memory"
"""The unit of figures that people are shown in GiB and MiB, as PyTorch's messages have them."""


NS_PER_S = 1e9
NS_PER_MS = 1e6
NS_PER_US = 1e3
MS_PER_S = 1e3
MANY_TIMES = 10.0  # a growth by as much reads as a multiple, not per cent
ELLIPSIS = "…"
ENDINGS = {1: "st", 2: "nd", 3: "rd"}
"""Of numbers in an order, by their last digit."""


def metric(definition: str, unit: str = "", text: Text = "name", **options: Any) -> Any:
    """A dataclass field for a measured figure. `unit` is `bytes`, `1/s`, ... or empty: a name that
    ends with its unit (`_ms`, `_share`) says it itself. `text` says what a text in it is; `options`
    are those of `dataclasses.field`."""
    metadata = {"definition": definition, "unit": unit, "text": text}
    return field(metadata=metadata, **options)


maybe = partial(
    metric, default=None
)  # a figure that only some recordings, or some versions of the report, have


def text_kind_of(data_field: Field[Any]) -> Text:
    """What the text in a field is."""
    return data_field.metadata.get("text", "name")


@dataclass(frozen=True)
class Definition:
    """What a figure means."""

    name: str
    unit: str
    definition: str


def definitions(measurement: type[Any]) -> list[Definition]:
    """The definitions of a measurement's figures, in the order of its fields."""
    known = ((f.name, f.metadata) for f in fields(measurement) if "definition" in f.metadata)
    return [Definition(name, of["unit"], of["definition"]) for name, of in known]


def digits(value: float, significant: int = 3) -> str:
    """So many significant digits, and never an exponent for what is large: `0.396`, `12.3`,
    `1,064`."""
    return f"{value:,.0f}" if abs(value) >= 10**significant - 0.5 else f"{value:.{significant}g}"


def signed_share(share: float) -> str:
    """A change as a share of what was before; from ten times up as a multiple: `-19.9%`, `47,351
    times`."""
    times = share + 1.0
    return f"{digits(times)} times" if times >= MANY_TIMES else f"{share:+z.1%}"


def binary(size: float) -> str:
    """Bytes as PyTorch's messages have them."""
    unit = max(0, min(int(math.log2(size)) // 10, 4)) if size >= 1 else 0
    return f"{digits(size / 2 ** (10 * unit))} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"


def span(ms: float, of_ms: float | None = None) -> str:
    """A time in three digits, in the unit that fits it, or what it is a part of: `604 us`, `0.487
    ms`, `1.20 s`."""
    largest = ms if of_ms is None else of_ms
    unit, factor = (
        ("us", 1e3) if largest < 0.9995 else ("ms", 1.0) if largest < 999.5 else ("s", 1e-3)
    )
    value = ms * factor
    return f"{value:,.0f} {unit}" if value >= 99.95 else f"{value:#.3g} {unit}"


def ms(ns: float) -> float:
    """Nanoseconds as milliseconds."""
    return float(ns) / NS_PER_MS


def ratio(part: float | None, total: float | None) -> float | None:
    """What part of the total this is; None where either is not known, or the total is nothing."""
    return part / total if part is not None and total else None


def plural(noun: str, count: float) -> str:
    """The noun for so many: `step` or `steps`."""
    return noun if count == 1 else f"{noun}s"


def counted(count: int, noun: str) -> str:
    """So many things: `1 graph break`, `2,000 graph breaks`."""
    return f"{count:,} {plural(noun, count)}"


def ordinal(number: int) -> str:
    """A number in an order: `1st`, `42nd`, `113th`."""
    ending = "th" if number % 100 in (11, 12, 13) else ENDINGS.get(number % 10, "th")
    return f"{number:,}{ending}"


def cut(text: str, limit: int) -> str:
    """At most `limit` characters, the end left out."""
    return text if len(text) <= limit else text[: limit - 1] + ELLIPSIS


class MinorNote(str):
    """A note that changes nothing one would do: it stands in the whole report, not on the first
    screen."""
