"""`traceanalyzer check`."""

from typing import TYPE_CHECKING

import click

from traceanalyzer.cli.io.formats import Output
from traceanalyzer.cli.options import (
    Hidden,
    command,
    limit_option,
    output_options,
    reading_options,
    redact_options,
)
from traceanalyzer.cli.scope import Scope, amount_options, selection_options

if TYPE_CHECKING:
    from traceanalyzer.comparison.limits import Bound, Limit, Policy
    from traceanalyzer.comparison.verdicts import Checked

FORMATS = ("terminal", "markdown", "junit", "json", "github")
BREACHED = 3
"""Exit status where a limit does not hold: told apart from input that cannot be analysed and from
usage."""


@command("check")
@click.argument("report", metavar="REPORT|PATH")
@selection_options
@amount_options
@click.option(
    "--baseline",
    metavar="X",
    help="What limits such as +3% are against: anything that REPORT can be.",
)
@click.option(
    "--max",
    "most",
    multiple=True,
    metavar="NAME=LIMIT",
    help=(
        "A figure and what it may be at most: a number, or +3% against the baseline. May be "
        "repeated."
    ),
)
@click.option(
    "--min",
    "least",
    multiple=True,
    metavar="NAME=LIMIT",
    help="Breached below LIMIT. May be repeated.",
)
@click.option(
    "--policy",
    "policy_file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Limits and baseline from a TOML file; options go before it.",
)
@click.option(
    "--allow-missing",
    is_flag=True,
    help="Pass what was not measured: a figure with a limit, a claim that cannot be told.",
)
@click.option(
    "--recorded",
    is_flag=True,
    hidden=True,
    expose_value=False,
    help="Of older versions: the name of a figure says whether it is as recorded.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Also breach limits against the baseline by changes within noise.",
)
@click.option(
    "--claim",
    metavar="TEXT",
    help="Whether the change since the baseline is what TEXT says, by stopwatch: '0.68 to 1.05 ms', '1.3x', "
    "'faster', 'no change'.",
)
@redact_options()
@output_options(FORMATS, "baseline", "policy_file")
@limit_option
@reading_options
def check(
    report: str,
    scope: Scope,
    baseline: str | None,
    most: tuple[str, ...],
    least: tuple[str, ...],
    policy_file: str | None,
    allow_missing: bool,
    strict: bool,
    claim: str | None,
    hidden: Hidden,
    output: Output,
) -> None:
    """Hold the figures of a run against limits."""
    from traceanalyzer.cli.io.output import emit

    if claim is not None:
        if most or least or policy_file or strict:
            raise click.UsageError(
                "--claim is a question of its own: ask --max, --min and --policy in another command"
            )
        holds = _judge(claim, report, baseline, scope, hidden, output, allow_missing=allow_missing)
        click.get_current_context().exit(0 if holds else BREACHED)
    from traceanalyzer.comparison.limits import LimitError, Policy

    try:
        upper = [_limit("max", text) for text in most]
        lower = [_limit("min", text) for text in least]
        limits = (*upper, *lower)
        policy = _policy(policy_file, Policy(limits, baseline, allow_missing, strict))
        result = _checked(report, policy, scope, hidden)
    except LimitError as error:
        raise click.UsageError(str(error)) from error
    emit(result, output)
    click.get_current_context().exit(0 if result.passed else BREACHED)


def _judge(
    claim: str,
    report: str,
    baseline: str | None,
    scope: Scope,
    hidden: Hidden,
    output: Output,
    *,
    allow_missing: bool,
) -> bool:
    """Say whether the claim holds. One that cannot be told passes with `allow_missing` alone.
    Raises UsageError without a baseline, and for a claim that makes no sense."""
    from traceanalyzer.agent.claims import StatedChange, judged_claim, judgement_page
    from traceanalyzer.base import TraceAnalyzerError
    from traceanalyzer.cli.io.output import emit
    from traceanalyzer.cli.io.reports import cleaned, report_of_reference
    from traceanalyzer.comparison.compare import compare_reports

    if baseline is None:
        raise click.UsageError("--claim needs --baseline: the run before the change")
    try:
        asked = StatedChange.of(claim)
    except TraceAnalyzerError as error:
        raise click.UsageError(f"--claim: {error}") from error
    before = report_of_reference(baseline, knowledge=scope.knowledge)
    after = report_of_reference(report, *scope)
    judgement = judged_claim(asked, compare_reports(before, after, (baseline, report)))
    emit(judgement_page(cleaned(judgement, hidden)), output)
    return judgement.verdict == "holds" or (judgement.verdict == "cannot tell" and allow_missing)


def _nothing_to_check(baseline: str | None) -> str:
    """What to give, in examples of what is meant where there is a baseline."""
    if baseline is None:
        return "nothing to check: give --max, --min or --policy"
    return (
        "nothing to check against the baseline: give --max 'summary.step_ms=+3%' (no slower), or "
        "--claim 1.3x"
    )


def _policy(file: str | None, given: "Policy") -> "Policy":
    """What the file and the options say together; options win."""
    from pathlib import Path

    from traceanalyzer.comparison.limits import Policy, read_policy

    stated = read_policy(Path(file)) if file else Policy()
    limits = {(limit.metric, limit.bound): limit for limit in (*stated.limits, *given.limits)}
    if not limits:
        raise click.UsageError(_nothing_to_check(given.baseline or stated.baseline))
    return Policy(
        tuple(limits.values()),
        given.baseline or stated.baseline,
        given.allow_missing or stated.allow_missing,
        given.strict or stated.strict,
    )


def _limit(bound: "Bound", text: str) -> "Limit":
    from traceanalyzer.comparison.limits import Limit

    name, equals, limit = text.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(f"--{bound} {text}: write NAME=LIMIT")
    return Limit.of(name.strip(), bound, limit)


def _checked(name: str, policy: "Policy", scope: Scope, hidden: Hidden) -> "Checked":
    from traceanalyzer.cli.io.reports import cleaned, report_of_reference
    from traceanalyzer.comparison.compare import step_comparison
    from traceanalyzer.comparison.limits import check_limits
    from traceanalyzer.comparison.verdicts import Checked

    report = report_of_reference(name, *scope)
    baseline = (
        report_of_reference(policy.baseline, knowledge=scope.knowledge) if policy.baseline else None
    )
    names = (policy.baseline or "", name) if hidden is None else ("baseline", "run")
    comparison = step_comparison(baseline, report, names) if baseline else None
    verdicts = check_limits(policy.limits, report, baseline, comparison, strict=policy.strict)
    checked = Checked.of(names[1], report, verdicts, comparison, allow_missing=policy.allow_missing)
    return cleaned(checked, hidden)
