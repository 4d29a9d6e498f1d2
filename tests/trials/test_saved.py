"""What `attach` and `compare` show of a saved answer."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tests.analyzed import reported
from tests.recorded import ROOT
from traceanalyzer.cli import cli
from traceanalyzer.report.json import render_json
from traceanalyzer.trials.saved import compared_section, trials_in

SAMPLE = ROOT / "sample_traces" / "sync_bound"
STEP = {"ms": 10.0, "low_ms": 9.9, "high_ms": 10.1}
HALF = {"ms": 5.0, "low_ms": 4.9, "high_ms": 5.1}
LOST = "ended with status 1: FileNotFoundError: /home/bob/secret/data.bin"
TRIALS = {
    "command": "python /home/bob/secret/train.py",
    "base": STEP,
    "best": ["loader_workers=12"],
    "best_step": HALF,
    "best_base": STEP,
    "switches": [
        {"switch": "tf32", "outcome": "failed", "why": LOST},
        {"switch": "loader_workers", "outcome": "faster", "measured": HALF, "speedup": 2.0},
        {
            "switch": "loader_workers=12",
            "outcome": "faster",
            "measured": HALF,
            "speedup": 1.02,
            "write": "DataLoader(..., num_workers=12)",
            "where": "train.py:12",
            "on_top_of": ["loader_workers"],
        },
    ],
    "not_supported": {"compile": "the program compiles already"},
}


@pytest.fixture
def saved(tmp_path):
    """A saved answer, and its report alone."""
    report = render_json(reported(SAMPLE))
    alone = tmp_path / "report.json"
    alone.write_text(report)
    answer = tmp_path / "try.json"
    answer.write_text(json.dumps(json.loads(report) | {"trials": TRIALS}))
    return answer, alone


def _printed(*words):
    done = CliRunner().invoke(cli, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_attach_begins_with_what_was_tried(saved):
    answer, alone = saved
    text = _printed("attach", answer)
    assert "10 → 5 ms a step, 2.00x, with loader" in text.splitlines()[3]
    assert "`+ loader_workers=12` | 5.00 | 1.02 | faster | `train.py:12: DataLoader" in text
    assert "secret" not in text
    assert "## Summary" in text
    assert "## Trials" not in _printed("attach", alone)


def test_compare_has_what_came_of_each_switch_before_and_after(saved):
    answer, alone = saved
    text = _printed("compare", alone, answer)
    assert "B: 10 → 5 ms a step, 2.00x, with loader_workers=12." in text
    assert "Trials" in _printed("compare", answer, answer, "--format", "markdown")
    assert "Trials" not in _printed("compare", alone, alone)


def test_both_sides_of_a_switch(tmp_path):
    nothing = {"switches": [], "best": [], "best_step": None}
    sides = []
    for name, trials in (("a", TRIALS), ("b", TRIALS | nothing)):
        path = tmp_path / name
        path.write_text(json.dumps({"trials": trials}))
        sides.append(trials_in(str(path)))
    section = compared_section(*sides)
    (_, _, table) = section.parts
    assert [(row.switch, row.a, row.b) for row in table.rows] == [
        ("tf32", f"failed: {LOST}", "-"),
        ("loader_workers", "2.00x, faster", "-"),
    ]
    assert section.parts[1] == "B: Nothing that was tried makes the step shorter. It is 10 ms."


@pytest.mark.parametrize("text", ["", "{", '{"trials": 3}', '{"trials": {"base": {"ms": "x"}}}'])
def test_what_is_no_answer_has_no_trials(tmp_path, text):
    (tmp_path / "try.json").write_text(text)
    assert trials_in(str(tmp_path / "try.json")) is None
    assert trials_in(str(tmp_path)) is None
