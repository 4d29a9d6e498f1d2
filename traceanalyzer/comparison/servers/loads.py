"""Two summaries of a benchmark, or two logs of a server: rates and latencies side by side, and whether both were
under the same load."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Any

from traceanalyzer.analysis.serving.figures import Serving, ServingFigure, figure_rows
from traceanalyzer.base import dataclass, digits, metric, signed_share
from traceanalyzer.comparison.judge import WORDS
from traceanalyzer.comparison.model import Condition, Word
from traceanalyzer.comparison.outline import UNLIKE, ConditionRow
from traceanalyzer.diagnosis.serving.faults import failed_sentence, failed_share, stall_sentence
from traceanalyzer.diagnosis.serving.load import has_queue, load_sentence
from traceanalyzer.report.document import Document, Section, Table, Verdict
from traceanalyzer.report.figures.step_times import recorded_ms
from traceanalyzer.report.format import figure
from traceanalyzer.report.model import Report
from traceanalyzer.report.printed import Printed, PrintedRows
from traceanalyzer.trace.engines import errors_at_end

SAME = 0.05
"""Rounds of one benchmark on one server differ by some percent: a smaller change is none."""
OTHER_LENGTH = 0.05
"""Answers end where the model ends them: their mean length differs by a few percent from round to round."""
LIMIT = "limit of requests at a time"
AS_MUCH = "more or fewer requests at a time change every latency"
MAIN = (
    ("output_tokens_per_s", "output tokens/s", True),
    ("requests_per_s", "requests/s", True),
    ("ttft_ms", "TTFT", False),
    ("tpot_ms", "TPOT", False),
    ("itl_ms", "ITL", False),
    ("latency_ms", "latency", False),
)
"""What a comparison is about, with its words, and whether more is better."""
TIMES = tuple(name for name, _, more_is_better in MAIN if not more_is_better)
STATISTICS = ("median", "mean")
REPEAT = "One round of each: repeat both to be sure."
NOT_SAID = "Whether their requests were alike the logs do not say."
SAME_RATE = "Neither is at its limit, so that rates say what was asked of them."


@dataclass(frozen=True)
class ServingChange:
    """A figure of both servers."""

    figure: str = metric("its path below `metrics.serving`", text="own")
    a: str = metric("in A")
    b: str = metric("in B")
    change: str = metric("B less A, as a share of A")


@dataclass(frozen=True)
class ServerRun:
    """One of several servers under load; latencies are medians, means where there are none."""

    run: str = metric("name of its file")
    concurrency: float | None = metric("requests in the server at a time, mean")
    output_tokens_per_s: float | None = metric("tokens generated a second", "1/s")
    requests_per_s: float | None = metric("requests completed a second", "1/s")
    ttft_ms: float | None = metric("time to the first token")
    tpot_ms: float | None = metric("time per output token")
    itl_ms: float | None = metric("time between two tokens")
    latency_ms: float | None = metric("time from end to end")
    verdict: str = metric("against the first", text="own")


@dataclass(frozen=True)
class _Shift:
    """A figure of `MAIN` of both sides."""

    words: str
    a: float
    b: float
    unit: str
    more_is_better: bool

    @property
    def share(self) -> float:
        """B less A, a share of A."""
        return self.b / self.a - 1.0

    @property
    def is_better(self) -> bool | None:
        """Whether B is better; None where the two are the same."""
        if abs(self.share) < SAME:
            return None
        return (self.share > 0) == self.more_is_better

    @property
    def text(self) -> str:
        """`TTFT median 150 → 120 ms (-19.9%)`."""
        change = f"{digits(self.a)} → {digits(self.b)}{self.unit}"
        return f"{self.words} {change} ({signed_share(self.share)})"


def compared_servers(a: Report, b: Report, names: tuple[str, str]) -> Printed | None:
    """The comparison of two servers of which only the load is known; None where either side is something
    else, or has times of iterations."""
    before, after = a.metrics.serving, b.metrics.serving
    if before is None or after is None or recorded_ms(a) or recorded_ms(b):
        return None
    unlike = list(_unlike(before, after))
    shifts = list(_shifts(before, after))
    word = _word(before, after, shifts, unlike=bool(unlike))
    wrong = [*_faults("A", a, before), *_faults("B", b, after)]
    answer = _headline(word, before, after, shifts, unlike)
    known = [] if wrong else [_about_rates(before, after, unlike=bool(unlike))]
    headline = " ".join(filter(None, [*wrong, answer, *known]))
    rows = _rows(before, after)
    sides = [f"A: {names[0]} ({_kind(before)})", f"B: {names[1]} ({_kind(after)})"]
    sections = [Section("Comparison", [Verdict(headline, sides)], untitled=True)]
    if unlike:
        shown = [ConditionRow(one.name, one.a, one.b, one.effect) for one in unlike]
        sections.append(Section(UNLIKE, [Table(shown)]))
    sections.append(Section("The servers under load", [Table(rows)]))
    values: dict[str, Any] = {
        "verdict": word,
        "headline": headline,
        "conditions": unlike,
        "figures": rows,
        "parts": [],
    }
    return Printed(
        Document(headline, sections), values, PrintedRows("figures", rows, ServingChange)
    )


def several_servers(reports: Sequence[Report], names: Sequence[str]) -> Printed | None:
    """Several servers under load, such as one at rising loads, each with its verdict against the first; None
    where one is something else."""
    first, *others = reports
    shown = (names[0], "")
    pairs = [compared_servers(first, other, shown) for other in others]
    if None in pairs:
        return None
    words = ["", *(pair.values["verdict"] for pair in pairs if pair is not None)]
    rows = [
        _run(name, one.metrics.serving, WORDS.get(word, "") if word else "the first")
        for name, one, word in zip(names, reports, words, strict=True)
        if one.metrics.serving is not None
    ]
    headline = f"{len(rows)} servers under load, each against the first."
    section = Section("Comparison", [Verdict(headline), "", Table(rows)], untitled=True)
    values = {"headline": headline, "runs": rows}
    return Printed(Document(headline, [section]), values, PrintedRows("runs", rows, ServerRun))


def _run(name: str, serving: Serving, verdict: str) -> ServerRun:
    times = {name: getattr(serving, name) for name in TIMES}
    typical = {name: known.typical if known else None for name, known in times.items()}
    return ServerRun(
        run=PurePath(name).name,
        concurrency=serving.concurrency,
        output_tokens_per_s=serving.output_tokens_per_s,
        requests_per_s=serving.requests_per_s,
        **typical,
        verdict=verdict,
    )


def _kind(serving: Serving) -> str:
    return "log of a server" if serving.source == "log" else "summary of a benchmark"


def _unlike(a: Serving, b: Serving) -> Iterator[Condition]:
    """In what the two loads differ, as far as both say it."""
    facts: tuple[tuple[str, Callable[[Serving], Any], str], ...] = (
        ("source", _kind, "a log has no latencies of requests, a summary no queue"),
        ("model", lambda s: s.model, "other work for each token"),
        (LIMIT, lambda s: s.max_concurrency, AS_MUCH),
        ("requests sent a second", lambda s: s.request_rate, AS_MUCH),
        ("all requests sent at once", lambda s: s.all_at_once, AS_MUCH),
    )
    for name, fact_of, effect in facts:
        x, y = fact_of(a), fact_of(b)
        if x is not None and y is not None and x != y:
            yield Condition(name, _shown(x), _shown(y), effect, incomparable=True)
    if _has_limit(a) != _has_limit(b) and a.all_at_once is not None and b.all_at_once is not None:
        of_a, of_b = map(_limit, (a, b))
        yield Condition(LIMIT, of_a, of_b, AS_MUCH, incomparable=True)
    for name, x, y in (
        ("prompt tokens of a request", a.prompt_tokens, b.prompt_tokens),
        ("generated tokens of a request", a.output_tokens, b.output_tokens),
    ):
        if x and y and abs(y / x - 1.0) >= OTHER_LENGTH:
            yield Condition(
                name, digits(x), digits(y), "other work for each request", incomparable=True
            )


def _has_limit(serving: Serving) -> bool:
    return serving.max_concurrency is not None


def _limit(serving: Serving) -> str:
    most = serving.max_concurrency
    return "none" if most is None else digits(most)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return digits(value) if isinstance(value, int | float) else str(value)


def _shifts(a: Serving, b: Serving) -> Iterator[_Shift]:
    """The figures of `MAIN` that both sides have; of times the same statistic."""
    for name, words, more_is_better in MAIN:
        x, y = getattr(a, name), getattr(b, name)
        if x is None or y is None:
            continue
        if name not in TIMES:
            yield _Shift(words, x, y, "", more_is_better)
            continue
        known = [s for s in STATISTICS if getattr(x, s) and getattr(y, s)]
        for statistic in known[:1]:
            of_a, of_b = getattr(x, statistic), getattr(y, statistic)
            yield _Shift(f"{words} {statistic}", of_a, of_b, " ms", more_is_better)


def _word(a: Serving, b: Serving, shifts: Sequence[_Shift], *, unlike: bool) -> Word:
    """The verdict: that of one round of each is likely at most."""
    better = any(shift.is_better for shift in shifts)
    worse = any(shift.is_better is False for shift in shifts)
    differs = unlike or _failed_unlike(a, b) or _is_below_limit(a, b)
    if differs or not shifts or (better and worse):
        return "not_comparable"
    if better:
        return "likely_faster"
    return "likely_slower" if worse else "no_change"


def _failed_unlike(a: Serving, b: Serving) -> bool:
    """Whether another share of the requests failed: the others had the server to themselves."""
    return abs(failed_share(a) - failed_share(b)) >= SAME


def _is_below_limit(a: Serving, b: Serving) -> bool:
    """Whether both are logs, and one has no queue: then its rate is what was asked of it."""
    return a.source == b.source == "log" and not (has_queue(a) and has_queue(b))


def _headline(
    word: Word, a: Serving, b: Serving, shifts: Sequence[_Shift], unlike: Sequence[Condition]
) -> str:
    """The verdict, and what changed."""
    if unlike:
        names = ", ".join(dict.fromkeys(one.name for one in unlike))
        verdict = f"Not like for like (other {names})"
    elif _failed_unlike(a, b):
        verdict = "Not like for like (others failed)"
    elif any(one.is_better for one in shifts) and any(one.is_better is False for one in shifts):
        verdict = "Better in some, worse in others"
    else:
        verdict = WORDS[word]
    changes = ", ".join(shift.text for shift in shifts) or "no figure in common"
    return f"{verdict}: {changes}."


def _about_rates(a: Serving, b: Serving, *, unlike: bool) -> str:
    """What the rates of two servers that work say; empty where their loads differ anyway."""
    if _is_below_limit(a, b):
        return _limits(a, b)
    if unlike:
        return ""
    return NOT_SAID if a.source == "log" else REPEAT


def _faults(side: str, report: Report, serving: Serving) -> Iterator[str]:
    """What is wrong with a side: that its server died or stalled, that requests failed."""
    crash = errors_at_end(report.notes)
    stall = stall_sentence(serving) if serving.stalled_lines else ""
    for words in filter(None, (*crash, stall, failed_sentence(serving))):
        yield f"{side}: {words}"


def _limits(a: Serving, b: Serving) -> str:
    """Which of two logs is at its limit; of the other the rate is what was asked of it."""
    for side, other, serving in (("A", "B", a), ("B", "A", b)):
        if has_queue(serving):
            load = load_sentence(serving).rstrip(".")
            return f"Only {side} is at its limit ({load}); the rate of {other} is what was asked of it."
    return SAME_RATE


def _rows(a: Serving, b: Serving) -> list[ServingChange]:
    """Every figure that either side has."""
    of_a = {row.figure: row for row in figure_rows(a)}
    of_b = {row.figure: row for row in figure_rows(b)}
    names = dict.fromkeys((*of_a, *of_b))
    return [_row(of_a.get(name), of_b.get(name)) for name in names]


def _row(a: ServingFigure | None, b: ServingFigure | None) -> ServingChange:
    known = a or b
    name, unit = (known.figure, known.unit) if known is not None else ("", "")
    x = None if a is None else a.value
    y = None if b is None else b.value
    change = signed_share(y / x - 1.0) if x and y is not None else figure(None, unit)
    return ServingChange(name, figure(x, unit), figure(y, unit), change)
