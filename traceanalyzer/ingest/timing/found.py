"""What was found in a log: the records of each form, while it is read."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from traceanalyzer.base import regex
from traceanalyzer.ingest.timing.clocks import moment_of
from traceanalyzer.ingest.timing.fields import LOAD, LOAD_RATES, MOMENTS, SURE, TIMED, UNSURE
from traceanalyzer.ingest.timing.formats import FORMATS, PAIRS, PRINTED_MEMORY, LineFormat
from traceanalyzer.ingest.timing.lines import rank_in_line
from traceanalyzer.ingest.timing.printed import steps_of_phases
from traceanalyzer.ingest.timing.records import (
    GrowingRecords,
    Records,
    Values,
    joined_records,
    with_sides,
)

JSON = next(form for form in FORMATS if form.name == "JSONL")
CSV = LineFormat("CSV", minimum=1)
PRINTED_PHASES = "printed phases"
LOAD_FIELDS = (*LOAD, *LOAD_RATES)
SAMPLE = 400  # lines with numbers that are kept for a proposal
_PAIR_NAMES = tuple(form.name for form in PAIRS)
_ORDER = {form.name: i for i, form in enumerate(FORMATS)}
DIGIT = regex(r"\d")  # a line without one says no time


@dataclass
class FoundLines:
    """The records of a log by form."""

    forms: Sequence[LineFormat] = FORMATS
    records: dict[str, GrowingRecords] = field(default_factory=dict)
    by_name: dict[str, LineFormat] = field(default_factory=dict)
    damaged: dict[str, int] = field(default_factory=dict)  # lines of a form that cannot be read
    keys: dict[str, str] = field(default_factory=dict)  # the name of each field, as the log has it
    factors: dict[str, float] = field(default_factory=dict)  # of the units fields are printed in
    sample: list[str] = field(default_factory=list)
    lines: int = 0
    overflows: int = 0  # updates that a loss scaler left out, as lines without a number say
    truncated: bool = False

    def of(self, form: LineFormat) -> GrowingRecords:
        """The records of a form."""
        self.by_name.setdefault(form.name, form)
        return self.records.setdefault(form.name, GrowingRecords())

    def call(self, form: LineFormat, number: int, line: str) -> None:
        """Read a line by a form's function."""
        if form.parse is None:
            return
        try:
            found = form.parse(line)
        except ValueError:
            self.damage(form)
            return
        if not found:
            return
        values = dict(found)
        rank = None if "rank" in values else rank_in_line(line)
        if rank is not None:
            values["rank"] = float(rank)
        moment = moment_of(line) if "data_s" in values and "when_s" not in values else None
        if moment is not None and moment[1]:
            values["when_s"] = moment[0]
        self.of(form).add(number, values)

    def damage(self, form: LineFormat, lines: int = 1) -> None:
        """Count lines of a form that cannot be read."""
        self.of(form)
        self.damaged[form.name] = self.damaged.get(form.name, 0) + lines

    def timed(self) -> int:
        """Lines that say a time or a rate."""
        return sum(held.count_any(TIMED) for held in self.records.values())

    def chosen(self) -> LineFormat | None:
        """The preferred form of which there are enough lines."""
        sure = [form for form in self.by_name.values() if self._is_sure(form)]
        return min(sure, key=lambda form: _ORDER.get(form.name, -1), default=None)

    def _is_sure(self, form: LineFormat) -> bool:
        held = self.records[form.name]
        if form.name in (PRINTED_MEMORY.name, PRINTED_PHASES):
            return len(held) >= form.minimum
        if form.name not in _PAIR_NAMES:
            return _times_in(held) >= form.minimum
        steps = sum(
            self.records[name].count_any(("step", "rounded_step", "epoch"))
            for name in _PAIR_NAMES
            if name in self.records
        )
        numbered = max(steps, held.count_any(("iter_s", "its_per_s")))
        timed = held.count_any(TIMED) if steps else held.count_any(SURE)
        timed += sum(held.count("step", name, "loss") for name in MOMENTS)
        return timed >= form.minimum and numbered >= form.minimum

    def records_of(self, form: LineFormat) -> Records:
        """The records of a form: of all those of keys and values together; with what other lines
        say of its steps."""
        if form.name == PRINTED_PHASES:
            return self._steps_of_phases()
        of_pairs = joined_records([self.records[n] for n in _PAIR_NAMES if n in self.records])
        if form.name in _PAIR_NAMES:
            return of_pairs
        records = with_sides(self.records[form.name].records(), of_pairs)
        load = self.records.get(form.beside)
        return records if load is None else with_sides(records, load.records(), LOAD_FIELDS)

    def _steps_of_phases(self) -> Records:
        """The steps of lines that time a phase each."""
        records = self.records[PRINTED_PHASES].records()
        names = list(records.columns)
        rows = zip(*(records.columns[name].tolist() for name in names), strict=True)
        lines = [dict(zip(names, row, strict=True)) for row in rows]
        steps = GrowingRecords()
        for place, values in steps_of_phases(lines):
            complete: Values = {**values, "whole": 1.0}
            steps.add(int(records.line[place]), complete)
        return steps.records()

    def memory(self) -> Records:
        """What lines say of memory after phases."""
        return self.records.get(PRINTED_MEMORY.name, GrowingRecords()).records()


def _times_in(held: GrowingRecords) -> int:
    """Lines that say a time, and the step that it is of where that is not clear."""
    return held.count_any(SURE) + sum(
        held.count(step, name) for name in (*UNSURE, *MOMENTS) for step in ("step", "epoch")
    )
