"""A saved report comes back as the value that was written."""

import json
from pathlib import Path

import pytest

from tests.analyzed import reported
from tests.report.reports import empty, full
from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.report.json import render_json
from traceanalyzer.report.read import report_from_json
from traceanalyzer.report.table_entries import BY_NAME

SAMPLES = sorted(
    p.parent for p in Path(__file__).parents[2].glob("sample_traces/*/environment.json")
)


UNEVEN = [
    {
        "part": "compute",
        "class": "gemm",
        "op": None,
        "shapes": None,
        "dtypes": None,
        "kernel": None,
        "calls": 1.0,
        "ms": 1.0,
        "batch_ms": batches,
    }
    for batches in ([1.0, 1.0], [1.0])
]


def changed(**keys):
    return json.dumps(json.loads(render_json(full())) | keys)


@pytest.mark.parametrize("report", [full(), empty()], ids=["full", "empty"])
def test_a_report_written_and_read_is_the_same(report):
    text = render_json(report)
    assert render_json(report_from_json(text)) == text
    assert report_from_json(text.encode()).summary == report.summary


@pytest.mark.parametrize("capture", SAMPLES, ids=lambda p: p.name)
def test_reports_of_recordings_come_back_whole(capture):
    report = reported(capture)
    assert set(report.tables) <= set(BY_NAME)
    text = render_json(report)
    back = report_from_json(text)
    assert render_json(back) == text
    assert {name: type(rows[0]) for name, rows in back.tables.items() if rows} == {
        name: type(rows[0]) for name, rows in report.tables.items() if rows
    }


def test_what_was_added_since_is_none_and_what_is_not_known_is_left_out():
    saved = json.loads(render_json(full()))
    del saved["metrics"]["unprofiled_source"]
    del saved["tables"]["kernels"][0]["bound_by"]
    saved["metrics"]["of_the_future"] = 1
    saved["tables"]["of_the_future"] = [{"a": 1}]
    report = report_from_json(json.dumps(saved))
    assert report.metrics.unprofiled_source is None
    assert report.tables["kernels"][0].bound_by is None
    assert "of_the_future" not in report.tables


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("[1]", "no report"),
        ('{"traceEvents": []}', "no report"),
        (
            changed(schema_version=3),
            "written by traceanalyzer 0.1.0 with schema_version 3; this version reads 2",
        ),
        (changed(schema_version="x"), "schema_version is no number"),
        (changed(summary=None), "a damaged report"),
        (changed(tables=[]), "a damaged report"),
        (changed(tables=None), "a damaged report"),
        (changed(tables={"kernels": [1]}), "a damaged report"),
        (changed(tables={"kernels": 1}), "a damaged report"),
        (changed(step_parts=UNEVEN), "a damaged report .*numbers of batches"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(text, says):
    with pytest.raises(UnreadableInputError, match=says) as raised:
        report_from_json(text, "old.json")
    assert str(raised.value).startswith("old.json: ")
    assert "\n" not in str(raised.value)
