"""The JSON contract."""

import dataclasses
import json
import math
import unicodedata

from tests.report.reports import empty, full, hostile
from traceanalyzer.report import json as report_json
from traceanalyzer.report.json import dump, dump_pieces, render_json

MARKS = ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")


def test_keys_are_those_of_the_contract():
    report = json.loads(render_json(full()))
    assert list(report) == [
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
        "host_parts",
    ]
    assert report["schema_version"] == 2
    assert report["tool"] == {"name": "traceanalyzer", "version": "0.1.0"}
    assert list(report["inputs"][0]) == [
        "path",
        "kind",
        "rank",
        "devices",
        "health",
        "world_size",
        "collected",
        "vendor",
        "sha256",
        "program",
    ]
    assert report["inputs"][0]["health"]["notes"] == ["The file stops in the middle of an event."]
    assert set(report["summary"]) == {
        "bottleneck",
        "confidence",
        "headline",
        "basis",
        "step_ms",
        "culprit",
        "beside",
        "budget_ms",
        "idle_ms",
        "idle_share",
    }
    assert set(report["metrics"]["budget_ms"]) == {
        "compute",
        "exposed_communication",
        "exposed_copy",
        "idle",
    }
    assert set(report["findings"][0]) == {
        "id",
        "class",
        "title",
        "severity",
        "headroom_ms",
        "evidence",
    }
    assert {"metric", "value", "unit", "where"} <= set(report["findings"][0]["evidence"][0])
    assert report["recommendations"][0]["class"] == "sync"


def test_floats_have_six_decimals():
    report = json.loads(render_json(full()))
    assert report["metrics"]["step_time_ms"]["std"] == 0.312346
    assert report["findings"][0]["headroom_ms"] == 6.491235


def test_what_is_unknown_is_null():
    report = json.loads(render_json(empty()))
    assert report["metrics"]["step_time_ms"] is None
    assert report["metrics"]["budget_ms"] is None
    assert report["tables"] == {}


def test_no_text_breaks_it_and_no_figure_is_nan_or_infinite():
    def refuse(constant):
        raise AssertionError(constant)

    report = json.loads(render_json(hostile()), parse_constant=refuse)
    assert report["findings"][0]["headroom_ms"] is None
    assert report["findings"][0]["title"] == "<script>alert(1)</script>"
    assert report["tables"]["odd"][0]["total_ms"] is None


@dataclasses.dataclass(frozen=True, slots=True)
class SlottedRow:
    rank: int
    name: str | None
    share: float = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class PlainRow:
    rank: int
    name: str | None


def test_many_rows_are_written_as_few_are(monkeypatch):
    """Also where one has a figure or half a character, which this module writes its own way."""
    plain = [PlainRow(i, None if i % 2 else "a") for i in range(50)]
    figures = [SlottedRow(i, "a", 1 / 3 if i % 2 else math.nan) for i in range(50)]
    halves = [PlainRow(i, "\ud800") for i in range(50)]
    for rows in (plain, figures, halves):
        few = dump({"rows": rows})
        monkeypatch.setattr(report_json, "MANY_ROWS", 10)
        monkeypatch.setattr(report_json, "ROWS_AT_ONCE", 7)
        assert dump({"rows": rows}) == few
        assert "".join(dump_pieces({"rows": rows})) == few
        monkeypatch.undo()


def test_a_character_on_the_border_of_two_pieces_stays_whole(monkeypatch):
    monkeypatch.setattr(report_json, "PIECE_BYTES", 3)
    assert "".join(dump_pieces(["é中é中"])) == dump(["é中é中"])


def test_what_would_control_a_terminal_is_escaped_and_means_the_same():
    """Every character that Unicode calls a control, a format or a separator of lines."""
    unseen = [
        chr(i)
        for i in range(0x110000)
        if unicodedata.category(chr(i)) in ("Cc", "Zl", "Zp")
        or unicodedata.bidirectional(chr(i)) in MARKS
    ]
    text = dump({"name": "".join(unseen) + "… é中"})
    assert json.loads(text)["name"] == "".join(unseen) + "… é中"
    assert [one for one in unseen if one in text and one != "\n"] == []
    assert "… é中" in text
