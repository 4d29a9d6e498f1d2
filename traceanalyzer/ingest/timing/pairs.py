"""What the numbers of a line stand for, by the text around them: `step 5/100 | dt: 390.00ms`.

Lines that differ in their numbers alone have one shape, the texts between the numbers. What they
mean is worked out once for each shape, and then taken for all its lines."""

import math
import string
from collections.abc import Mapping, Sequence

from traceanalyzer.base import dataclass, regex
from traceanalyzer.ingest.timing.names import (
    COUNT_UNITS,
    EVALUATION,
    MEMORY_UNITS,
    TIME_UNITS,
    Meaning,
    meaning,
)

TOKEN = regex(r"(\d+(?:,\d{3}(?!\d))*(?:[.:]\d+)*(?:[eE][-+]?\d+)?)")
"""A number without its sign, or a time of day: the texts between them are the shape of a line."""
MOST_NUMBERS = 1_000
"""Numbers of a line: logs of reinforcement learning print some two hundred."""
MOST_WORDS = 5  # of a key: `elapsed time per iteration (ms)`
_UNIT = regex(
    r"[\"']?\s{0,2}\[?(?P<unit>(?:ns|[uµμ]sec|[uµμ]s|msecs?|ms|milliseconds|secs?|seconds?|s|mins?|minutes|hours|h"
    r"|its?|iters?|steps?|batch(?:es)?|samples?|images?|imgs?|examples?|seqs?|sequences?|frames?"
    r"|tokens?|toks?|words|GiB|MiB|KiB|GB|MB|KB|[KMGBTkm])"
    r"(?:/(?:sec(?:ond)?s?|s|it|iter|iteration|step|batch|gpu|device))*|%)(?![A-Za-z0-9]|\s*[:=])"
)
_MFU = regex(r"\s?%\s(?:\w+ )?MFU\b")
_RATE_OF_BARE = regex(r"/s(?:ec)?(?![a-z/])")
_BEFORE_KEY = regex(r"[|;,\t\[\]{}=:]|\s-+\s|\s{2,}|(?<=\W)\((?!\))|\)(?=\s*\S)")
_AFTER_KEY = f"{string.whitespace}\u00a0:=(\"'[<~"  # what may stand between a key and its value
_CELL = regex(r"\|\s*+([A-Za-z][\w/]*+(?: ++[\w/]++)*+)\s*+\|\s*+$")  # of a table with lines
_WORDS = regex(r"[\s(\"']+")
_PASSED_OVER = frozenset(
    (
        *("consumed", "seen", "skipped", "nan", "remaining", "max", "min", "processed"),
        *("warmup", "last", "best", "nr", "num", "of", "elapsed", "scheduled", "cumulative", "fps"),
    )
)
"""Words before a name that make another count of it: `skipped iterations`."""
_COUNTED = frozenset(("step", "samples", "tokens", "epoch"))
_SIGN = regex(r"(?:^|[\s:=(|\[,])-$")
"""The end of a text that makes the number after it a negative one."""
_GLUED = regex(r"[\w.]$")
"""The end of a text that the digits after it are part of: `l2_loss`."""
_OF_TOTAL = regex(r"\s*(?:/|of)\s*$")
_ROW = regex(r" ?[|\t]")
_LETTERS = regex(r"[A-Za-z]")
_HEAD_WORD = regex(r"[a-z]+")
_SAMPLES = "samples_per_s"


@dataclass(frozen=True)
class LineValue:
    """A value of a line: the field it is of, which number it is, and the factor to its unit."""

    field: str
    number: int
    factor: float
    key: str  # as the line has it


@dataclass(frozen=True)
class LinePlan:
    """What the lines of one shape say."""

    taken: tuple[LineValue, ...]
    of_evaluation: bool = False

    @property
    def fields(self) -> set[str]:
        """The fields that it has a value for."""
        return {one.field for one in self.taken}


