"""JSON Schemas of what the commands print as JSON, from the dataclasses that are printed: their
types, definitions and units. A document may have more names than its schema; those in the schema
are always there."""

import dataclasses
from typing import Any, get_args, get_type_hints

import msgspec

from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.diagnosis.remedies import NAMES
from traceanalyzer.ingest.formats import SOURCES
from traceanalyzer.report.json import KEYS, RENAMED
from traceanalyzer.report.model import SCHEMA_VERSION, Report
from traceanalyzer.report.table_entries import TABLES

DIALECT = "https://json-schema.org/draft/2020-12/schema"
REFERENCE = "#/$defs/{name}"
VALUES = {
    ("Input", "kind"): tuple(SOURCES),
    ("Metrics", "step_source"): (
        "profiler_step",
        "nvtx",
        "annotation",
        "periodicity",
        "timing_log",
        "logged_epochs",
        "recording",
        "none",
    ),
    ("Recommendation", "remedy"): (*NAMES, None),
    ("GapRow", "cause"): tuple(cause.label for cause in IdleCause),
}
"""All texts that a field can have, where its type does not say so."""

Schema = dict[str, Any]


def report_schema() -> Schema:
    """Of `analyze --format json`."""
    schema = document_schema(Report, [table.row for table in TABLES])
    body = schema["$defs"].pop("Report")
    properties = body["properties"]
    properties["tables"]["properties"] = {table.name: _rows(table.row) for table in TABLES}
    properties["schema_version"]["const"] = SCHEMA_VERSION
    body |= {"properties": {key: properties[key] for key in KEYS}, "required": list(KEYS)}
    return {"$schema": DIALECT, **body, "$defs": schema["$defs"]}


def rows_schema(key: str, row: type[Any]) -> Schema:
    """Of a document `{key: [row, ...]}`."""
    return {
        "$schema": DIALECT,
        "title": key,
        "type": "object",
        "properties": {key: _rows(row)},
        "required": [key],
        "$defs": document_schema(row)["$defs"],
    }


def document_schema(kind: type[Any], more: list[type[Any]] | None = None) -> Schema:
    """Of a document that is one dataclass; `more` are defined as well."""
    roots = [kind, *(more or [])]
    found = dict[str, type[Any]]()
    parts = msgspec.json.schema_components(roots, ref_template=REFERENCE)[1]
    for root in roots:
        _collect(root, found)
    defined = {name: _completed(part, found[name]) for name, part in parts.items()}
    return {"$schema": DIALECT, "$ref": REFERENCE.format(name=kind.__name__), "$defs": defined}


def _rows(row: type[Any]) -> Schema:
    return {"type": "array", "items": {"$ref": REFERENCE.format(name=row.__name__)}}


def _collect(kind: Any, found: dict[str, type[Any]]) -> None:
    """Every dataclass that a value of `kind` can hold, by name."""
    for inner in get_args(kind):
        _collect(inner, found)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind.__name__ not in found:
        found[kind.__name__] = kind
        for part in get_type_hints(kind).values():
            _collect(part, found)


def _completed(part: Schema, kind: type[Any]) -> Schema:
    """The schema of a dataclass with published names, definitions and units; everything is always
    printed."""
    properties = {}
    for f in dataclasses.fields(kind):
        described = {
            key: value for key, value in part["properties"][f.name].items() if key != "default"
        }
        if (kind.__name__, f.name) in VALUES:
            described["enum"] = list(VALUES[kind.__name__, f.name])
        definition = f.metadata.get("definition")
        unit = f.metadata.get("unit")
        if definition:
            described["description"] = f"{definition} ({unit})" if unit else definition
        if unit:
            described["unit"] = unit
        properties[RENAMED.get(f.name, f.name)] = described
    return part | {"properties": properties, "required": list(properties)}
