"""Answers to agents: short, with units and origins, and honest where the recording cannot tell."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recorded import GPU, ranks
from traceanalyzer.agent import verbs
from traceanalyzer.agent.answer import MOST_TOKENS, fitted_answer, one_line, tokens
from traceanalyzer.agent.sources import Sources
from traceanalyzer.agent.told import MOST_OF_A_SENTENCE, quoted_sentence
from traceanalyzer.base.errors import TraceAnalyzerError

ROOT = Path(__file__).resolve().parents[2]
BOUND, FIXED = (str(ROOT / "sample_traces" / name) for name in ("sync_bound", "sync_fixed"))
LOG = str(ROOT / "sample_traces" / "timing_input_bound")
TABLES = (
    "kernels",
    "ops",
    "gaps",
    "syncs",
    "steps",
    "path",
    "copies",
    "comm",
    "phases",
    "ranks",
    "gap_histogram",
)


@pytest.fixture(scope="module")
def sources():
    return Sources()


def figures_in(value):
    """Every figure of an answer."""
    if isinstance(value, dict):
        if "value" in value:
            yield value
        for inner in value.values():
            yield from figures_in(inner)
    if isinstance(value, list):
        for inner in value:
            yield from figures_in(inner)


def test_what_is_predicted_for_as_much_work_is_no_time_of_a_step(sources):
    said = json.loads(verbs.diagnose(sources, *map(str, ranks("kineto/vit_small_batch.base"))))
    units = {
        "batch" in change["do"].lower(): change["predicted"]["unit"] for change in said["changes"]
    }
    assert units == {True: "ms for as much work as a step does now", False: "ms per step"}


def test_what_needs_another_change_first_has_its_figure_with_both(sources):
    path = next(str(path) for path in GPU if path.name == "sync_bound.json.gz")
    changes = json.loads(verbs.diagnose(sources, path))["changes"]
    (both,) = [one for one in changes if one["remedy"] == "cuda_graph"]
    assert both["predicted"]["unit"] == "ms per step, with remove_syncs too"
    assert both["range_ms"][0] < both["predicted"]["value"] < both["range_ms"][1]


@pytest.mark.parametrize("path", [*map(str, GPU), LOG], ids=lambda path: Path(path).name)
def test_a_diagnosis_is_short_and_every_figure_says_where_it_is_from(sources, path):
    text = verbs.diagnose(sources, path)
    said = json.loads(text)
    assert tokens(text) <= MOST_TOKENS
    assert said["headline"]
    figures = list(figures_in(said))
    assert figures
    for figure in figures:
        assert figure["unit"].startswith(("ms per step", "ms for as much work as a step does now"))
        assert figure["how"]
        assert (
            figure["value"] is not None
            or "cannot be known" in figure["how"]
            or "bound" in figure["how"]
            or "no estimate" in figure["how"]
            or " ms" in figure["how"]
        ), figure


@pytest.mark.parametrize("name", TABLES)
def test_tables_keep_their_size_and_define_their_columns(sources, name):
    text = verbs.table(sources, BOUND, name, top=500)
    said = json.loads(text)
    assert tokens(text) <= MOST_TOKENS
    assert said["rows"] or said["none"]
    for row in said["rows"]:
        assert len(row) == len(said["columns"])
    assert all(column["how"] for column in said["columns"])


def test_a_table_is_sorted_and_cut_to_columns(sources):
    said = json.loads(verbs.table(sources, BOUND, "kernels", 3, "mean_us", ["name", "mean_us"]))
    assert [column["name"] for column in said["columns"]] == ["name", "mean_us"]
    times = [row[1] for row in said["rows"]]
    assert times == sorted(times, reverse=True)
    assert len(times) == 3
    for name, sort in (("nonsense", ""), ("kernels", "nonsense")):
        with pytest.raises(TraceAnalyzerError, match="nonsense"):
            verbs.table(sources, BOUND, name, sort=sort)


def test_the_other_verbs(sources):
    said = json.loads(verbs.evidence(sources, BOUND, "host-waits"))
    assert {e["what"] for e in said["evidence"]}
    with pytest.raises(TraceAnalyzerError, match="host-waits"):
        verbs.evidence(sources, BOUND, "nonsense")
    said = json.loads(verbs.whatif(sources, BOUND, {"aten::addmm": 2.0, "nonsense": 2.0}))
    assert any(s["id"] == "aten::addmm=2" for s in said["scenarios"])
    assert any(s["id"] == "nonsense=2" for s in said["cannot_be_known"])
    said = json.loads(verbs.compare(sources, BOUND, FIXED))
    assert (said["predicted"]["id"], said["predicted"]["remedy"]) == ("host-waits", "remove_syncs")
    assert said["step"]["significant"] is True
    assert json.loads(verbs.verify(sources, BOUND, {"gpu_idle_share": "10%"}))["passed"] is False
    assert json.loads(verbs.verify(sources, BOUND, {"gpu_idle_share": "90%"}))["passed"] is True
    with pytest.raises(TraceAnalyzerError, match="nothing to verify"):
        verbs.verify(sources, BOUND)
    assert "## What it means" in json.loads(verbs.explain("launch-bound"))["text"]
    assert json.loads(verbs.explain("gpu_busy_share"))["meanings"]


def test_what_cannot_be_known_names_the_recording_that_would_tell(sources):
    log = json.loads(verbs.limits(sources, LOG))["cannot_be_known"]
    assert log[0]["question"] == "where the time of a step goes"
    stacks = {u["question"]: u for u in json.loads(verbs.limits(sources, BOUND))["cannot_be_known"]}
    assert "--stacks" in stacks["the source line of a wait or a gap"]["record"]
    with_stacks = json.loads(
        verbs.limits(sources, str(ROOT / "sample_traces" / "sync_bound_stacks"))
    )
    assert "the source line of a wait or a gap" not in {
        u["question"] for u in with_stacks["cannot_be_known"]
    }


def test_names_are_one_line_without_control_characters(sources):
    assert one_line("a\x1b[31m\nb\tc") == one_line("a\x1b[31m b c")
    assert "\x1b" not in one_line("\x1b]0;x\x07")
    assert len(one_line("x" * 9_999)) <= 120


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=5),
        st.one_of(st.text(max_size=9_000), st.lists(st.text(max_size=300), max_size=80)),
        max_size=6,
    )
)
def test_any_answer_is_fitted(answer):
    text = fitted_answer(**answer)
    assert tokens(text) <= MOST_TOKENS
    json.loads(text)


def test_a_recording_is_read_once_until_it_changes(tmp_path, monkeypatch):
    path = tmp_path / "trace.json.gz"
    path.write_bytes(GPU[0].read_bytes())
    sources = Sources([tmp_path])
    first = sources.analyzed(str(path))
    assert sources.analyzed(str(path)) is first
    path.write_bytes(GPU[-1].read_bytes())
    assert sources.analyzed(str(path)) is not first


def test_files_outside_the_folders_are_not_read(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link.json.gz").symlink_to(GPU[0])
    for path in (str(GPU[0]), str(inside / ".." / "x"), str(inside / "link.json.gz")):
        with pytest.raises(TraceAnalyzerError, match="outside"):
            Sources([inside]).analyzed(path)
        with pytest.raises(TraceAnalyzerError, match="outside"):
            Sources([inside]).report(path)


def test_paths_may_be_relative_to_the_folder_that_may_be_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sources = Sources([ROOT / "sample_traces"])
    assert json.loads(verbs.diagnose(sources, "sync_bound"))["bottleneck"]
    found = json.loads(verbs.recordings(sources, "sync_bound"))["recordings"]
    assert [one["path"] for one in found] == ["sync_bound"], "a capture is one recording"
    every = json.loads(verbs.recordings(sources))["recordings"]
    assert not any(one["path"].endswith("environment.json") for one in every)
    with pytest.raises(TraceAnalyzerError, match="no such file"):
        verbs.diagnose(sources, "sinc_bound")
    with pytest.raises(TraceAnalyzerError):
        verbs.recordings(sources, "..")


def test_a_sentence_ends_where_a_clause_does() -> None:
    assert quoted_sentence("what  one\nstep needs") == "what one step needs"
    long = "; ".join(f"assumption {i} that is told in many words" for i in range(40))
    quoted = quoted_sentence(long)
    assert quoted.endswith("in many words.")
    assert len(quoted) <= MOST_OF_A_SENTENCE


def test_a_headroom_that_others_count_is_what_its_advice_gains(sources, tmp_path):
    for path in ranks("pairs/straggler_host.base"):
        shutil.copy(path, tmp_path)
    said = json.loads(verbs.diagnose(sources, str(tmp_path)))
    (found,) = [one for one in said["findings"] if one["id"] == "straggler"]
    (advice,) = [one for one in said["changes"] if one["remedy"] == "fix_straggler"]
    assert found["headroom"]["how"] == "what its advice gains"
    step_ms = said["step"]["without_profiler"]["value"]
    gain_ms = step_ms - advice["predicted"]["value"]
    assert found["headroom"]["value"] == pytest.approx(gain_ms, rel=0.02)
