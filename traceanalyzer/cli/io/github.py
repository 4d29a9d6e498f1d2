"""Comments on GitHub issues and pull requests, by the `gh` that the user has installed and logged
in."""

import json
import os
import shutil
import subprocess
from typing import Any

from traceanalyzer.base import regex
from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.base.frozen import dataclass

GITHUB = "github.com"
PATIENCE_S = 120  # a comment is one request
NOT_LOGGED_IN = 4  # status of gh where a command needs an account (gh help exit-codes)
NAME = r"[A-Za-z0-9][\w.-]*/[\w.-]+"
SHORT = regex(rf"^(?P<repository>{NAME})#(?P<number>[1-9]\d{{0,17}})")
URL = regex(
    rf"https?://(?P<host>[A-Za-z0-9][\w.:-]*)/(?P<repository>{NAME})/(?P<kind>issues|pull)/(?P<number>[1-9]\d{{0,17}})(?:[/?#].*)?"
)


@dataclass(frozen=True)
class Issue:
    """An issue or a pull request."""

    repository: str
    number: int
    host: str = GITHUB
    is_pull_request: bool = False

    @property
    def url(self) -> str:
        """Where people see it."""
        return f"https://{self.host}/{self.repository}/{'pull' if self.is_pull_request else 'issues'}/{self.number}"


MARK = "<!-- traceanalyzer{} -->"  # begins a comment, invisibly, so that it can be found again
COMMENTS = "comments(last: 100) { nodes { id url viewerDidAuthor body } }"
FIND = (
    "query($owner: String!, $name: String!, $number: Int!) { repository(owner: $owner, name: $name) { "
    f"issueOrPullRequest(number: $number) {{ ... on Issue {{ {COMMENTS} }} ... on PullRequest {{ {COMMENTS} }} }} }} }}"
)
EDIT = (
    "mutation($id: ID!, $body: String!) { updateIssueComment(input: {id: $id, body: $body}) "
    "{ issueComment { url } } }"
)


def parse_issue(text: str) -> Issue:
    """The issue that `OWNER/REPO#N` or a URL names. Raises ValueError."""
    match = SHORT.fullmatch(text) or URL.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is neither OWNER/REPO#N nor the address of an issue or pull request"
        )
    parts = match.groupdict()
    return Issue(
        parts["repository"],
        int(parts["number"]),
        parts.get("host") or GITHUB,
        parts.get("kind") == "pull",
    )


def marked(text: str, name: str = "") -> str:
    """The text as a comment that `publish` finds again; `name` tells several of one issue apart."""
    return f"{MARK.format(f': {name}' if name else '')}\n{text}"


def comment_command(issue: Issue) -> list[str]:
    """The command that makes its standard input a comment. `gh issue` finds a pull request of that
    number, too."""
    repository = issue.repository if issue.host == GITHUB else f"{issue.host}/{issue.repository}"
    kind = "pr" if issue.is_pull_request else "issue"
    return ["gh", kind, "comment", str(issue.number), "--repo", repository, "--body-file", "-"]


def publish(issue: Issue, text: str) -> str:
    """Make a text a comment, or what a comment of one's own that begins with the same mark says
    now; gives its address.

    Raises TraceAnalyzerError where gh is missing, not logged in, or refuses."""
    if shutil.which("gh") is None:
        raise TraceAnalyzerError(
            "gh is not installed: get it from https://cli.github.com, or paste the text yourself"
        )
    earlier = (
        _earlier(issue, text.partition("\n")[0])
        if text.startswith(MARK.partition("{")[0])
        else None
    )
    if earlier is not None:
        answer = _asked(
            issue, ["-F", "body=@-", "-f", f"id={earlier}", "-f", f"query={EDIT}"], text
        )
        return str(answer["data"]["updateIssueComment"]["issueComment"]["url"])
    return _printed(issue, comment_command(issue), text) or issue.url


def _earlier(issue: Issue, mark: str) -> str | None:
    """The id of the last comment of one's own with this mark, among the last 100 of the issue."""
    owner, _, name = issue.repository.partition("/")
    fields = [
        "-f",
        f"owner={owner}",
        "-f",
        f"name={name}",
        "-F",
        f"number={issue.number}",
        "-f",
        f"query={FIND}",
    ]
    found = _asked(issue, fields)["data"]["repository"]["issueOrPullRequest"]
    own = [
        c for c in found["comments"]["nodes"] if c["viewerDidAuthor"] and c["body"].startswith(mark)
    ]
    return str(own[-1]["id"]) if own else None


def _asked(issue: Issue, fields: list[str], text: str = "") -> Any:
    """GitHub's answer to a GraphQL request. Raises TraceAnalyzerError where it is none."""
    printed = _printed(issue, ["gh", "api", "graphql", "--hostname", issue.host, *fields], text)
    try:
        answer = json.loads(printed)
    except ValueError as error:
        raise TraceAnalyzerError(f"gh could not read {issue.url}: its answer is no JSON") from error
    about = answer.get("data") or {}
    if not about or (
        "repository" in about and not (about["repository"] or {}).get("issueOrPullRequest")
    ):
        raise TraceAnalyzerError(
            f"gh could not read {issue.url}: there is no such issue, or no access to it"
        )
    return answer


def _printed(issue: Issue, command: list[str], text: str) -> str:
    """What gh prints. Raises TraceAnalyzerError."""
    program = shutil.which(command[0]) or command[0]
    quietly = os.environ | {"GH_PROMPT_DISABLED": "1"}
    try:
        done = subprocess.run(  # noqa: S603
            [program, *command[1:]],
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PATIENCE_S,
            env=quietly,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TraceAnalyzerError(
            f"{' '.join(command[:3])} did not answer within {PATIENCE_S} s"
        ) from error
    except OSError as error:
        raise TraceAnalyzerError(f"gh cannot be run: {error.strerror}") from error
    if done.returncode == NOT_LOGGED_IN:
        raise TraceAnalyzerError(
            f"gh is not logged in to {issue.host}: run gh auth login --hostname {issue.host}"
        )
    if done.returncode != 0:
        printed = " ".join(done.stderr.split()) or f"status {done.returncode}"
        raise TraceAnalyzerError(f"gh could not comment on {issue.url}: {printed}")
    return done.stdout.strip()
