"""Runs of a history: stored in one transaction with all that a report says, and what it was made from; read back by
reference: `runs.db#42`, `runs.db#latest`, `runs.db#branch=main` (the latest run with that tag)."""

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from traceanalyzer.base import UnreadableInputError
from traceanalyzer.history.database import reading, writing
from traceanalyzer.report.json import as_plain, render_json
from traceanalyzer.report.model import Report
from traceanalyzer.report.read import report_from_json

if TYPE_CHECKING:
    pass


def store_report(
    path: Path,
    report: Report,
    *,
    tags: Mapping[str, str] | None = None,
    fingerprint: str | None = None,
    selection: str | None = None,
) -> int:
    """Add a run to the history in a file, made where there is none; gives the run's number. Every call adds a run: what
    was analysed twice is there twice, with the same `fingerprint`. `selection` says what the report was narrowed to.
    Raises TraceAnalyzerError where the file cannot be written or is something else."""
    run = _run(report) | {"fingerprint": fingerprint, "selection": selection}
    with writing(path) as db:
        key: Any = db.table("runs").insert(run).last_pk
        number = int(key)
        rows = ({"run_id": number, "key": name, "value": value} for name, value in (tags or {}).items())
        db.table("tags").insert_all(rows)
        db.table("metrics").insert_all({"run_id": number, **row} for row in _metrics(report.metrics))
        json = orjson.dumps(orjson.loads(render_json(report))).decode()
        db.table("reports").insert({"run_id": number, "json": json})
    return number


def _run(report: Report) -> dict[str, Any]:
    metrics, summary = report.metrics, report.summary
    gpus = sorted({device.name for item in report.inputs for device in item.devices if device.name})
    return as_plain(
        {
            "stored_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "tool_version": report.tool.version,
            "schema_version": report.schema_version, "bottleneck": summary.bottleneck,
            "confidence": summary.confidence, "headline": summary.headline, "step_source": metrics.step_source,
            "step_time_ms": metrics.step_time_ms.mean if metrics.step_time_ms else None,
            "unprofiled_step_time_ms": metrics.unprofiled_step_time_ms, "gpu_idle_share": metrics.gpu_idle_share,
            "gpu": ", ".join(gpus) or None, "recordings": len(report.inputs),
        }
    )  # fmt: skip


def _metrics(measurement: Any, within: str = "") -> Iterator[dict[str, Any]]:
    """Every figure of the report's metrics with its place and unit; what is None has none."""
    for f in dataclasses.fields(measurement):
        value, name = getattr(measurement, f.name), f"{within}{f.name}"
        if dataclasses.is_dataclass(value):
            yield from _metrics(value, f"{name}.")
        elif isinstance(value, int | float) and (plain := as_plain(value)) is not None:
            yield {"name": name, "value": plain, "unit": f.metadata.get("unit", "")}


def fingerprint(paths: Iterable[str]) -> str | None:
    """SHA-256 over the files' contents, in hexadecimal; their order and names do not count. None where there are no
    files, or one cannot be read any more."""
    contents: list[bytes] = []
    try:
        for path in set(paths):
            with Path(path).open("rb") as file:
                contents.append(hashlib.file_digest(file, "sha256").digest())
    except OSError:
        return None
    return hashlib.sha256(b"".join(sorted(contents))).hexdigest() if contents else None


REFERENCE = re.compile(r"(?P<file>.+)#(?:(?P<run>\d{1,18})|latest|(?P<key>[^#=]+)=(?P<value>[^#]*))")


def is_reference(text: str) -> bool:
    """Whether a text names a stored run rather than a file."""
    return REFERENCE.fullmatch(text) is not None and not Path(text).exists()


def stored_report(reference: str) -> Report:
    """The report of a stored run. Raises UnreadableInputError, saying what there is, where it names none."""
    parts = REFERENCE.fullmatch(reference)
    if parts is None:
        raise UnreadableInputError(
            f"{reference}: no stored run; name one as FILE#NUMBER, FILE#latest or FILE#KEY=VALUE"
        )
    with reading(Path(parts["file"])) as db:
        first, last, count = db.execute("SELECT min(id), max(id), count(*) FROM runs").fetchone()
        run = int(parts["run"]) if parts["run"] else last
        if parts["key"]:
            tagged = "SELECT max(run_id) FROM tags WHERE key = ? AND value = ?"
            run = db.execute(tagged, [parts["key"], parts["value"]]).fetchone()[0]
        row = db.execute("SELECT json FROM reports WHERE run_id = ?", [run]).fetchone()
        if row is None:
            there_is = f"it holds {count} run(s), {first} to {last}" if count else "it holds no runs"
            raise UnreadableInputError(f"{reference}: no such run; {there_is}")
    return report_from_json(str(row[0]), reference)
