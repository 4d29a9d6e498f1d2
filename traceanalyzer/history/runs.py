"""Runs of a history: stored in one transaction with all that a report says, read back by reference
(`runs.db#42`, `runs.db#latest`, `runs.db#branch=main`: the latest with that tag), and as rows:
filtered, and one metric over them."""

import dataclasses
import difflib
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import orjson

from traceanalyzer.base import UnreadableInputError, dataclass, regex
from traceanalyzer.base.figures import metric as defined
from traceanalyzer.history.database import reading_database, writing
from traceanalyzer.history.named import NOTHING_SAID, Said, StepBasis, said_by
from traceanalyzer.report.figures.names import (
    OF_THE_SUMMARY,
    SUMMARY,
    figure_name,
    in_the_summary,
)
from traceanalyzer.report.json import as_plain, render_json
from traceanalyzer.report.model import Report
from traceanalyzer.report.read import report_from_json

if TYPE_CHECKING:
    from sqlite_utils import Database


Row = TypeVar("Row")
PARTS = " · "  # between the parts of a program's name
AS_RECORDED = (
    "As recorded, with the profiler; the list of runs has the step without it: --metric {}."
)
LARGEST = 1e30  # no figure of a report is larger
REFERENCE = regex(r"^(?P<file>.+)#(?:(?P<run>\d{1,18})|latest|(?P<key>[^#=]+)=(?P<value>[^#]*))")
OF_A_RUN = frozenset(
    ("commit", "revision", "rev", "sha", "git", "pr", "build", "run", "date", "time", "version")
)
"""Tags that say which run it is; the others say of which program."""
PROGRAM_TAGS = frozenset(("command", "program", "recording"))
"""Tags whose value names the program."""


class Tags(dict[str, str]):
    """Tags by key; as text `key=value key=value`."""

    def __str__(self) -> str:
        return " ".join(f"{key}={value}" for key, value in self.items())


@dataclass(frozen=True)
class StoredRun:
    """A run of the history."""

    run: int = defined(
        "number of the run: FILE#12 names run 12 of a history, FILE#latest the last one"
    )
    stored_at: str = defined(
        "when it was stored, UTC; of a run of a folder, when its recording was written"
    )
    tags: dict[str, str] = defined("what the run was stored with")
    bottleneck: str = defined("class of the bottleneck")
    confidence: float | None = defined("how sure that is, 0 to 1", "share")
    step_ms: float | None = defined(
        "`summary.step_ms` of the report: the step without the profiler where that is known, else as recorded",
        "ms",
    )
    unprofiled_step_time_ms: float | None = defined(
        "step time without a profiler, measured or estimated", "ms"
    )
    idle_share: float | None = defined(
        "`summary.idle_share` of the report: share of that step without device work", "share"
    )
    gpu: str | None = defined("names of the GPUs")
    recordings: int = defined("recordings read")
    selection: str | None = defined(
        "options that narrowed the report; null for all of the recording"
    )
    same_recording_as: int | None = defined(
        "first run of the very same recording; null where this is the first"
    )
    program: str = defined(
        "what runs are grouped by: command or recording (or tag program), other tags but those of a commit, GPU, "
        "selection",
        default="",
    )
    commit: str | None = defined("commit by its tag; null without", default=None)
    step_basis: StepBasis = defined(
        "what the step rests on: measured by a stopwatch, estimated without the profiler, or as recorded",
        text="own",
        default="recorded",
    )
    change_share: float | None = defined(
        "change of the step against the program's run before it; null for the first, and where only one of them "
        "is known without the profiler",
        "share",
        default=None,
    )
    verdict: str | None = defined(
        "what `compare` says of that change: faster, likely_faster, no_change, likely_slower, slower, "
        "not_comparable; null without a change, and beyond the newest 100 runs",
        text="own",
        default=None,
    )


@dataclass(frozen=True)
class MetricValue:
    """A metric in one run. `value` is in the metric's own unit."""

    run: int = defined("number of the run")
    stored_at: str = defined("when it was stored, UTC")
    tags: dict[str, str] = defined("what the run was stored with")
    value: float = defined("the metric in this run")
    change_share: float | None = defined(
        "change against the program's run before it; null for the first, and of a figure of the summary where only "
        "one of both is known without the profiler",
        "share",
    )
    program: str = defined("what runs are grouped by", default="")
    commit: str | None = defined("commit of the run; null where it is not known", default=None)


