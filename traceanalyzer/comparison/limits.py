"""Limits on the figures of a report, absolute or against a baseline, and whether they hold.

Figures go by their names in the report's JSON: those of `summary` are of the step that the report
speaks of, without the profiler where that is known, those of `metrics` of the recorded step.

A limit against a baseline on the step time is breached only where the comparison's verdict is a
change, on a part of it only by more than steps vary, unless it is strict; other figures do not
carry a spread.

A policy file has the limits of a project, in TOML, to be kept with its code:

baseline = "main.json"          # what `--baseline` takes; relative to this file
allow_missing = false           # what `--allow-missing` and `--strict` say
strict = false

[max]
summary.step_ms = "+3%"
summary.idle_share = 0.10

[min]
utilisation.mfu = "-5%"
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import msgspec

from traceanalyzer.base import UnreadableInputError, dataclass, regex
from traceanalyzer.base.files import read_whole
from traceanalyzer.comparison.metrics import Figure, absent, figures_by_path, is_class
from traceanalyzer.comparison.model import Comparison
from traceanalyzer.report.figures.names import SUMMARY, figure_name, is_recorded
from traceanalyzer.report.model import Report

Bound = Literal["max", "min"]
Outcome = Literal["ok", "breach", "noise", "missing"]
LIMIT = regex(
    r"(?P<sign>[+-]?)(?P<number>\d+(?:\.\d*)?|\.\d+)(?P<percent>%?)(?: ?(?P<bytes>[MG]i?B))?"
)
BYTES = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}
POSITIVE = ("ms", "share")  # units of figures that are never below 0
NEAR = 3  # names that are offered for one that does not exist
WITH_VERDICT = (
    "summary.step_ms",
    "step_time_ms.mean",
    "step_time_ms.median",
)  # figures that the comparison's verdict speaks for
PARTS = ("budget_ms.", "idle_ms.")


class LimitError(ValueError):
    """A limit that makes no sense as it is written."""


@dataclass(frozen=True)
class Limit:
    """At most or at least so much. `relative` is a share of the baseline's figure to add (+3 % is
    0.03)."""

    metric: str
    bound: Bound
    value: float
    relative: bool
    text: str  # as its owner wrote it

    @classmethod
    def of(cls, metric: str, bound: Bound, text: str | float) -> "Limit":
        """The limit as written: `5.2` and `10%` (of a share) are absolute; `+3%` and `-5%` are
        against the baseline. Raises LimitError."""
        metric = figure_name(metric)
        written = str(text).strip()
        parts = LIMIT.fullmatch(written)
        if isinstance(text, bool) or parts is None:
            raise LimitError(
                f"{metric}={written}: a limit is a number (5.2, 24 GB), or a percentage (+3%)"
            )
        number = float(f"{parts['sign']}{parts['number']}") * BYTES.get(parts["bytes"] or "", 1)
        if parts["percent"] and parts["bytes"]:
            raise LimitError(f"{metric}={written}: a percentage has no unit")
        if not parts["percent"]:
            if parts["sign"] == "+":
                raise LimitError(
                    f"{metric}={written}: against a baseline say +3%; an absolute limit has no sign"
                )
            return cls(metric, bound, number, False, written)
        return cls(metric, bound, number / 100, bool(parts["sign"]), written)


@dataclass(frozen=True)
class LimitVerdict:
    """Whether a limit holds, and what it was compared with. Figures are None where there are
    none."""

    limit: Limit
    unit: str
    value: float | None
    baseline: float | None
    allowed: float | None  # the limit in the figure's own unit
    outcome: Outcome
    # whether the figure is as recorded; else it is of the step without the profiler
    is_recorded: bool = True

    def holds(self, allow_missing: bool) -> bool:
        """Whether this lets the check pass."""
        return self.outcome in ("ok", "noise") or (self.outcome == "missing" and allow_missing)


def check_limits(
    limits: Iterable[Limit],
    report: Report,
    baseline: Report | None,
    comparison: Comparison | None,
    *,
    strict: bool = False,
) -> list[LimitVerdict]:
    """A verdict for each limit. `comparison` is of the baseline with the report; `strict` takes
    noise for a change. No limit holds for a file that is cut off: what it lacks counts as nothing.

    Raises LimitError for a figure that no report has, and for a limit against a baseline without
    one."""
    figures = figures_by_path(report)
    before = figures_by_path(baseline) if baseline else {}
    verdicts = []
    for limit in limits:
        found = figures.get(limit.metric) or _of_no_row(limit, report, before)
        figure = _figure(limit, found, figures)
        if limit.relative and baseline is None:
            raise LimitError(
                f"{limit.metric}={limit.text}: a limit against a baseline needs --baseline"
            )
        noisy = (
            limit.relative
            and not strict
            and comparison is not None
            and _is_noise(limit, comparison)
        )
        baseline_figure = before.get(limit.metric)
        recorded = is_recorded(report, limit.metric)
        verdict = _verdict(limit, figure, baseline_figure, noisy=noisy, recorded=recorded)
        compared = [report, *([baseline] if limit.relative and baseline else [])]
        lacks_work = any(one.is_cut_off for one in compared)
        if lacks_work and verdict.outcome != "breach":
            verdict = replace(verdict, outcome="missing")
        verdicts.append(verdict)
    return verdicts


def _of_no_row(limit: Limit, report: Report, before: Mapping[str, Figure]) -> Figure | None:
    """The figure of a row that the report does not have, None for no such figure. It is 0 where the
    row is known to be gone, or is not to be there; else its name may be misspelt."""
    figure = absent(report, limit.metric)
    must_be_gone = limit.text == "0" and limit.bound == "max"
    if figure is None or must_be_gone or limit.metric in before or is_class(limit.metric):
        return figure
    return Figure(None, figure.unit)


def _figure(limit: Limit, figure: Figure | None, figures: Mapping[str, Figure]) -> Figure:
    if figure is None:
        near = get_close_matches(limit.metric, figures, NEAR, cutoff=0.5)
        meant = (
            f"did you mean {', '.join(near)}?"
            if near
            else "their names are those of `analyze --format json`"
        )
        raise LimitError(f"no figure is called {limit.metric}; {meant}")
    if limit.value < 0 and not limit.relative and figure.unit in POSITIVE:
        say = f"no such figure is below 0; against a baseline say {limit.text}%"
        raise LimitError(f"{limit.metric}={limit.text}: {say}")
    if limit.value > 1 and not limit.relative and figure.unit == "share":
        say = f"a share is 0 to 1; say {limit.value / 100:g} or {limit.value:g}% for a percentage"
        raise LimitError(f"{limit.metric}={limit.text}: {say}")
    if limit.text.endswith("%") and not limit.relative and figure.unit != "share":
        say = f"it is no share; say +{limit.text} for a limit against a baseline"
        raise LimitError(f"{limit.metric}={limit.text}: {say}")
    return figure


def _verdict(
    limit: Limit, figure: Figure, before: Figure | None, *, noisy: bool, recorded: bool
) -> LimitVerdict:
    baseline = before.value if before else None
    relative = None if baseline is None else baseline * (1 + limit.value)
    allowed = relative if limit.relative else limit.value
    outcome = _outcome(limit, figure.value, allowed, noisy=noisy)
    return LimitVerdict(
        limit, figure.unit, figure.value, baseline, allowed, outcome, is_recorded=recorded
    )


def _outcome(limit: Limit, value: float | None, allowed: float | None, *, noisy: bool) -> Outcome:
    if value is None or allowed is None:
        return "missing"
    beyond = value > allowed if limit.bound == "max" else value < allowed
    if not beyond:
        return "ok"
    return "noise" if noisy else "breach"


def _is_noise(limit: Limit, comparison: Comparison) -> bool:
    """Whether a change of the figure is no more than machines and steps vary by; False for figures
    without a spread."""
    if limit.metric in WITH_VERDICT:
        return comparison.verdict in ("no_change", "not_comparable")
    name = limit.metric.removeprefix(SUMMARY)
    part = name.removeprefix("budget_ms.").replace("idle_ms.", "idle.")
    step = comparison.judged if limit.metric != name else comparison
    same = [p for p in step.budget if p.name == part and name.startswith(PARTS)]
    return bool(same) and same[0].significant is False


@dataclass(frozen=True)
class Policy:
    """What a policy file says."""

    limits: tuple[Limit, ...] = ()
    baseline: str | None = None
    allow_missing: bool = False
    strict: bool = False


class _File(msgspec.Struct, forbid_unknown_fields=True):
    baseline: str | None = None
    allow_missing: bool = False
    strict: bool = False
    recorded: bool = False  # of older versions: names say it now
    max: dict[str, Any] = {}
    min: dict[str, Any] = {}


def read_policy(path: Path) -> Policy:
    """The policy in a file. Raises UnreadableInputError where it is no policy, LimitError for a
    limit that makes no sense."""
    try:
        file = msgspec.convert(tomllib.loads(read_whole(path).decode()), _File)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise UnreadableInputError(f"{path}: not a policy: {error}") from error
    baseline = None if file.baseline is None else str(path.parent / file.baseline)
    limits = (*_limits("max", file.max), *_limits("min", file.min))
    return Policy(limits, baseline, file.allow_missing, file.strict)


def _limits(bound: Bound, table: dict[str, Any], prefix: str = "") -> list[Limit]:
    """Limits of a table; a name with dots that is not in quotation marks is a table of tables in
    TOML."""
    found: list[Limit] = []
    for name, value in table.items():
        if isinstance(value, dict):
            found += _limits(bound, value, f"{prefix}{name}.")
        else:
            found.append(Limit.of(prefix + name, bound, value))
    return found
