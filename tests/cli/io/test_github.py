"""What `gh` is asked, and what is made of its answers; `gh` is a stand-in on PATH."""

import os
import stat

import pytest

from tests.github_stand_in import FINE, URL, StandIn
from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.cli.io.github import Issue, comment_command, parse_issue, publish


@pytest.fixture
def gh(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    return StandIn(tmp_path)


@pytest.mark.parametrize(
    ("text", "issue"),
    [
        ("o/r#7", Issue("o/r", 7)),
        ("my-org/my.repo_x#123", Issue("my-org/my.repo_x", 123)),
        ("https://github.com/o/r/issues/7", Issue("o/r", 7)),
        ("https://github.com/o/r/issues/7#issuecomment-1", Issue("o/r", 7)),
        ("https://github.com/o/r/pull/8/files?w=1", Issue("o/r", 8, is_pull_request=True)),
        ("https://git.acme.example:8443/o/r/issues/7", Issue("o/r", 7, "git.acme.example:8443")),
    ],
)
def test_an_issue_is_named_in_two_ways(text, issue):
    assert parse_issue(text) == issue
    assert parse_issue(issue.url) == issue


@pytest.mark.parametrize(
    "text",
    [
        "7",
        "#7",
        "o/r",
        "o/r#",
        "o/r#x",
        "o/r#0",
        "o#7",
        "-o/r#7",
        "o/r#7\n",
        "https://github.com/o/r",
        "ftp://h/o/r/issues/7",
        "a b/r#7",
    ],
)
def test_what_names_no_issue(text):
    with pytest.raises(ValueError, match="neither OWNER/REPO#N nor"):
        parse_issue(text)


def test_the_command_is_that_of_the_kind_and_the_host():
    assert comment_command(Issue("o/r", 7)) == [
        "gh",
        "issue",
        "comment",
        "7",
        "--repo",
        "o/r",
        "--body-file",
        "-",
    ]
    assert comment_command(Issue("o/r", 8, "git.acme.example", True))[:5] == [
        "gh",
        "pr",
        "comment",
        "8",
        "--repo",
    ]
    assert comment_command(Issue("o/r", 8, "git.acme.example"))[5] == "git.acme.example/o/r"


def test_a_comment_is_published_once_and_whole(gh):
    body = "## Summary\n█ é `a`\n" * 1000
    assert publish(Issue("o/r", 7), body) == URL
    (comment,) = gh.calls()
    assert comment["arguments"] == comment_command(Issue("o/r", 7))[1:]
    assert (comment["body"], comment["prompts"]) == (body, "1")


def test_gh_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TraceAnalyzerError, match="gh is not installed"):
        publish(Issue("o/r", 7), "text")


def test_gh_is_not_logged_in(gh):
    gh.answers["issue"] = FINE | {
        "err": "To get started with GitHub CLI, please run:  gh auth login",
        "status": 4,
    }
    gh.install()
    with pytest.raises(
        TraceAnalyzerError, match=r"gh is not logged in to github\.com: run gh auth login"
    ):
        publish(Issue("o/r", 7), "text")


def test_gh_refuses(gh):
    gh.answers["issue"] = FINE | {"err": "GraphQL: Could not resolve to an\nissue", "status": 1}
    gh.install()
    with pytest.raises(
        TraceAnalyzerError, match=r"could not comment on .*/o/r/issues/7: GraphQL: Could not"
    ) as raised:
        publish(Issue("o/r", 7), "text")
    assert "\n" not in str(raised.value)


def test_gh_cannot_be_run(gh, tmp_path):
    (tmp_path / "gh").write_text("#!/no/such/interpreter\n")
    with pytest.raises(TraceAnalyzerError, match="gh cannot be run"):
        publish(Issue("o/r", 7), "text")
    assert os.stat(tmp_path / "gh").st_mode & stat.S_IXUSR