@dataclass(frozen=True)
class MetricName:
    """A metric that runs of the history have."""

    name: str = defined(
        "name for --metric: its place in the report's metrics, or `summary.` and its place there"
    )
    unit: str = defined("unit of its values")
    runs: int = defined("runs that have it")


@dataclass(frozen=True)
class MetricSeries:
    """A metric over runs, oldest first; runs without it are left out."""

    metric: str = defined("its name")
    unit: str = defined("unit of the values")
    values: list[MetricValue] = defined("its value in each run that has it")
    basis: str = defined(
        "that it is of the recorded step, where the list of runs has the step without the profiler; else empty",
        text="own",
        default="",
    )


@dataclass(frozen=True)
class FirstChange:
    """The first change that the report of a run predicts a gain of."""

    name: str = defined("the remedy, else the finding that it is against", text="own")
    step_ms: float = defined("step time that it would lead to")


def stored_runs(
    db: "Database",
    *,
    tags: Mapping[str, str] | None = None,
    bottleneck: str | None = None,
    since: str | None = None,
    last: int | None = None,
) -> list[StoredRun]:
    """The runs that have all of `tags`, this bottleneck, and were stored at `since` (UTC, ISO 8601)
    or later. Oldest first; `last` keeps so many of the newest."""
    conditions: list[str] = ["1"]
    values: list[str | int] = []
    for key, value in (tags or {}).items():
        conditions.append(
            "EXISTS (SELECT 1 FROM tags WHERE run_id = overview.run_id AND key = ? AND value = ?)"
        )
        values += [key, value]
    if bottleneck is not None:
        conditions.append("bottleneck = ?")
        values.append(bottleneck)
    if since is not None:
        conditions.append("stored_at >= ?")
        values.append(since)
    # Only the conditions above are put into the statement; what the user says goes through
    # parameters.
    sql = (
        f"SELECT * FROM run_overview AS overview WHERE {' AND '.join(conditions)} ORDER BY "  # noqa: S608
        "run_id DESC LIMIT ?"
    )
    rows = list(db.query(sql, [*values, -1 if last is None else last]))
    reports = _reports(db, [row["run_id"] for row in rows])
    about = {number: said_by(report) for number, report in reports}
    tagged: dict[int, Tags] = defaultdict(Tags)
    for row in db.query("SELECT run_id, key, value FROM tags ORDER BY run_id, key"):
        tagged[row["run_id"]][str(row["key"])] = str(row["value"])
    return [
        _stored_run(row, tagged[row["run_id"]], about.get(row["run_id"], NOTHING_SAID))
        for row in reversed(rows)
    ]