def line_plan(
    texts: Sequence[str], numbers: Sequence[str], names: Mapping[str, str] | None = None
) -> LinePlan:
    """What lines with these texts between their numbers say; `numbers` are those of one of them.
    `names`: keys that this kind of log uses in a sense of its own, with their field."""
    texts, places = _merged(texts, numbers[:MOST_NUMBERS])
    values = _Values(names or {})
    head: str | None = None  # the text before the first value with a name
    for i, place in enumerate(places):
        number = _Number.between(numbers[place], place, texts[i], texts[i + 1])
        if i and _OF_TOTAL.match(number.before):
            continue
        is_named = values.take(number, places[i + 1] if _has_total(texts, i) else None)
        if is_named and head is None:
            head = "".join(texts[: i + 1])
    found = values.found()
    return LinePlan(tuple(found.values()), _is_evaluation(head or ""))


def _has_total(texts: Sequence[str], i: int) -> bool:
    """Whether the number after this one is its total: `10/1000`, but not `05/01/24`."""
    if i + 2 >= len(texts) or texts[i + 2].startswith("/"):
        return False
    return _OF_TOTAL.match(texts[i + 1]) is not None


@dataclass(frozen=True)
class _Number:
    """A number of a line, and the texts around it."""

    text: str
    place: int
    before: str
    after: str
    sign: float

    @classmethod
    def between(cls, text: str, place: int, before: str, after: str) -> "_Number":
        """The number between these texts; a minus at the end of the first is part of it."""
        if _SIGN.search(before):
            return cls(text, place, before.removesuffix("-"), after, -1.0)
        return cls(text, place, before, after, 1.0)

    @property
    def is_first_cell(self) -> bool:
        """Whether a line begins with it, as with the number of a row: `10 | loss 7.01`."""
        return self.text.isdigit() and not self.before.strip() and bool(_ROW.match(self.after))

    @property
    def unit(self) -> str:
        """Its unit; empty without one."""
        return "s" if ":" in self.text else _unit_of(self.after)


