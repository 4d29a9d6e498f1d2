"""Verdicts drawn for the terminal, for Markdown, for CI servers (JUnit XML) and for programs."""

from dataclasses import field
from typing import Any
from xml.etree import ElementTree

from traceanalyzer.base import dataclass, metric
from traceanalyzer.comparison.limits import LimitVerdict
from traceanalyzer.comparison.model import Comparison
from traceanalyzer.report import document
from traceanalyzer.report.document import Document, Section, Table
from traceanalyzer.report.figures.names import in_the_summary
from traceanalyzer.report.format import figure, plain
from traceanalyzer.report.model import Report
from traceanalyzer.report.printed import Printed, Result

OUTCOMES = {
    "ok": "holds",
    "breach": "BREACHED",
    "noise": "holds: beyond the limit, but within noise",
    "missing": "not measured",
}
OF = {True: "recorded", False: "without the profiler"}
AT = {"max": "at most", "min": "at least"}


@dataclass(frozen=True)
class Checked(Result):
    """A report that was compared with its limits."""

    name: str
    verdicts: list[LimitVerdict]
    allow_missing: bool
    comparison: Comparison | None
    without_profiler: dict[str, str] = field(default_factory=dict)
    """Names of recorded figures that have limits, and of those that the summary has instead."""
    lacks_work: bool = False
    """Whether the file is cut off, so that no limit is known to hold."""

    @classmethod
    def of(
        cls,
        name: str,
        report: Report,
        verdicts: list[LimitVerdict],
        comparison: Comparison | None,
        *,
        allow_missing: bool = False,
    ) -> "Checked":
        """A report with its verdicts."""
        others: dict[str, str] = {}
        for verdict in verdicts:
            other = in_the_summary(verdict.limit.metric)
            if other is not None and report.summary.basis == "unprofiled":
                others[verdict.limit.metric] = other
        return cls(name, verdicts, allow_missing, comparison, others, report.is_cut_off)

    @property
    def passed(self) -> bool:
        """Whether every limit holds."""
        return all(v.holds(self.allow_missing) for v in self.verdicts)

    @property
    def headline(self) -> str:
        """The answer in a sentence."""
        broken = [v.limit.metric for v in self.verdicts if not v.holds(self.allow_missing)]
        total = len(self.verdicts)
        if not broken:
            return f"PASS: all {total} limits hold." if total > 1 else "PASS: the limit holds."
        if total == 1:
            return f"FAIL: the limit on {broken[0]} is breached."
        return f"FAIL: {len(broken)} of {total} limits breached: {', '.join(broken)}."

    @property
    def notes(self) -> list[str]:
        """What step the figures are of, and what the baseline has to do with it."""
        shown = [v.limit.metric for v in self.verdicts if not v.is_recorded]
        notes = []
        if self.lacks_work:
            notes.append(f"{self.name} is cut off before its end: no limit is known to hold.")
        if shown:
            notes.append(f"Without the profiler: {', '.join(shown)}.")
        if self.without_profiler:
            pairs = [
                f"{name} ({other} is without it)" for name, other in self.without_profiler.items()
            ]
            notes.append(f"With the profiler, as recorded: {', '.join(pairs)}.")
        if self.comparison is not None:
            notes.append(f"Against {self.comparison.a.name}: {self.comparison.headline}")
        return notes

    @property
    def printed(self) -> Printed:
        """The verdicts as a table."""
        notes = [part for note in self.notes for part in ("", note)]
        answer = document.Verdict(self.headline, style="bold green" if self.passed else "bold red")
        section = Section("", [answer, "", Table(limit_rows(self)), *notes])
        return Printed(Document(self.headline, [section]), self.values())

    def junit(self) -> str:
        """The verdicts as JUnit XML: a test case a limit."""
        broken = [v for v in self.verdicts if not v.holds(self.allow_missing)]
        skipped = [v for v in self.verdicts if v.outcome == "missing" and v not in broken]
        counts = {
            "tests": len(self.verdicts),
            "failures": len(broken),
            "errors": 0,
            "skipped": len(skipped),
        }
        suites = ElementTree.Element("testsuites")
        suite = ElementTree.SubElement(suites, "testsuite", {"name": "traceanalyzer check"})
        suite.attrib.update(zip(counts, map(str, counts.values()), strict=True))
        for verdict in self.verdicts:
            written = f"{AT[verdict.limit.bound]} {verdict.limit.text}"
            named = {"classname": plain(self.name), "name": f"{verdict.limit.metric} {written}"}
            case = ElementTree.SubElement(suite, "testcase", named)
            message = _message(verdict)
            if verdict in broken:
                ElementTree.SubElement(
                    case, "failure", {"message": message}
                ).text = f"{message}: {self.outcome_in_words(verdict)}"
            elif verdict in skipped:
                ElementTree.SubElement(case, "skipped", {"message": message})
        for note in self.notes:
            ElementTree.SubElement(suite, "system-out").text = plain(note)
        ElementTree.indent(suites)
        return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"

    def github(self) -> str:
        """The verdicts as commands to GitHub Actions, which shows them with the run and on the pull
        request."""
        lines = []
        for verdict in self.verdicts:
            if not verdict.holds(self.allow_missing) or verdict.outcome != "ok":
                level = "warning" if verdict.holds(self.allow_missing) else "error"
                text = f"{_message(verdict)}: {self.outcome_in_words(verdict)}"
                lines.append(_command(level, verdict.limit.metric, text))
        lines += [
            _command("notice", "traceanalyzer", text) for text in (self.headline, *self.notes)
        ]
        return "".join(lines)

    def outcome_in_words(self, verdict: LimitVerdict) -> str:
        """Whether a limit holds, in words."""
        missing = f" ({'allowed' if self.allow_missing else 'BREACHED'})"
        return OUTCOMES[verdict.outcome] + missing * (verdict.outcome == "missing")

    def values(self) -> dict[str, Any]:
        """The verdicts for programs."""
        limits = [
            {
                "metric": v.limit.metric,
                "bound": v.limit.bound,
                "limit": v.limit.text,
                "unit": v.unit,
                "allowed": v.allowed,
                "value": v.value,
                "baseline": v.baseline,
                "of": OF[v.is_recorded],
                "outcome": v.outcome,
                "holds": v.holds(self.allow_missing),
            }
            for v in self.verdicts
        ]
        about = {"passed": self.passed, "headline": self.headline, "checked": self.name}
        return {**about, "limits": limits, "notes": self.notes}


