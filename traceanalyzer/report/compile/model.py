"""The report on torch.compile as a value."""

from typing import Any

from traceanalyzer.analysis.algebra import IntervalSet
from traceanalyzer.base import dataclass
from traceanalyzer.diagnosis.compile.judged import CompileDiagnosis
from traceanalyzer.replay.compile.model import Compiled


@dataclass(frozen=True, eq=False)
class Strip:
    """Rows of stretches of time, ns from the origin."""

    length_ns: int
    rows: list[tuple[str, IntervalSet]]


@dataclass(frozen=True)
class CompileReport:
    """What was read, measured and concluded."""

    inputs: list[dict[str, Any]]
    compiled: Compiled
    diagnosis: CompileDiagnosis
    strip: Strip | None = None  # when it compiled, for people
    note: str = ""  # how it stands to the report that it is a part of
