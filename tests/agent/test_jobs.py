"""`diagnose` takes what `analyze` takes by content."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from traceanalyzer.agent import jobs, verbs
from traceanalyzer.agent.answer import MOST_TOKENS, tokens
from traceanalyzer.agent.jobs import _figures
from traceanalyzer.agent.sources import Sources
from traceanalyzer.analysis.ranks.pipeline.slowdown import PipelineSlowdown
from traceanalyzer.base import UnreadableInputError

DATA = Path(__file__).resolve().parents[1] / "data"


def told(path: str, root: Path = DATA) -> dict:
    text = verbs.diagnose(Sources([root]), path)
    assert tokens(text) <= MOST_TOKENS
    return json.loads(text)


def test_a_log_of_operations_is_diagnosed():
    pytest.importorskip("pyarrow")
    (log,) = sorted((DATA / "stragglers").glob("*.parquet"))[:1]
    answer = told(f"stragglers/{log.name}")
    assert answer["headline"]
    assert answer["summary"]["step_ms"] > 0
    assert {"s", "ideal_ms"} <= answer["slowdown"].keys()
    assert answer["findings"][0]["id"] in ("straggler", "heavy-stage", "uneven-microbatches")
    assert "value" in answer["changes"][0]["predicted"]


def test_dumps_of_a_hung_job_are_diagnosed():
    answer = told("hang")
    assert answer["verdict"]["headline"]
    assert answer == json.loads(jobs.hang(Sources([DATA]), "hang"))


def test_what_is_none_of_those_is_refused_as_a_recording_is(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing to see")
    with pytest.raises(UnreadableInputError, match="not a recording"):
        told("notes.txt", tmp_path)


def test_figures_of_each_worker_are_left_out():
    names = PipelineSlowdown.__dataclass_fields__
    slow = PipelineSlowdown(**{name: {"0": 1.0} if name == "s_w" else 1.0 for name in names})
    assert "s_w" not in _figures(slow)
    assert _figures(slow)["s"] == 1.0
    assert _figures(None) is None


def test_a_path_is_below_the_root_where_there_is_such_a_file(tmp_path, monkeypatch):
    """A file of the same name where the server was started hid it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hang").mkdir()
    assert told("hang")["verdict"]
