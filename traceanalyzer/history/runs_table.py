"""Runs of a history as the table of a page: a column for each tag, what to change first, and no column
that is empty or says what another one does."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from keyword import iskeyword
from typing import Any
from unicodedata import normalize

from traceanalyzer.base import dataclass, regex
from traceanalyzer.base.figures import metric
from traceanalyzer.history.programs import short_names
from traceanalyzer.history.run_list import BASES, minutes, verdict_words
from traceanalyzer.history.runs import PROGRAM_TAGS, FirstChange, StoredRun
from traceanalyzer.report.html.markup import Markup, tag
from traceanalyzer.report.html.table_parts import html_table

TITLE = "Runs"
ROWS = 300  # the last ones
NO_LETTER = regex(r"\W+")
OF_TAGS = {"run": "name"}  # `run` is the number of a run in the history
OWN_COLUMNS = (
    "run",
    "program",
    "bottleneck",
    "step_ms",
    "step_by",
    "change_share",
    "verdict",
    "idle_share",
    "first_change",
    "step_with_it_ms",
    "gpu",
    "when",
    "selection",
    "same_recording_as",
)


@dataclass(frozen=True)
class _Column:
    """A column: the field of its rows, what it means, and the value of each row."""

    name: str
    definition: str
    values: Sequence[Any]
    unit: str = ""

    @property
    def is_empty(self) -> bool:
        return all(value is None or value == "" for value in self.values)


def runs_table(
    runs: Sequence[StoredRun],
    changes: Mapping[int, FirstChange],
    reports: Mapping[int, str],
) -> Markup:
    """The last runs, newest first. `changes` has what a run's report advises first, `reports` the
    address of a run's own page; both only where there is one."""
    shown = list(runs)[: -ROWS - 1 : -1]
    links = {
        run.run: tag("a", "report", href=reports[run.run]) for run in shown if run.run in reports
    }
    rows = _rows(_columns(shown, changes))
    left = f"; the newest {ROWS} are shown" if len(runs) > ROWS else ""
    return html_table(
        TITLE,
        rows,
        limit=ROWS,
        link=lambda row: links.get(row.run),
        link_head="page",
        more=left,
    )


def _rows(columns: Sequence[_Column]) -> list[Any]:
    """The table's rows: instances of a dataclass with a field for each column."""
    fields = [(column.name, Any, metric(column.definition, column.unit)) for column in columns]
    row_type = dataclasses.make_dataclass("RunRow", fields, frozen=True)
    return [row_type(*values) for values in zip(*(c.values for c in columns), strict=True)]


def _columns(shown: Sequence[StoredRun], changes: Mapping[int, FirstChange]) -> list[_Column]:
    tags = list(_tag_columns(shown))
    names = [column for column in tags if column.name in OF_TAGS.values()]
    others = [column for column in tags if column.name not in OF_TAGS.values()]
    programs = short_names([run.program for run in shown])
    columns = [
        _Column("run", "number of the run", [run.run for run in shown]),
        _Column(
            "program",
            "its command or recording, and what else sets it apart",
            [programs[run.program] for run in shown],
        ),
        *names,
        _Column("bottleneck", "class of the bottleneck", [run.bottleneck for run in shown]),
        *_step_columns(shown),
        *_advice_columns([changes.get(run.run) for run in shown]),
        *others,
        _Column("gpu", "names of the GPUs", [run.gpu for run in shown]),
        _Column("when", "when it was stored, UTC", [minutes(run.stored_at) for run in shown]),
        _Column("selection", "options that narrowed the report", [run.selection for run in shown]),
        _Column(
            "same_recording_as",
            "first run of the very same recording",
            [run.same_recording_as for run in shown],
        ),
    ]
    return _told_once([column for column in columns if not column.is_empty])


def _step_columns(shown: Sequence[StoredRun]) -> list[_Column]:
    """The step, what it rests on, and how it changed."""
    return [
        _Column(
            "step_ms",
            "the step without the profiler where that is known, else as recorded",
            [run.step_ms for run in shown],
            "ms",
        ),
        _Column(
            "step_by",
            "what says the step: a stopwatch, an estimate, or the recording",
            [BASES[run.step_basis] if run.step_ms is not None else None for run in shown],
        ),
        _Column(
            "change_share",
            "change of the step against the program's run before",
            [run.change_share for run in shown],
            "share",
        ),
        _Column(
            "verdict",
            "what `compare` says of that change",
            [verdict_words(run) for run in shown],
        ),
        _Column(
            "idle_share",
            "share of the step without device work",
            [run.idle_share for run in shown],
            "share",
        ),
    ]


def _advice_columns(advised: Sequence[FirstChange | None]) -> list[_Column]:
    """What each report advises first, and the step with it."""
    return [
        _Column(
            "first_change",
            "the first change that its report advises",
            [change.name if change else None for change in advised],
        ),
        _Column(
            "step_with_it_ms",
            "the step predicted with that change",
            [change.step_ms if change else None for change in advised],
            "ms",
        ),
    ]


def _told_once(columns: Sequence[_Column]) -> list[_Column]:
    """The columns without those of texts that say in every row what one before says."""
    kept = list[_Column]()
    for column in columns:
        is_text = any(isinstance(value, str) for value in column.values)
        if is_text and any(list(column.values) == list(one.values) for one in kept):
            continue
        kept.append(column)
    return kept


def _tag_columns(runs: Sequence[StoredRun]) -> Iterator[_Column]:
    """A column for each tag that some run has, in the order of first use; those that name the
    program are its name."""
    taken = set(OWN_COLUMNS)
    used = dict.fromkeys(key for run in reversed(runs) for key in run.tags)
    for key in [key for key in used if key.lower() not in PROGRAM_TAGS]:
        name = OF_TAGS.get(key, _identifier(key))
        while name in taken:
            name += "_"
        taken.add(name)
        yield _Column(name, f"tag {key}", [run.tags.get(key) for run in runs])


def _identifier(key: str) -> str:
    """A tag's key as the name of a field: none of Python's own, and as Python compares names."""
    name = NO_LETTER.sub("_", normalize("NFKC", key))
    is_reserved = iskeyword(name) or name.startswith("__")
    if name.isidentifier() and not is_reserved:
        return name
    prefixed = f"tag_{name}"
    return prefixed if prefixed.isidentifier() else "tag"
