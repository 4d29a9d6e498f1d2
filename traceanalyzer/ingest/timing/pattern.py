"""A user's own format: a regular expression with named groups. And the one that is proposed where a
log is of no known format."""

import re

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.ingest.timing.formats import LineFormat
from traceanalyzer.ingest.timing.moments import moment_of
from traceanalyzer.ingest.timing.names import Meaning
from traceanalyzer.ingest.timing.records import Values
from traceanalyzer.ingest.timing.tables import meaning_of, quantity

TIMES = frozenset(
    ("iter_s", "compute_s", "samples_per_s", "tokens_per_s", "its_per_s", "time_s", "mean_s")
)
"""What a line has to say at least one of."""


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
