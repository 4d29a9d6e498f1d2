"""Lines of text. Those of one shape (alike but for their numbers) are read together: what their
numbers mean is worked out for the first of them."""

import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from traceanalyzer.base import dataclass, regex
from traceanalyzer.ingest.timing.clocks import moment_of
from traceanalyzer.ingest.timing.formats import PAIRS, LineFormat
from traceanalyzer.ingest.timing.found import SAMPLE, FoundLines
from traceanalyzer.ingest.timing.lines import rank_in_line
from traceanalyzer.ingest.timing.names import MEMORY_UNITS, TIME_UNITS, UNKNOWN_UNIT
from traceanalyzer.ingest.timing.pairs import TOKEN, LinePlan, LineValue, line_plan, value_of
from traceanalyzer.ingest.timing.printed import NOT_FINITE
from traceanalyzer.ingest.timing.special import is_other_bar

SHAPES = 20_000
"""Shapes of lines that are remembered: a log has some dozens; beyond that many they are texts."""
SAMPLES_OF_SHAPE = 40
_UNKNOWN = float("nan")
_LOST = regex(rf"((?:loss|norm)[\"']?\s?[:=|(]?\s?[\"']?){NOT_FINITE}\b", re.IGNORECASE)
"""A loss or a norm that is no number any more: `loss: nan`, `'grad_norm': 'inf'`."""
_AS_NUMBER = r"\g<1>1e999"  # infinity as a number is written, for which lines are alike
_OVERFLOW = regex(r"\boverflow\b.{0,60}\b(?:skipping step|ignoring gradient)", re.IGNORECASE)
"""What loss scalers print for an update that is left out."""


class _Alike(NamedTuple):
    """Lines of one shape: where they stand in the log, their texts, and the numbers in them."""

    places: list[int]
    lines: list[str]
    numbers: list[list[str]]


@dataclass(frozen=True, eq=False)
class _Shape:
    """What lines alike but for their numbers are read as."""

    form: LineFormat | None  # of keys and values; None where they say nothing
    plan: LinePlan
    functions: tuple[LineFormat, ...]  # other forms that they may be of
    has_rank: bool
    needs_moment: bool


class LineReader:
    """Reads lines of text into `found`."""

    def __init__(self, found: FoundLines) -> None:
        self._found = found
        self._functions = tuple(form for form in found.forms if form.parse is not None)
        self._shapes: dict[tuple[str, ...], _Shape] = {}

    def read(self, lines: Iterable[tuple[int, str]]) -> None:
        """Read lines with their numbers."""
        groups: dict[tuple[str, ...], _Alike] = {}
        split = TOKEN.split
        for place, line in lines:
            parts = split(self._with_lost_as_numbers(line))
            shape = tuple(parts[::2])
            alike = groups.get(shape)
            if alike is None:
                alike = _Alike([], [], [])
                groups[shape] = alike
            alike.places.append(place)
            alike.lines.append(line)
            alike.numbers.append(parts[1::2])
        for shape, alike in groups.items():
            if len(shape) > 1:
                self._read_shape(shape, alike)
                if len(self._found.sample) < SAMPLE:
                    self._found.sample += alike.lines[:SAMPLES_OF_SHAPE]

    def _with_lost_as_numbers(self, line: str) -> str:
        """The line with a number for a loss that is none any more; left-out updates are counted."""
        lower = line.lower()
        if "overflow" in lower and _OVERFLOW.search(line):
            self._found.overflows += 1
        return _LOST.sub(_AS_NUMBER, line) if "nan" in lower or "inf" in lower else line

    def call_functions(self, number: int, text: str) -> None:
        """Read a line by each form's function that may be its own."""
        for form in self._functions:
            if form.holds(text):
                self._found.call(form, number, text)

    def _read_shape(self, texts: tuple[str, ...], some: _Alike) -> None:
        known = self._shapes.get(texts)
        if known is None:
            known = self._shape_of(texts, some.lines[0], some.numbers[0])
            if len(self._shapes) < SHAPES:
                self._shapes[texts] = known
        for form in known.functions:
            for place, line in zip(some.places, some.lines, strict=True):
                self._found.call(form, place, line)
        if known.form is not None and not known.plan.of_evaluation:
            self._add(known, known.form, some)

    def _shape_of(self, texts: tuple[str, ...], text: str, numbers: list[str]) -> _Shape:
        form = next(form for form in PAIRS if form.holds(text))
        plan = with_units(line_plan(texts, numbers, form.names), form)
        fields = plan.fields
        lacks_time = "step" in fields and not fields & {"iter_s", "time_s", "its_per_s"}
        self._found.keys |= {taken.field: taken.key for taken in plan.taken}
        self._found.factors |= {taken.field: taken.factor for taken in plan.taken}
        return _Shape(
            form=form if fields - {"rank", "total"} and not is_other_bar(text) else None,
            plan=plan,
            functions=tuple(form for form in self._functions if _may_be(form, text)),
            has_rank="rank" not in fields and rank_in_line(text) is not None,
            needs_moment=(lacks_time or "data_s" in fields) and moment_of(text) is not None,
        )

    def _add(self, shape: _Shape, form: LineFormat, some: _Alike) -> None:
        fields = [taken.field for taken in shape.plan.taken]
        numbers = list(zip(*some.numbers, strict=True))
        columns = [_column(taken, numbers[taken.number]) for taken in shape.plan.taken]
        if shape.has_rank:
            fields.append("rank")
            columns.append(list(map(_rank, some.lines)))
        if shape.needs_moment:
            moments = [moment_of(line) or (_UNKNOWN, True) for line in some.lines]
            fields.append("when_s" if moments[0][1] else "about_s")
            columns.append([moment for moment, _ in moments])
        self._found.of(form).add_many(tuple(fields), some.places, columns)


def _rank(line: str) -> float:
    rank = rank_in_line(line)
    return _UNKNOWN if rank is None else float(rank)


def _may_be(form: LineFormat, text: str) -> bool:
    """Whether lines of this one's shape may be of a form: their texts decide it, not their
    numbers."""
    if form.parse is None or not form.holds(text):
        return False
    try:
        return form.parse(text) is not None
    except ValueError:
        return True


def with_units(plan: LinePlan, form: LineFormat) -> LinePlan:
    """The plan with the units that a form says for what has none, and the first value of each
    field."""
    first: dict[str, LineValue] = {}
    for taken in plan.taken:
        mended = _with_unit(taken, form)
        if mended.field in ("step", "total") and form.counts_samples:
            continue
        if mended.field == "step" and mended.factor > 1:  # `step:1K`
            mended = replace(mended, field="rounded_step")
        if mended.field:
            first.setdefault(mended.field, mended)
    return replace(plan, taken=tuple(first.values()))


def _with_unit(taken: LineValue, form: LineFormat) -> LineValue:
    if not taken.field.endswith(UNKNOWN_UNIT):
        return taken
    base = taken.field.removesuffix(UNKNOWN_UNIT)
    if base == "memory":
        factor = MEMORY_UNITS.get(form.memory_unit.lower(), 0.0)
        return replace(taken, field="peak_memory_bytes", factor=factor) if factor else taken
    factor = TIME_UNITS.get(form.unit, 0.0)
    return replace(taken, field=f"{base}_s", factor=factor) if factor else taken


def _column(taken: LineValue, numbers: Sequence[str]) -> Sequence[float]:
    try:
        values = array("d", map(float, numbers))
    except ValueError:
        values = array("d", map(value_of, numbers))
    return values if taken.factor == 1.0 else [value * taken.factor for value in values]
