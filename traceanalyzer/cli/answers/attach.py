"""`traceanalyzer attach`."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.cli.options import (
    FILE,
    Hidden,
    command,
    limit_option,
    max_chars_option,
    redact_options,
)

if TYPE_CHECKING:
    from traceanalyzer.cli.io.github import Issue
    from traceanalyzer.report.model import Report
    from traceanalyzer.report.printed import Result
    from traceanalyzer.trials.saved import SavedTrials


def _issue(_: click.Context, __: click.Parameter, text: str | None) -> "Issue | None":
    from traceanalyzer.cli.io.github import parse_issue

    try:
        return None if text is None else parse_issue(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _name(_: click.Context, __: click.Parameter, text: str) -> str:
    if text and not text.replace("-", "").replace("_", "").isalnum():
        raise click.BadParameter(f"{text!r} is not one word")
    return text


def _address(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    if text and not re.fullmatch(r"https?://[^\s()<>\[\]]+", text):
        raise click.BadParameter(f"{text!r} is no address")
    return text


@command("attach")
@click.argument("reports", metavar="REPORT...", nargs=-1, required=True)
@click.option(
    "--issue",
    metavar="OWNER/REPO#N",
    callback=_issue,
    help="The issue or pull request; or its address (https://github.com/...). Without it the comment is only shown.",
)
@click.option(
    "--compare",
    "base",
    metavar="BASE",
    help="Begin with what changed from BASE (anything REPORT can be).",
)
@click.option(
    "--name",
    default="",
    metavar="WORD",
    callback=_name,
    help="Keeps several comments on one issue apart: one each.",
)
@click.option("--publish", is_flag=True, help="Really do it; without this it is only shown.")
@click.option(
    "--picture",
    **FILE,
    help="Also write the report (with --compare the waterfall) as a picture, FILE.svg, to be dragged into the comment: "
    "gh cannot upload files.",
)
@click.option(
    "--link",
    metavar="URL",
    callback=_address,
    help="End the comment with a link to uploaded pages.",
)
@redact_options(by_default=True)
@max_chars_option
@limit_option
def attach(
    reports: tuple[str, ...],
    issue: "Issue | None",
    base: str | None,
    name: str,
    publish: bool,
    picture: Path | None,
    link: str | None,
    hidden: Hidden,
    max_chars: int | None,
) -> None:
    """Make a report a comment on a GitHub issue or pull request, by an installed `gh`; edit the one
    made before."""
    from traceanalyzer.cli.io import github
    from traceanalyzer.cli.io.output import check_writable, write

    if publish and issue is None:
        raise click.UsageError("--publish needs --issue OWNER/REPO#N")
    if picture is not None and picture.suffix.lower() != ".svg":
        raise click.UsageError(f"--picture writes SVG, and {picture} does not end in .svg")
    check_writable(picture)
    text, drawn = _comment(reports, base, hidden, max_chars)
    if picture is not None:
        write(drawn.svg(), picture)
    if link:
        text = f"{text.rstrip()}\n\n[The pages of this report]({link})\n"
    text = github.marked(text, name)
    if publish and issue is not None:
        write(f"{github.publish(issue, text)}\n", None)
        return
    write(text, None)
    click.echo(f"traceanalyzer: nothing was published; {_how_to_publish(issue, text)}", err=True)


def _how_to_publish(issue: "Issue | None", text: str) -> str:
    """What makes the text a comment, for someone who has only seen it."""
    from traceanalyzer.cli.io.github import comment_command

    if issue is None:
        return f"--issue OWNER/REPO#N says where these {len(text):,} characters go"
    done = f"--publish makes these {len(text):,} characters a comment on {issue.url}"
    command = shlex.join(comment_command(issue))
    return f"{done} ({command}), or edits the one that it made before"


def _comment(
    reports: Sequence[str], base: str | None, hidden: Hidden, max_chars: int | None
) -> "tuple[str, Result]":
    """The comment, and what its picture shows."""
    from traceanalyzer.cli.io.reports import (
        cleaned_with,
        report_of_reference,
        report_of_references,
    )
    from traceanalyzer.report.parts.hashed import hashed
    from traceanalyzer.trials.saved import trials_in

    report = hashed(report_of_references(reports))
    if base:
        before = report_of_reference(base)
        names = ("base", "this") if hidden is not None else (base, ", ".join(reports))
        return _compared(*cleaned_with(before, report, hidden), names, max_chars)
    trials = trials_in(reports[0]) if len(reports) == 1 else None
    report, trials = cleaned_with(report, trials, hidden)
    return _alone(report, max_chars, trials)


def _alone(
    report: "Report", max_chars: int | None, trials: "SavedTrials | None"
) -> "tuple[str, Result]":
    """The comment on one report, which begins with what was tried, and what its picture shows."""
    from traceanalyzer.report.markdown.issue import BRIEF, render_markdown
    from traceanalyzer.report.page import ReportPage
    from traceanalyzer.trials.saved import tried_document

    most = max_chars or BRIEF
    above = "" if trials is None else f"{tried_document(trials).markdown(most).rstrip()}\n\n"
    return above + render_markdown(report, max(most - len(above), 1)), ReportPage(report)


def _compared(
    before: "Report", report: "Report", names: tuple[str, str], max_chars: int | None
) -> "tuple[str, Result]":
    """The comment on a report, which begins with what changed, and what its picture shows."""
    from traceanalyzer.comparison.compare import compare_reports
    from traceanalyzer.comparison.document import ComparisonPage, with_comparison
    from traceanalyzer.report.markdown.issue import BRIEF

    comparison = compare_reports(before, report, names)
    return with_comparison(comparison, report, max_chars or BRIEF), ComparisonPage(comparison)