def _message(verdict: LimitVerdict) -> str:
    """What a figure is and may be."""
    allowed = f"{AT[verdict.limit.bound]} {figure(verdict.allowed, verdict.unit)}"
    measured = figure(verdict.value, verdict.unit)
    basis = OF[verdict.is_recorded]
    return f"{verdict.limit.metric} is {measured} ({basis}), allowed is {allowed}"


def _command(level: str, title: str, message: str) -> str:
    """A workflow command
    (https://docs.github.com/actions/reference/workflow-commands-for-github-actions); what would end
    it early is escaped as its toolkit does (github.com/actions/toolkit,
    packages/core/src/command.ts)."""

    def escaped(text: str, more: str = "") -> str:
        return "".join(f"%{ord(c):02X}" if c in f"%\r\n{more}" else c for c in plain(text))

    return f"::{level} title={escaped(title, ':,')}::{escaped(message)}\n"


@dataclass(frozen=True)
class LimitRow:
    """A limit in a table."""

    outcome: str = metric("whether the limit holds")
    figure: str = metric(
        "figure of the report (`summary.*` and `metrics` in its JSON; `syncs.*`, `headroom_ms.CLASS`)"
    )
    measured: str = metric("the figure")
    limit: str = metric(
        "the limit in the figure's unit, behind it as it was written against a baseline"
    )
    beyond: str = metric("how far the figure is beyond the limit; empty where it is not")
    baseline: str = metric("the baseline's figure")


def limit_rows(checked: Checked) -> list[LimitRow]:
    """The table of all limits."""
    return [
        LimitRow(
            outcome=checked.outcome_in_words(v),
            figure=v.limit.metric,
            measured=figure(v.value, v.unit),
            limit=_limit_in_words(v),
            beyond=_beyond(v),
            baseline="" if v.baseline is None else figure(v.baseline, v.unit),
        )
        for v in sorted(checked.verdicts, key=lambda v: v.holds(checked.allow_missing))
    ]


def _limit_in_words(verdict: LimitVerdict) -> str:
    against = f" ({verdict.limit.text})" if verdict.limit.relative else ""
    return f"{AT[verdict.limit.bound]} {figure(verdict.allowed, verdict.unit)}{against}"


def _beyond(verdict: LimitVerdict) -> str:
    """How far a figure is beyond its limit: `188 us (15.7%)`."""
    is_beyond = verdict.outcome in ("breach", "noise")
    if verdict.value is None or verdict.allowed is None or not is_beyond:
        return ""
    beyond = abs(verdict.value - verdict.allowed)
    if verdict.unit == "share":  # 13.6 of 100, not 13.6 % more
        return figure(beyond, "share").replace("%", " points")
    share = f" ({figure(beyond / verdict.allowed, 'share')})" if verdict.allowed else ""
    return f"{figure(beyond, verdict.unit)}{share}"
