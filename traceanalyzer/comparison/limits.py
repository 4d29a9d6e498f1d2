"""Limits on the figures of a report, absolute or against a baseline, and whether they hold.

A limit against a baseline on the step time or a part of it is breached only by a change that is more than noise (see
`noise`), unless it is strict; other figures do not carry a spread and are held against their limit as they are.

A policy file has the limits of a project, in TOML, to be kept with its code:

baseline = "main.json"          # what `--baseline` takes; relative to this file
allow_missing = false           # what `--allow-missing` and `--strict` say
strict = false

[max]
step_time_ms.median = "+3%"
gpu_idle_share = 0.10

[min]
roofline.mfu = "-5%"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import msgspec

from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.base.files import read_whole
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.comparison.metrics import Figure, figures_by_path
from traceanalyzer.comparison.model import Comparison, Difference
from traceanalyzer.report.model import Report

Bound = Literal["max", "min"]
Outcome = Literal["ok", "breach", "noise", "missing"]

LIMIT = re.compile(r"(?P<sign>[+-]?)(?P<number>\d+(?:\.\d*)?|\.\d+)(?P<percent>%?)")
NEAR = 3
"""Names that are offered for one that does not exist."""
WITH_SPREAD = {"step_time_ms.mean": "step", "step_time_ms.median": "step"}
"""Figures of the step time that its interval speaks for."""
PARTS = ("budget_ms.", "idle_ms.")


class LimitError(ValueError):
    """A limit that makes no sense as it is written."""


@dataclass(frozen=True)
class Limit:
    """At most or at least so much. `relative` is a share of the baseline's figure to add (+3 % is 0.03)."""

    metric: str
    bound: Bound
    value: float
    relative: bool
    text: str
    """As its owner wrote it."""

    @classmethod
    def of(cls, metric: str, bound: Bound, text: str | float) -> Limit:
        """The limit as written: `5.2` and `10%` (of a share) are absolute; `+3%` and `-5%` are against the baseline.
        Raises LimitError."""
        written = str(text).strip()
        parts = LIMIT.fullmatch(written)
        if isinstance(text, bool) or parts is None:
            raise LimitError(f"{metric}={written}: a limit is a number (5.2), or a percentage (+3%)")
        number = float(f"{parts['sign']}{parts['number']}")
        if not parts["percent"]:
            if parts["sign"] == "+":
                raise LimitError(f"{metric}={written}: against a baseline say +3%; an absolute limit has no sign")
            return cls(metric, bound, number, False, written)
        return cls(metric, bound, number / 100, bool(parts["sign"]), written)


@dataclass(frozen=True)
class Verdict:
    """Whether a limit holds, and what it was held against. Figures are None where there are none."""

    limit: Limit
    unit: str
    value: float | None
    baseline: float | None
    allowed: float | None
    """The limit in the figure's own unit."""
    outcome: Outcome

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
) -> list[Verdict]:
    """A verdict for each limit. `comparison` is of the baseline with the report; `strict` takes noise for a change.

    Raises LimitError for a figure that no report has, and for a limit against a baseline without one.
    """
    figures, before = figures_by_path(report), figures_by_path(baseline) if baseline else {}
    verdicts = []
    for limit in limits:
        _check_name(limit, figures)
        if limit.relative and baseline is None:
            raise LimitError(f"{limit.metric}={limit.text}: a limit against a baseline needs --baseline")
        spread = None if strict or not limit.relative else _spread(limit.metric, comparison)
        verdicts.append(_verdict(limit, figures[limit.metric], before.get(limit.metric), spread))
    return verdicts


def _check_name(limit: Limit, figures: Mapping[str, Figure]) -> None:
    if limit.metric not in figures:
        near = get_close_matches(limit.metric, figures, NEAR, cutoff=0.5)
        meant = f"did you mean {', '.join(near)}?" if near else "their names are those of `analyze --format json`"
        raise LimitError(f"no figure is called {limit.metric}; {meant}")
    percentage = limit.text.endswith("%") and not limit.relative
    if percentage and figures[limit.metric].unit != "share":
        raise LimitError(
            f"{limit.metric}={limit.text}: it is no share; say +{limit.text} for a limit against a baseline"
        )


def _verdict(limit: Limit, figure: Figure, before: Figure | None, spread: Difference | None) -> Verdict:
    baseline = before.value if before else None
    allowed = limit.value
    if limit.relative:
        if baseline is None:
            return Verdict(limit, figure.unit, figure.value, None, None, "missing")
        allowed = baseline * (1 + limit.value)
    if figure.value is None:
        return Verdict(limit, figure.unit, None, baseline, allowed, "missing")
    beyond = figure.value > allowed if limit.bound == "max" else figure.value < allowed
    noise = beyond and spread is not None and spread.significant is False
    outcome: Outcome = "noise" if noise else "breach" if beyond else "ok"
    return Verdict(limit, figure.unit, figure.value, baseline, allowed, outcome)


def _spread(metric: str, comparison: Comparison | None) -> Difference | None:
    """What is known of the spread of a figure's difference, None for figures without one."""
    if comparison is None:
        return None
    if metric in WITH_SPREAD:
        return comparison.step
    if not metric.startswith(PARTS):
        return None
    part = metric.removeprefix("budget_ms.").replace("idle_ms.", "idle.")
    return next((p for p in comparison.budget if p.name == part), None)


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
    max: dict[str, Any] = msgspec.field(default_factory=dict)
    min: dict[str, Any] = msgspec.field(default_factory=dict)


def read_policy(path: Path) -> Policy:
    """The policy in a file. Raises UnreadableInputError where it is no policy, LimitError for a limit that makes no
    sense."""
    try:
        file = msgspec.convert(tomllib.loads(read_whole(path).decode()), _File)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise UnreadableInputError(f"{path}: not a policy: {error}") from error
    baseline = None if file.baseline is None else str(path.parent / file.baseline)
    limits = (*_limits("max", file.max), *_limits("min", file.min))
    return Policy(limits, baseline, file.allow_missing, file.strict)


def _limits(bound: Bound, table: dict[str, Any], prefix: str = "") -> list[Limit]:
    """Limits of a table; a name with dots that is not in quotation marks is a table of tables in TOML."""
    found: list[Limit] = []
    for name, value in table.items():
        if isinstance(value, dict):
            found += _limits(bound, value, f"{prefix}{name}.")
        else:
            found.append(Limit.of(prefix + name, bound, value))
    return found
