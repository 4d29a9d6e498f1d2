"""Both sides of a comparison at once: A is read and analyzed by another process while this one does
B."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from traceanalyzer.base.files import note_read
from traceanalyzer.base.parallel import LEAST_BYTES, free_memory_bytes, most_at_once
from traceanalyzer.base.parallel.children import METHOD, children
from traceanalyzer.base.reading import reading, reading_as
from traceanalyzer.ingest.cache.models import has_model
from traceanalyzer.ingest.folders import ANALYZED, needed_bytes
from traceanalyzer.ingest.stream import text_bytes

if TYPE_CHECKING:
    from traceanalyzer.analysis.joined.knowledge import Knowledge
    from traceanalyzer.diagnosis.part_of_run import Selection
    from traceanalyzer.report.model import Report
    from traceanalyzer.report.timeline.lanes import Timeline

CAPTURE = "environment.json"  # what every capture holds


class ReadSide(NamedTuple):
    """The report, and a step of it event by event where a page shows that; what else was measured
    is let go."""

    report: "Report"
    step: "Timeline | None"


def sides_of(
    a: str, b: str, selection: "Selection", knowledge: "Knowledge | None", *, drawn: bool
) -> tuple[ReadSide, ReadSide]:
    """The two runs that are compared. `drawn`: each with a step, event by event. Raises
    TraceAnalyzerError; where neither can be read, that of A."""
    asked = [(reference, selection, knowledge, drawn) for reference in (a, b)]
    if not _worth_a_process(a, b) or all(_is_answered(*one) for one in asked):
        return _side(*asked[0]), _side(*asked[1])
    with (
        reading_as(jobs=max(reading().jobs // 2, 1)),
        children(lambda: [_side(*asked[0])], 1) as others,
    ):
        try:
            second: ReadSide | Exception = _side(*asked[1])
        except Exception as error:
            second = error
        found = [side for other in others for side in other.values()]
        first = found[0] if found else _side(*asked[0])
    note_read(Path(a))
    if isinstance(second, Exception):
        raise second
    return first, second


def runs_in(reference: str) -> list[str]:
    """The captures in a folder that holds nothing else to read, else what was named."""
    folder = Path(reference)
    if not folder.is_dir() or (folder / CAPTURE).exists():
        return [reference]
    captures = sorted(path.parent for path in folder.glob(f"*/{CAPTURE}"))
    return [str(path) for path in captures] if len(captures) > 1 else [reference]


def _side(
    reference: str, selection: "Selection", knowledge: "Knowledge | None", drawn: bool
) -> ReadSide:
    from traceanalyzer.cli.io.reports import read_reference
    from traceanalyzer.report.timeline.step_timeline import step_timeline

    found = read_reference(reference, selection, knowledge)
    return ReadSide(
        found.report,
        step_timeline(found.asked.measured.critical) if drawn and found.asked else None,
    )


def _is_answered(
    reference: str, selection: "Selection", knowledge: "Knowledge | None", drawn: bool
) -> bool:
    """Whether all of it was worked out before: another process takes longer to start than this one
    to read it."""
    from traceanalyzer.diagnosis.question import Query
    from traceanalyzer.ingest import load
    from traceanalyzer.report.kept_report import has_report

    return (
        not drawn
        and has_model(Path(reference))
        and has_report(Query(load([reference]), selection, knowledge))
    )


def _worth_a_process(*references: str) -> bool:
    """Whether each is one large file, and there is memory for both. What is in folders is read side
    by side anyway."""
    paths = list(map(Path, references))
    large = (
        METHOD == "fork"
        and reading().jobs > 1
        and all(p.is_file() and text_bytes(p) >= LEAST_BYTES for p in paths)
    )
    needed = [needed_bytes(path, text_bytes(path), ANALYZED) for path in paths] if large else []
    return large and most_at_once(needed, free_memory_bytes()) == len(paths)