def _reports(db: "Database", runs: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Number and report of some runs, one at a time."""
    asked = "SELECT run_id, json FROM reports WHERE run_id = ?"
    for run in runs:
        for number, report in db.execute(asked, [run]):
            yield number, str(report)


def report_of_run(db: "Database", run: int) -> Report:
    """The whole report of a run that is in the history. Raises UnreadableInputError."""
    (text,) = db.execute("SELECT json FROM reports WHERE run_id = ?", [run]).fetchone()
    return report_from_json(str(text), f"run {run}")


class _Advised(msgspec.Struct):
    """What of a stored report is read here; damage is for `_checked`."""

    recommendations: list[dict[str, Any]] = msgspec.field(default_factory=list)


def first_changes(db: "Database", runs: Sequence[StoredRun]) -> dict[int, FirstChange]:
    """What the report of each run advises first, where a gain is predicted of it. Raises
    UnreadableInputError."""
    changes = {}
    for run in runs:
        row = db.execute("SELECT json FROM reports WHERE run_id = ?", [run.run]).fetchone()
        if row is None:
            continue
        try:
            advised = msgspec.json.decode(str(row[0]), type=_Advised).recommendations
        except msgspec.DecodeError as error:
            raise UnreadableInputError(f"the history is damaged: {error}") from error
        first = advised[0] if advised else {}
        step_ms = first.get("predicted_step_ms")
        if step_ms is not None and not first.get("may_not_help"):
            name = str(first.get("remedy") or first.get("id"))
            changes[run.run] = FirstChange(name, _checked(step_ms, float))
    return changes


def metric_series(db: "Database", name: str, runs: Sequence[StoredRun]) -> MetricSeries:
    """A metric over some runs. Raises UnreadableInputError, naming similar ones, where no run has
    such a metric."""
    name = figure_name(name)
    found = {
        row["run_id"]: row
        for row in db.query("SELECT run_id, value, unit FROM metrics WHERE name = ?", [name])
    }
    if not found:
        raise UnreadableInputError(_no_metric(name, [row.name for row in metric_names(db)]))
    values: list[MetricValue] = []
    last: dict[str, MetricValue] = {}
    recorded = {run.run for run in runs if run.step_basis == "recorded"}
    for run in runs:
        if run.run not in found:
            continue
        value = _checked(found[run.run]["value"], float)
        before = _before(last.get(run.program), run, recorded, name)
        measured = MetricValue(
            run=run.run,
            stored_at=run.stored_at,
            tags=run.tags,
            value=value,
            change_share=_change(before, value),
            program=run.program,
            commit=run.commit,
        )
        last[run.program] = measured
        values.append(measured)
    unit = str(next(iter(found.values()))["unit"])
    without = any(one.run not in recorded for one in values)
    return MetricSeries(name, unit, values, _basis_of(name) if without else "")


def _before(
    before: MetricValue | None, run: StoredRun, recorded: set[int], name: str
) -> MetricValue | None:
    """The value of the run before. Of figures of the summary, of which some are of the recorded step
    and others of the one without profiler, None where one of both runs is `recorded`."""
    if before is None or not name.startswith(OF_THE_SUMMARY):
        return before
    return before if (before.run in recorded) == (run.run in recorded) else None


def _change(before: MetricValue | None, value: float) -> float | None:
    """The change against the run before; None without one, or where it was 0."""
    return value / before.value - 1 if before and before.value else None


def _basis_of(name: str) -> str:
    """What is said of a figure of the recorded step; empty of others."""
    instead = in_the_summary(name)
    return AS_RECORDED.format(instead) if instead else ""


def _no_metric(name: str, known: Sequence[str]) -> str:
    """What to say of a metric that no run has."""
    if not known:
        return f"no metric {name!r}: the history holds no runs"
    near = ", ".join(difflib.get_close_matches(name, known, 3, 0.4) or known[:3])
    return f"no run has a metric {name!r}; there is {near}, ... (all: history FILE --metrics)"


def known_series(
    db: "Database", names: Sequence[str], runs: Sequence[StoredRun]
) -> list[MetricSeries]:
    """The metrics that some of the runs have, in the order of `names`."""
    known = {row["name"] for row in db.query("SELECT DISTINCT name FROM metrics")}
    found = [metric_series(db, name, runs) for name in names if name in known]
    return [series for series in found if series.values]


def metric_names(db: "Database") -> list[MetricName]:
    """The metrics that there are, by name."""
    sql = "SELECT name, unit, count(*) AS runs FROM metrics GROUP BY name, unit ORDER BY name"
    return [_checked(row, MetricName) for row in db.query(sql)]


def _checked(value: Any, kind: type[Row]) -> Row:
    """The value as this type; SQLite keeps any type in any column. Raises UnreadableInputError."""
    try:
        checked = msgspec.convert(value, kind)
    except (msgspec.ValidationError, OverflowError) as error:
        raise UnreadableInputError(f"the history is damaged: {error}") from error
    for figure in getattr(checked, "__dict__", {"": checked}).values():
        if isinstance(figure, float) and not abs(figure) <= LARGEST:
            raise UnreadableInputError(f"the history is damaged: {figure:g} is no figure")
    return checked


def _stored_run(row: dict[str, Any], tags: Tags, about: Said) -> StoredRun:
    tagged = [value for key, value in tags.items() if key.lower() in PROGRAM_TAGS]
    names = tagged or [about.name]
    others = Tags(
        {k: value for k, value in tags.items() if k.lower() not in OF_A_RUN | PROGRAM_TAGS}
    )
    program = PARTS.join(
        str(part) for part in (*names, others, row["gpu"], row["selection"]) if part
    )
    fields = {name: row[name] for name in StoredRun.__dataclass_fields__ if name in row}
    fields |= {
        "run": row["run_id"],
        "stored_at": str(row["stored_at"])[:19] + "Z",  # seconds are enough to read
        "tags": tags,
        "program": program,
        "commit": next((value for key, value in tags.items() if key.lower() in OF_A_RUN), None),
        "step_basis": about.basis,
    }
    return replace(_checked(fields, StoredRun), tags=tags)


def store_report(
    path: Path,
    report: Report,
    *,
    tags: Mapping[str, str] | None = None,
    fingerprint: str | None = None,
    selection: str | None = None,
    stored_at: datetime | None = None,
) -> int:
    """Add a run to the history in a file, made where there is none; gives the run's number. Every
    call adds a run: what was analysed twice is there twice, with the same `fingerprint`.
    `selection` says what the report was narrowed to, `stored_at` when it was made (None: now).
    Raises TraceAnalyzerError where the file
    cannot be written or is something else."""
    with writing(path) as db:
        return add_run(
            db,
            report,
            tags=tags,
            fingerprint=fingerprint,
            selection=selection,
            stored_at=stored_at,
        )


def add_run(
    db: "Database",
    report: Report,
    *,
    tags: Mapping[str, str] | None = None,
    fingerprint: str | None = None,
    selection: str | None = None,
    stored_at: datetime | None = None,
) -> int:
    """As `store_report`, into a history that is being written."""
    moment = (stored_at or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    run = _run(report) | {
        "stored_at": moment,
        "fingerprint": fingerprint,
        "selection": selection,
    }
    last: Any = db.table("runs").insert(run).last_pk
    number = int(last)
    of_run = {"run_id": number}
    named = (tags or {}).items()
    db.table("tags").insert_all(of_run | {"key": key, "value": value} for key, value in named)
    db.table("metrics").insert_all(of_run | row for row in _figures(report))
    json = orjson.dumps(orjson.loads(render_json(report))).decode()
    db.table("reports").insert(of_run | {"json": json})
    return number


def _run(report: Report) -> dict[str, Any]:
    metrics = report.metrics
    summary = report.summary
    gpus = sorted({device.name for item in report.inputs for device in item.devices if device.name})
    return as_plain(
        {
            "tool_version": report.tool.version,
            "schema_version": report.schema_version,
            "bottleneck": summary.bottleneck,
            "confidence": summary.confidence,
            "headline": summary.headline,
            "step_source": metrics.step_source,
            "step_time_ms": metrics.step_time_ms.mean if metrics.step_time_ms else None,
            "unprofiled_step_time_ms": metrics.unprofiled_step_time_ms,
            "gpu_idle_share": metrics.gpu_idle_share,
            "gpu": ", ".join(gpus) or None,
            "recordings": len(report.inputs),
        }
    )


def _figures(report: Report) -> Iterator[dict[str, Any]]:
    """Every figure of the report's metrics and of its summary."""
    yield from _metrics(report.metrics)
    yield from _metrics(report.summary, SUMMARY)


def _metrics(measurement: Any, within: str = "") -> Iterator[dict[str, Any]]:
    """Every figure of the report's metrics with its place and unit; what is None has none."""
    for f in dataclasses.fields(measurement):
        value = getattr(measurement, f.name)
        name = f"{within}{f.name}"
        if dataclasses.is_dataclass(value):
            yield from _metrics(value, f"{name}.")
        elif isinstance(value, int | float):
            plain = as_plain(value)
            if plain is not None:
                yield {"name": name, "value": plain, "unit": f.metadata.get("unit", "")}


def fingerprint(paths: Iterable[str]) -> str | None:
    """SHA-256 over the files' contents, in hexadecimal; their order and names do not count. None
    where there are no files, or one cannot be read any more."""
    contents: list[bytes] = []
    try:
        for path in set(paths):
            with Path(path).open("rb") as file:
                contents.append(hashlib.file_digest(file, "sha256").digest())
    except OSError:
        return None
    return hashlib.sha256(b"".join(sorted(contents))).hexdigest() if contents else None


def is_reference(text: str) -> bool:
    """Whether a text names a stored run rather than a file."""
    return REFERENCE.fullmatch(text) is not None and not Path(text).exists()


def stored_report(reference: str) -> Report:
    """The report of a stored run. Raises UnreadableInputError, saying what there is, where it names
    none."""
    parts = REFERENCE.fullmatch(reference)
    if parts is None:
        raise UnreadableInputError(
            f"{reference}: no stored run; name one as FILE#NUMBER, FILE#latest or FILE#KEY=VALUE"
        )
    with reading_database(Path(parts["file"])) as db:
        first, last, count = db.execute("SELECT min(id), max(id), count(*) FROM runs").fetchone()
        run = int(parts["run"]) if parts["run"] else last
        if parts["key"]:
            tagged = "SELECT max(run_id) FROM tags WHERE key = ? AND value = ?"
            run = db.execute(tagged, [parts["key"], parts["value"]]).fetchone()[0]
        row = db.execute("SELECT json FROM reports WHERE run_id = ?", [run]).fetchone()
        if row is None:
            there_is = (
                f"it holds {count} run(s), {first} to {last}" if count else "it holds no runs"
            )
            raise UnreadableInputError(f"{reference}: no such run; {there_is}")
    return report_from_json(str(row[0]), reference)
