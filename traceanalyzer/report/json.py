"""The report as the JSON that other programs rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from traceanalyzer.report.values import as_plain

if TYPE_CHECKING:
    from traceanalyzer.report.model import Report

KEYS = (
    "schema_version",
    "tool",
    "inputs",
    "summary",
    "metrics",
    "devices",
    "findings",
    "recommendations",
    "notes",
    "tables",
    "step_parts",
)
"""In order of interest to someone who opens the file."""


def render_json(report: Report) -> str:
    """The report as indented JSON, without NaN or infinity (they are null)."""
    return dump({key: getattr(report, key) for key in KEYS})


def dump(value: Any) -> str:
    """Any report value as JSON text."""
    return orjson.dumps(as_plain(value), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
