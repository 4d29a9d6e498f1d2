"""What every room may use: errors, limits, figures, files, guards, work in parallel. It knows no
recording. What nearly every file takes of it stands here; the rest is taken from its file."""

from traceanalyzer.base.errors import (
    EmptyRecordingError,
    RefusedSnapshotError,
    TraceAnalyzerError,
    UnreadableInputError,
)
from traceanalyzer.base.figures import (
    ELLIPSIS,
    MEMORY,
    MS_PER_S,
    NS_PER_MS,
    NS_PER_S,
    NS_PER_US,
    OWN,
    SENTENCE,
    MinorNote,
    binary,
    cut,
    definitions,
    digits,
    maybe,
    metric,
    ms,
    ordinal,
    plural,
    ratio,
    span,
    text_kind_of,
)
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.base.patterns import regex

__all__ = [
    "ELLIPSIS",
    "MEMORY",
    "MS_PER_S",
    "NS_PER_MS",
    "NS_PER_S",
    "NS_PER_US",
    "OWN",
    "SENTENCE",
    "EmptyRecordingError",
    "MinorNote",
    "RefusedSnapshotError",
    "TraceAnalyzerError",
    "UnreadableInputError",
    "binary",
    "cut",
    "dataclass",
    "definitions",
    "digits",
    "maybe",
    "metric",
    "ms",
    "ordinal",
    "plural",
    "ratio",
    "regex",
    "span",
    "text_kind_of",
]
