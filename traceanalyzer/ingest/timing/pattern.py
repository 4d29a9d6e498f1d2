"""A user's own format: a regular expression with named groups. And the one that is proposed where a
log is of no known format."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from traceanalyzer.base import TraceAnalyzerError, regex
from traceanalyzer.ingest.timing.clocks import moment_of
from traceanalyzer.ingest.timing.formats import LineFormat
from traceanalyzer.ingest.timing.names import Meaning
from traceanalyzer.ingest.timing.pairs import TOKEN, value_of
from traceanalyzer.ingest.timing.records import Values
from traceanalyzer.ingest.timing.tables import meaning_of, quantity

TIMES = frozenset(
    ("iter_s", "compute_s", "samples_per_s", "tokens_per_s", "its_per_s", "time_s", "mean_s")
)
"""What a line has to say at least one of."""
MOST_LINES = 2_000  # that are looked at for a proposal
MAX_LENGTH = 400  # characters of a line
FEWEST = 3  # lines that look alike
_UNIT = regex(r"\s?(ms|us|s)(?![A-Za-z])")
_NO_TIME = regex(
    r"loss|acc|err|score|reward|return|prec|recall|map|bleu|ppl|perplex|kl|entropy|norm|ratio|lr|rate|[cw]er"
    r"|mem|gpu|%|/s|per_s|util|temp|power|epoch|step|size|batch|num|count|total|len"
    r"|eta|remain|left|start|begin|end\b|stamp|sample|token|image",
    re.IGNORECASE,
)
"""In the name of a number that is no step's time."""
_TIME = regex(
    r"time|sec|dt|dur|elapsed|took|lat|cost|\bms\b|\bus\b|speed|period|wall", re.IGNORECASE
)
"""In the name of a value (`name: 1`, `name=1`) that may be one."""
_VALUE = regex(r"[:=]\s*+['\"]?$")
_BYTES = regex(r"\s?[KMGT]i?B?\b(?:/s)?")
_NAME = regex(r"([A-Za-z][\w /%.-]*)\W*$")
_HEADER = regex(r"\"?[A-Za-z_][^,;:\n]{0,80}(?:[,;]\"?[A-Za-z_][^,;:\n]{0,80}){1,200}")
_END = regex(r"[^\s'\"]{0,12}[\s'\"]{0,2}$")


def pattern_format(pattern: str) -> LineFormat:
    """The user's own format: a regular expression with named groups (`iter_ms`, `iter_s`,
    `data_ms`, `samples_per_s`, `tokens_per_s`, `step`, `mfu`, ...). Raises TraceAnalyzerError if it
    is none."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise TraceAnalyzerError(
            f"--pattern is not a regular expression ({error}); mend it: {pattern}"
        ) from error
    meanings = {name: meaning_of(name) for name in compiled.groupindex}
    known = {name: meant for name, meant in meanings.items() if meant is not None}
    unknown = [name for name in meanings if name not in known]
    if unknown or not TIMES.intersection(meant.field for meant in known.values()):
        what = f"does not know the group {unknown[0]}" if unknown else "names no time and no rate"
        raise TraceAnalyzerError(
            f"--pattern {what}; give named groups such as (?P<step>..), (?P<iter_ms>..), (?P<iter_s>..), "
            "(?P<data_ms>..), (?P<compute_ms>..), (?P<samples_per_s>..), (?P<tokens_per_s>..), (?P<mfu>..)"
        )

    def parse(line: str) -> Values | None:
        match = compiled.search(line)
        return None if match is None else _values(match, known, line)

    return LineFormat("pattern", parse=parse, minimum=1)


def _values(match: re.Match[str], known: dict[str, Meaning], line: str) -> Values:
    found: dict[str, float] = {}
    for name, meant in known.items():
        text = match[name]
        if text is not None:
            found[meant.field] = quantity(text, meant.field) * meant.factor
    moment = moment_of(line)
    if moment is not None and moment[1]:
        found.setdefault("when_s", moment[0])
    return found


def proposal(lines: Sequence[str]) -> str:
    """A pattern for the lines of a log of no known format, made from the lines that look alike;
    empty where none do."""
    if lines and _HEADER.fullmatch(lines[0].strip()):  # a table, whose columns name no time
        return ""
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    for line in lines[:MOST_LINES]:
        parts = TOKEN.split(line[:MAX_LENGTH])
        if len(parts) > 1:
            groups.setdefault(tuple(parts[::2]), []).append(parts[1::2])
    known = [(texts, rows) for texts, rows in groups.items() if len(rows) >= FEWEST]
    for texts, rows in sorted(known, key=lambda group: -len(group[1])):
        pattern = _pattern_of(texts, rows)
        if pattern:
            return pattern
    return ""


def looks_like_log(lines: Sequence[str]) -> bool:
    """Whether some lines are alike but for their numbers, and no header names columns."""
    if not lines or _HEADER.fullmatch(lines[0].strip()):
        return False
    parted = (TOKEN.split(line[:MAX_LENGTH]) for line in lines[:MOST_LINES])
    shapes = Counter(tuple(parts[::2]) for parts in parted if len(parts) > 1)
    return max(shapes.values(), default=0) >= FEWEST


def _pattern_of(texts: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The pattern of lines with these texts: the number that counts up, and one that may be its
    time."""
    columns = [[value_of(number) for number in column] for column in zip(*rows, strict=True)]
    step = next((i for i, values in enumerate(columns) if _counts(values)), None)
    free = [i for i in range(len(columns)) if i != step and not _is_named_otherwise(texts[i])]
    timed = [i for i in free if _UNIT.match(texts[i + 1])]
    others = [i for i in free if _varies(columns[i]) and not _BYTES.match(texts[i + 1])]
    if not timed and not others:
        return ""
    time = (timed or others)[0]
    unit = _UNIT.match(texts[time + 1])
    name = f"iter_{unit[1]}" if unit is not None else "iter_s"
    groups = [(time, rf"(?P<{name}>[\d.]+)")]
    if step is not None:
        groups.append((step, r"(?P<step>\d+)"))
    return ".*?".join(f"{_before(texts[i])}{group}" for i, group in sorted(groups))


def _counts(values: Sequence[float]) -> bool:
    """Whether whole numbers rise by the same from line to line."""
    rises = {b - a for a, b in pairwise(values)}
    return len(rises) == 1 and min(rises) > 0 and all(value == int(value) for value in values)


def _is_named_otherwise(before: str) -> bool:
    """Whether the text before a number names something that is no time."""
    name = _NAME.search(before)
    if name is None:
        return False
    if _VALUE.search(before) and not _TIME.search(name[1]):
        return True
    return _NO_TIME.search(name[1]) is not None


def _varies(values: Sequence[float]) -> bool:
    return len(set(values)) > 1 and all(value > 0 for value in values)


def _before(text: str) -> str:
    """The end of the text before a number, as a pattern."""
    end = _END.search(text)
    return r"\s+".join(re.escape(part) for part in re.split(r"\s+", end[0])) if end else ""
