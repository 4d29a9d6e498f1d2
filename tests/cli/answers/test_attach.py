"""`attach`: shows by default, publishes when told, hides what is not for the public."""

from pathlib import Path

import pytest

from tests.github_stand_in import FINE, URL, StandIn, comments
from tests.recorded import ranks
from tests.report.reports import full
from traceanalyzer.history.runs import store_report
from traceanalyzer.report.json import render_json
from traceanalyzer.report.markdown.issue import render_markdown
from traceanalyzer.report.privacy.redact import redact

SAMPLES = Path(__file__).resolve().parents[3] / "sample_traces"
BOUND = SAMPLES / "sync_bound"
FIXED = SAMPLES / "sync_fixed"


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(render_json(full()), encoding="utf-8")
    return path


@pytest.fixture
def gh(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    return StandIn(tmp_path)


def test_nothing_is_sent_by_default(saved, run, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    status, out, err = run("attach", saved, "--issue", "o/r#7")
    assert status == 0
    assert out == f"<!-- traceanalyzer -->\n{render_markdown(redact(full()))}"
    assert "alice" not in out
    assert (
        f"nothing was published; --publish makes these {len(out):,} characters a comment on" in err
    )
    assert (
        "https://github.com/o/r/issues/7 (gh issue comment 7 --repo o/r --body-file -), or edits"
        in err
    )


def test_what_was_shown_is_what_is_published(saved, run, gh):
    shown = run("attach", saved, "--issue", "o/r#7", "--redact-name", "xmma")[1]
    assert run("attach", saved, "--issue", "o/r#7", "--redact-name", "xmma", "--publish") == (
        0,
        f"{URL}\n",
        "",
    )
    assert gh.calls()[-1]["body"] == shown
    assert "xmma" not in shown


def test_redaction_can_be_switched_off(saved, run):
    assert "alice" in run("attach", saved, "--issue", "o/r#7", "--no-redact")[1]
    assert run("attach", saved, "--issue", "o/r#7", "--no-redact", "--redact-name", "x")[0] == 2


def test_without_an_issue_it_is_shown(saved, run):
    status, out, err = run("attach", saved)
    assert status == 0
    assert out == run("attach", saved, "--issue", "o/r#7")[1]
    assert "nothing was published; --issue OWNER/REPO#N says where" in err


def test_a_stored_run_and_a_recording_can_be_attached(asked, run, tmp_path):
    path = tmp_path / "runs.db"
    store_report(path, full())
    shown = run("attach", f"{path}#latest", "--issue", "o/r#7")[1]
    assert shown == f"<!-- traceanalyzer -->\n{render_markdown(redact(full()))}"


def test_the_comment_is_as_long_as_it_may_be(saved, run):
    assert len(run("attach", saved, "--issue", "o/r#7", "--max-chars", 5000)[1]) <= 5000


@pytest.mark.parametrize(
    "options", [("--publish",), ("--issue", "7"), ("--issue", "o/r#7", "--max-chars", 10)]
)
def test_usage_errors(saved, run, options):
    assert run("attach", saved, *options)[0] == 2


def test_without_gh_it_is_one_line(saved, run, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    status, out, err = run("attach", saved, "--issue", "o/r#7", "--publish")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "gh is not installed" in err


def test_a_second_time_the_comment_is_edited(saved, run, gh):
    gh.answers["api"] = comments(
        (True, "hello"), (True, "<!-- traceanalyzer -->\nold"), (False, "<!-- traceanalyzer -->\nx")
    )
    gh.install()
    assert run("attach", saved, "--issue", "o/r#7", "--publish") == (0, f"{URL}-edited\n", "")
    asked, edited = gh.calls()
    assert asked["arguments"][:2] == ["api", "graphql"]
    assert "id=IC_1" in edited["arguments"]
    assert edited["body"] == run("attach", saved, "--issue", "o/r#7")[1]


def test_comments_of_other_names_stay(saved, run, gh):
    gh.answers["api"] = comments((True, "<!-- traceanalyzer -->\nold"))
    gh.install()
    assert (
        run("attach", saved, "--issue", "o/r#7", "--name", "eight-gpus", "--publish")[1]
        == f"{URL}\n"
    )
    assert gh.calls()[-1]["body"].startswith("<!-- traceanalyzer: eight-gpus -->\n")
    assert run("attach", saved, "--issue", "o/r#7", "--name", "a-->b")[0] == 2


def test_an_issue_that_is_not_there_is_one_line(saved, run, gh):
    gh.answers["api"] = FINE | {"out": '{"data": {"repository": {"issueOrPullRequest": null}}}'}
    gh.install()
    status, _, err = run("attach", saved, "--issue", "o/r#7", "--publish")
    assert (status, err.count("\n")) == (1, 1)
    assert "there is no such issue" in err
    gh.answers["api"] = FINE | {"out": "<html>"}
    gh.install()
    assert "no JSON" in run("attach", saved, "--issue", "o/r#7", "--publish")[2]


def test_a_comparison_comes_first(run, tmp_path):
    out = run("attach", FIXED, "--compare", BOUND, "--issue", "o/r#7")[1]
    assert out.startswith("<!-- traceanalyzer -->\n## Summary\n\n**Faster")
    assert "<summary>Where the time goes now</summary>" in out
    assert len(out) <= 8_100
    assert str(BOUND.parent) not in out


def test_a_picture_is_written_beside(run, tmp_path):
    file = tmp_path / "report.svg"
    sample = BOUND
    status, _, _ = run("attach", sample, "--issue", "a/b#1", "--picture", file)
    assert status == 0
    assert file.read_text().startswith("<svg ")
    assert "sync- and compute-bound" in file.read_text()
    status, _, error = run(
        "attach", sample, "--issue", "a/b#1", "--picture", tmp_path / "report.png"
    )
    assert (status, "does not end in .svg" in error) == (2, True)


def test_the_four_parts_stand_in_order_and_a_link_ends_the_comment(run):
    sample = Path(__file__).resolve().parents[3] / "sample_traces" / "sync_bound"
    text = run("attach", sample, "--issue", "o/r#1", "--link", "https://example.org/pages")[1]
    parts = ["## Summary", "## Metrics", "## Findings", "## Recommendations", "## How to reproduce"]
    assert sorted(parts, key=text.index) == parts
    assert "### Top kernels" in text
    assert text.rstrip().endswith("[The pages of this report](https://example.org/pages)")
    assert run("attach", sample, "--issue", "o/r#1", "--link", "javascript:alert(1)")[0] == 2


def test_several_recordings_are_ranks_of_one_run(run):
    status, text, _ = run("attach", *ranks("two_ranks/straggler_batch.base"))
    assert status == 0
    assert "Rank 1 holds up the others" in text
    assert text.index("## Findings") < text.index("## How to reproduce")
