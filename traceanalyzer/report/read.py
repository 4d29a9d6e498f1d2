"""A saved report read back: the JSON of `analyze --format json` as the same value that was
written."""

import dataclasses
from functools import cache
from typing import Any, get_args, get_type_hints

import msgspec
import orjson

from traceanalyzer.base import UnreadableInputError
from traceanalyzer.report.figures.names import with_parts
from traceanalyzer.report.json import RENAMED
from traceanalyzer.report.model import SCHEMA_VERSION, Report
from traceanalyzer.report.table_entries import BY_NAME


def report_from_json(text: str | bytes, source: str = "the report") -> Report:
    """The report in the text; `source` names it in messages.

    A figure that was added after the report was saved is None, and so is every figure that could
    not be measured; tables that this version does not know are left out. Raises
    UnreadableInputError where the text is no report, or one of a newer `schema_version`."""
    try:
        saved = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UnreadableInputError(f"{source}: not JSON ({error})") from error
    if not is_report(saved):
        raise UnreadableInputError(
            f"{source}: JSON, but no report: write one with analyze --format json"
        )
    _check_version(saved, source)
    try:
        report = msgspec.convert(_named(saved | {"tables": {}}, Report), Report)
        if len({len(part.batch_ms) for part in report.step_parts}) > 1:
            raise TypeError("the parts of its step are of different numbers of batches")
        known = [
            (BY_NAME[name], rows)
            for name, rows in saved.get("tables", {}).items()
            if name in BY_NAME
        ]
        tables = {
            one.name: [msgspec.convert(_named(row, one.row), one.row) for row in rows]
            for one, rows in known
        }
    except (msgspec.ValidationError, AttributeError, TypeError) as error:
        raise UnreadableInputError(
            f"{source}: a damaged report ({error}); analyse the recording again"
        ) from error
    summary = report.summary
    if summary.budget_ms is None:  # as reports of older versions have it
        summary = with_parts(summary, report.metrics)
    return dataclasses.replace(report, summary=summary, tables=tables)


def is_report(saved: Any) -> bool:
    """Whether decoded JSON is a report, of whatever version."""
    return isinstance(saved, dict) and {"schema_version", "tool", "metrics"} <= saved.keys()


def _check_version(saved: dict[str, Any], source: str) -> None:
    version = saved["schema_version"]
    tool = saved["tool"]
    if not isinstance(version, int):
        raise UnreadableInputError(f"{source}: a damaged report: its schema_version is no number")
    if version > SCHEMA_VERSION:
        made_by = (
            f" by traceanalyzer {tool['version']}"
            if isinstance(tool, dict) and "version" in tool
            else ""
        )
        raise UnreadableInputError(
            f"{source}: written{made_by} with schema_version {version}; this version reads {SCHEMA_VERSION}: "
            "update traceanalyzer"
        )


def _named(value: Any, kind: Any) -> Any:
    """JSON under the names that the dataclass has in Python, with None for the fields it lacks that
    can be None."""
    if isinstance(value, list):
        return [_named(item, *get_args(kind)[:1]) for item in value]
    fields = _fields(kind) if isinstance(value, dict) else None
    if fields is None:
        return value
    return {
        name: _named(value.get(saved), of)
        for name, saved, of in fields
        if saved in value or type(None) in get_args(of)
    }


@cache
def _fields(kind: Any) -> list[tuple[str, str, Any]] | None:
    """Name, published name and type of the fields of a dataclass, or of the one that a value may
    be; None without."""
    for part in (kind, *get_args(kind)):
        if dataclasses.is_dataclass(part):
            return [
                (name, RENAMED.get(name, name), of) for name, of in get_type_hints(part).items()
            ]
    return None