class _Values:
    """The values of a line, which are taken from left to right."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._named: dict[str, LineValue] = {}
        self._bare: list[LineValue] = []
        self._counted: list[LineValue] = []
        self._totals: dict[int, int] = {}

    def take(self, number: _Number, total: int | None) -> bool:
        """Take a number for what its texts call it; one before `/ 1000`, or alone in brackets, may
        be a step. `total`: which number the `1000` is. Whether it has a name."""
        unit = number.unit
        key, meant = _meant(number.before, unit, self._names)
        if meant is None and not key and _MFU.match(number.after):
            meant = Meaning("mfu", 0.01)
        if meant is not None:
            value = LineValue(meant.field, number.place, number.sign * meant.factor, key)
            self._named.setdefault(meant.field, value)
        elif not key and ":" not in number.text and unit in TIME_UNITS:
            self._bare.append(LineValue("bare_s", number.place, TIME_UNITS[unit], unit))
        elif not key and _RATE_OF_BARE.match(number.after):
            self._bare.append(LineValue(_SAMPLES, number.place, 1.0, "/s"))
        is_boxed = number.before.endswith("[") and number.after.startswith("]") and not key
        if total is not None or is_boxed or number.is_first_cell:
            self._counted.append(LineValue("step", number.place, 1.0, key))
        if total is not None:
            self._totals[number.place] = total
        return meant is not None

    def found(self) -> dict[str, LineValue]:
        """The values by field, with those that have no name."""
        found = dict(self._named)
        _add_unnamed(found, self._bare, self._counted)
        step = found.get("step")
        if step is not None and step.number in self._totals:
            found["total"] = LineValue("total", self._totals[step.number], 1.0, "")
        return found


def _merged(texts: Sequence[str], numbers: Sequence[str]) -> tuple[list[str], list[int]]:
    """The texts with the digits that are part of them, and the places of the other numbers."""
    merged = [texts[0]]
    places: list[int] = []
    for i, number in enumerate(numbers):
        if _GLUED.search(merged[-1]):
            merged[-1] += number + texts[i + 1]
        else:
            places.append(i)
            merged.append(texts[i + 1])
    return merged, places


def _add_unnamed(
    found: dict[str, LineValue], bare: Sequence[LineValue], counted: Sequence[LineValue]
) -> None:
    """Values without a name: `3056.36 ms |` is a time where no other is, `[ 10/1000]` a step."""
    for value in bare:
        is_time = value.field == "bare_s"
        if is_time and found.keys() & {"iter_s", "time_s", "iter?", "time?", "compute_s"}:
            continue
        if is_time or found.keys() & {"time_s", "iter_s"}:
            found.setdefault(value.field, value)
    unnamed = [one for one in counted if not any(one.number == t.number for t in found.values())]
    if unnamed and "step" not in found:
        found["step"] = unnamed[-1]


def _is_evaluation(head: str) -> bool:
    """Whether the text before the first value says so: `Test: [`, `Epoch(val) [`, `Validation |`."""
    return bool(EVALUATION.intersection(_HEAD_WORD.findall(head.lower())))


def _unit_of(after: str) -> str:
    found = _UNIT.match(after)
    return found["unit"] if found else ""


def _meant(before: str, unit: str, names: Mapping[str, str]) -> tuple[str, Meaning | None]:
    """The key before a number, and what it means there; the key is empty where there is none."""
    segment = _segment_with_key(before)
    if not _LETTERS.search(segment):
        return "", meaning("", unit) if "/" in unit else None
    words = [word for word in _WORDS.split(segment) if word]
    for count in range(min(MOST_WORDS, len(words)), 0, -1):
        key = " ".join(words[-count:]).strip("'\"-_ ")
        own = names.get(key)
        if own is not None:
            return key, Meaning(own, _factor(unit))
        meant = meaning(key, unit if _is_known(unit) else "")
        if meant is not None and not _is_another(meant.field, words[:-count]):
            return key, meant
    return segment, None


def _segment_with_key(before: str) -> str:
    """The end of the text before a number, which its key is in; empty where it is of another."""
    cell = _CELL.search(before)
    tail = cell[1] if cell else before.rstrip(_AFTER_KEY)
    if not tail or tail.endswith("]"):  # `Epoch: [0]  [  10/1000]`: the key is of the number before
        return ""
    return _last_segment(tail)


def _is_another(field: str, before: Sequence[str]) -> bool:
    """Whether the words before a name make another count of it."""
    return field in _COUNTED and bool(_PASSED_OVER.intersection(word.lower() for word in before))


def _is_known(unit: str) -> bool:
    lower = unit.lower()
    return (
        lower in TIME_UNITS
        or lower in MEMORY_UNITS
        or lower in COUNT_UNITS
        or "/" in unit
        or unit == "%"
    )


def _factor(unit: str) -> float:
    lower = unit.lower()
    return TIME_UNITS.get(lower, COUNT_UNITS.get(lower, 1.0))


def _last_segment(tail: str) -> str:
    """What stands after the last mark that parts values; a unit in parentheses stays."""
    end = len(tail)
    if tail.endswith(")"):
        end = max(tail.rfind("("), 0)
    cut = 0
    for found in _BEFORE_KEY.finditer(tail, 0, end):
        cut = found.end()
    return tail[cut:].strip()


def value_of(token: str) -> float:
    """The number that a token is; seconds of a time of day or a duration (`0:01:30`); NaN for what
    is out of all reason."""
    try:
        value = float(token)
    except ValueError:
        value = _spelled_value(token)
    return value if math.isfinite(value) else math.nan


def _spelled_value(token: str) -> float:
    try:
        parts = [float(part) for part in token.replace(",", "").split(":")]
    except ValueError:
        return math.nan
    sign = -1.0 if token.startswith("-") else 1.0
    seconds = 0.0
    for part in parts:
        seconds = seconds * 60 + abs(part)
    return sign * seconds
