"""A metric over runs as a document: bars, a chart for an issue, or one HTML file that opens
offline."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median
from textwrap import fill

from traceanalyzer.base import dataclass, signed_share
from traceanalyzer.base.figures import plural
from traceanalyzer.history.programs import Program, programs_list, programs_of, short_names
from traceanalyzer.history.run_list import NO_RUN, runs_document
from traceanalyzer.history.runs import FirstChange, MetricSeries, MetricValue, StoredRun
from traceanalyzer.history.runs_table import ROWS, runs_table
from traceanalyzer.report.format import (
    DEFAULT_WIDTH,
    figure,
    label,
    number,
    scale_for,
    scaled,
    shorten,
)
from traceanalyzer.report.html.charts import Chart, Series, stacked
from traceanalyzer.report.html.frame import chart_place, framed, page_scripts
from traceanalyzer.report.html.markup import Markup, tag
from traceanalyzer.report.html.pictures.plot import (
    Axis,
    Box,
    Dot,
    Dots,
    Lines,
    Plot,
    PlotTexts,
    Rects,
)
from traceanalyzer.report.html.table_parts import html_table
from traceanalyzer.report.json import dump
from traceanalyzer.report.markdown.mermaid import bar_chart
from traceanalyzer.report.printed import Printed, PrintedRows, Result
from traceanalyzer.version import __version__

NOISE_SHARE = 0.02  # runs of one program differ by so much (docs/compare.md): less is no change
SIGMAS = 3.0
MAD_SIGMA = 1.4826
"""Nor is what lies within three standard deviations, told from the median distance to the median
(normal values)."""


MAX_RUNS = 200  # runs that are drawn, the last ones
LEAST_RUNS = 5  # fewer runs do not tell what runs vary by
AT_WORDS = 1.06
ABOVE_WORDS = 1.12
"""Where words on a change stand, and a picture ends, as multiples of its largest value."""
LINE = 0.001  # half the width of a line that marks a change, of the picture's
BUDGET = tuple(
    f"summary.budget_ms.{part}" for part in ("compute", "exposed_communication", "exposed_copy")
)
"""Parts of the budget without idle time, which is shown by its causes."""
IDLE = tuple(
    f"summary.idle_ms.{c}"
    for c in ("launch", "sync", "input", "host", "communication", "profiler", "other")
)
OVER_RUNS = (
    "summary.step_ms",
    "utilisation.gpu_busy_share",
    "launches_per_step",
)
"""Metrics that the page of all runs draws, besides the budget."""
DRAWN = (*BUDGET, *IDLE, *OVER_RUNS)  # all that the page of runs draws
WITHIN = ("summary.", "utilisation.")  # what charts leave out of a metric's name
HOW_READ = (
    "A value for each run. The grey band is what runs of the same program vary by, from five runs on; a line marks "
    "where two runs in a row, or the last, leave it, with the first commit that shows it."
)
NO_RUNS = "No run to show."
RUNS = "Runs"


@dataclass(frozen=True)
class RunLevel:
    """Runs that follow each other (from `first` up to `end`, positions in the series) and what they
    vary by."""

    first: int
    end: int
    low: float
    high: float


def run_levels(values: Sequence[float]) -> list[RunLevel]:
    """The levels of a series, oldest first; a new one begins where two runs in a row leave the band
    on the same side, or the last run does."""
    found = []
    first = 0
    for i in range(1, len(values)):
        low, high = _band(values[first:i])
        sides = [(value > high) - (value < low) for value in values[i : i + 2]]
        if sides[0] and sides[0] == sides[-1]:
            found.append(RunLevel(first, i, low, high))
            first = i
    if values:
        found.append(RunLevel(first, len(values), *_band(values[first:])))
    return found


def _band(values: Sequence[float]) -> tuple[float, float]:
    middle = median(values)
    spread = MAD_SIGMA * median(abs(value - middle) for value in values)
    reach = max(SIGMAS * spread, NOISE_SHARE * abs(middle))
    return middle - reach, middle + reach


def metric_page(series: MetricSeries) -> str:
    """The page of one metric."""
    rows = series.values[-ROWS:]
    values = html_table("Values", rows, limit=ROWS) if rows else tag("p", NO_RUN)
    basis = tag("p", series.basis) if series.basis else None
    charts = _charts(_lines(series).values())
    return _page(series.metric, _first_and_last(series), basis, *charts, values)


def runs_page(
    runs: Sequence[StoredRun],
    series: Sequence[MetricSeries],
    reports: Mapping[int, str] | None = None,
    changes: Mapping[int, FirstChange] | None = None,
) -> str:
    """The page of all runs: programs of several runs as a list, the runs, their budgets, then some
    metrics; `series` are those of `BUDGET`, `IDLE`, `OVER_RUNS` that there are, `reports` the
    addresses of runs' own pages, `changes` what their reports advise first."""
    if not runs:
        return _page(RUNS, NO_RUNS, tag("p", NO_RUN))
    by_name = {each.metric: each for each in series}
    over_runs = [by_name[name] for name in OVER_RUNS if name in by_name]
    programs = programs_of(runs)
    budgets = _budgets(runs, by_name, as_shares=len(programs) > 1)
    charts = [] if budgets is None else [budgets]
    places: dict[str, str] = {}
    for metric in over_runs:
        lines = _lines(metric)
        charts += lines.values()
        places = places or {name: chart.id for name, chart in lines.items()}
    return _page(
        RUNS,
        _in_short(programs),
        programs_list(programs, places),
        runs_table(runs, changes or {}, reports or {}),
        *_charts(charts),
    )


def _in_short(programs: Sequence[Program]) -> str:
    """The runs in a sentence."""
    count = sum(len(one.runs) for one in programs)
    if len(programs) > 1:
        of_programs = f" of {len(programs)} programs" if count > len(programs) else ""
        return f"{count} runs{of_programs}."
    steps_ms = programs[0].steps_ms
    if not steps_ms:
        return f"{count} {plural('run', count)} without steps."
    last = figure(steps_ms[-1], "ms")
    if len(steps_ms) == 1:
        return f"Step: {last} in the only run."
    return f"Step: {figure(steps_ms[0], 'ms')} in the first of {count} runs, {last} in the last."


def _first_and_last(series: MetricSeries | None) -> str:
    """What a metric was in the first run and is in the last, a sentence."""
    if series is None or not series.values:
        return NO_RUNS
    what = _words(series)
    count = len(series.values)
    first = figure(series.values[0].value, series.unit)
    last = figure(series.values[-1].value, series.unit)
    if count == 1:
        return f"{what}: {first} in the only run."
    return f"{what}: {first} in the first of {count} runs, {last} in the last."


def _words(series: MetricSeries) -> str:
    name = series.metric
    for prefix in WITHIN:
        name = name.removeprefix(prefix)
    words = label(name.replace(".", ", ").replace("_ms", ""), series.unit)
    return words[:1].upper() + words[1:]


def _charts(charts: Iterable[Chart]) -> list[Markup]:
    """Charts under their heading, and how to read those of a metric; nothing without any."""
    drawn = list(charts)
    told = [chart for chart in drawn if chart.caption]
    of_metrics = [chart for chart in drawn if not chart.caption]
    parts = [chart_place(chart) for chart in told]
    if of_metrics:
        parts += [tag("p", HOW_READ, class_="quiet"), *map(chart_place, of_metrics)]
    return [tag("h2", "Over the runs"), *parts] if parts else []


def _page(title: str, headline: str, *parts: Markup | None) -> str:
    return framed(
        title,
        tag("main", tag("h1", headline), *parts),
        tag("footer", f"Made by traceanalyzer {__version__} from files alone."),
        page_scripts(),
    )


def _budgets(
    runs: Sequence[StoredRun], by_name: dict[str, MetricSeries], *, as_shares: bool
) -> Chart | None:
    """What each run's step is made of, in ms; steps of several programs, of which one may take a
    thousand times as long as another, as shares."""
    shown = runs[-MAX_RUNS:]
    known = [by_name[name] for name in (*BUDGET, *IDLE) if name in by_name]
    whole_ms = _sums(known) if as_shares else {}
    parts = [part for part in (_part(one, shown, whole_ms) for one in known) if part is not None]
    if not parts:
        return None
    unit = "% of the step" if as_shares else "ms a step"
    plot = stacked([f"#{run.run}" for run in shown], parts, "run", unit)
    caption = "The step of each run by what the GPU did, idle time by cause."
    return Chart("budgets", "Where the step's time went", caption, plot, 320)


def _sums(known: Sequence[MetricSeries]) -> dict[int, float]:
    """What these metrics sum to, by run."""
    sums: dict[int, float] = defaultdict(float)
    for metric in known:
        for value in metric.values:
            sums[value.run] += value.value
    return sums


def _part(
    metric: MetricSeries, shown: Sequence[StoredRun], whole_ms: Mapping[int, float]
) -> Series | None:
    """A part of the budget of each run, in ms or in % of `whole_ms`; None where no run has it."""
    values = {value.run: value.value for value in metric.values}
    times = [values.get(run.run) for run in shown]
    if not any(times):
        return None
    what = metric.metric.rpartition(".")[2]
    is_idle = metric.metric in IDLE
    words = f"idle: {what}" if is_idle else label(what)
    hints = [
        f"{_run(run.run, run.stored_at, run.tags)}: {words} {figure(time, 'ms')}"
        for run, time in zip(shown, times, strict=True)
    ]
    drawn = times
    if whole_ms:
        drawn = [
            _percent(time, whole_ms.get(run.run)) for run, time in zip(shown, times, strict=True)
        ]
    return Series(words, f"idle-{what}" if is_idle else what.replace("_", "-"), drawn, hints)


def _percent(part: float | None, total: float | None) -> float | None:
    return 100 * part / total if part is not None and total else None


def _run(number: int, stored_at: str, tags: dict[str, str]) -> str:
    return " ".join(part for part in (f"#{number}", stored_at, str(tags) if tags else "") if part)


def _lines(series: MetricSeries) -> dict[str, Chart]:
    """A chart for each program of more than one run, by its name; of a single program always."""
    programs = _by_program(series)
    charts = {}
    names = short_names(list(programs))
    for position, (program, own) in enumerate(programs.items()):
        if len(own.values) > 1 or len(programs) == 1:
            charts[program] = _line(own, names[program] if len(programs) > 1 else "", position)
    return charts


def _line(series: MetricSeries, program: str, number: int) -> Chart:
    """A metric over the runs of a program, what it varies by, and where it changed."""
    title = f"{_words(series)}: {program}" if program else _words(series)
    key = series.metric.replace(".", "-")
    return Chart(f"{key}-{number}" if number else key, title, "", _plot(series, title), 300)


def _plot(series: MetricSeries, title: str) -> Plot:
    shown = series.values[-MAX_RUNS:]
    scale = scale_for(max(abs(v.value) for v in shown), series.unit)
    values = [scaled(v.value, scale) for v in shown]
    places = [float(i) for i in range(len(shown))]
    found = run_levels(values)
    known = [level for level in found if level.end - level.first >= LEAST_RUNS]
    low = min([0.0, *values])
    top = max([*values, *(level.high for level in known)])
    return Plot(
        [
            Rects("what runs vary by", "neutral", [_level_box(level) for level in known]),
            Rects("change", "more", _change_boxes(found, shown, top)),
            Lines(title, "compute", places, values),
            Dots("", "compute", _dots(series.unit, shown, values)),
            PlotTexts(_change_words(found, shown, top)),
        ],
        Axis("run", names=[f"#{v.run}" for v in shown]),
        Axis(scale.label, range=(low, top * ABOVE_WORDS if top > low else low + 1.0)),
    )


def _level_box(level: RunLevel) -> Box:
    return Box(level.first - 0.5, level.end - 0.5, level.low, level.high, strength=0.35)


def _change_boxes(found: Sequence[RunLevel], shown: Sequence[MetricValue], top: float) -> list[Box]:
    """A thin box at each level but the first."""
    wide = LINE * len(shown)
    boxes = []
    for level in found[1:]:
        at = level.first - 0.5
        hint = f"changed with {_first(shown[level.first])}"
        boxes.append(Box(at - wide, at + wide, 0.0, top, hint))
    return boxes


def _dots(unit: str, shown: Sequence[MetricValue], values: Sequence[float]) -> list[Dot]:
    return [
        Dot(float(i), y, 4.0, f"{_run(v.run, v.stored_at, v.tags)}: {figure(v.value, unit)}")
        for i, (y, v) in enumerate(zip(values, shown, strict=True))
    ]


def _change_words(
    found: Sequence[RunLevel], shown: Sequence[MetricValue], top: float
) -> list[tuple[float, float, str]]:
    return [
        (after.first - 0.5, top * AT_WORDS, _change(before, after, shown))
        for before, after in pairwise(found)
    ]


def _change(before: RunLevel, after: RunLevel, shown: Sequence[MetricValue]) -> str:
    """How much a level is above or below the one before, and with which run it begins."""
    middle = [(one.low + one.high) / 2 for one in (before, after)]
    share = f"{signed_share(middle[1] / middle[0] - 1)} " if middle[0] else ""
    return f"{share}{_first(shown[after.first])}"


def _first(value: MetricValue) -> str:
    """The run where a change shows first: by its commit."""
    return shorten(value.commit, 12) if value.commit else f"run #{value.run}"


@dataclass(frozen=True)
class MetricPage(Result):
    """A metric over runs."""

    series: MetricSeries

    def terminal(self, width: int = DEFAULT_WIDTH, colour: bool = False) -> str:
        """Bars, then the values."""
        drawn = bars(self.series, width)
        table = self.printed.terminal(width, colour)
        basis = f"{fill(self.series.basis, width)}\n" if self.series.basis else ""
        return f"{drawn}\n{basis}{table}" if self.series.values else table

    def markdown(self) -> str:
        """A chart, then the values."""
        programs = _by_program(self.series)
        names = short_names(list(programs))
        lines: list[str] = []
        for program, own in programs.items():
            of_program = f", {names[program]}" if len(programs) > 1 else ""
            title = f"{self.series.metric}{of_program}"
            values = [(str(v.run), v.value) for v in own.values]
            lines += [*bar_chart(title, "run", own.unit, values), ""]
        basis = [self.series.basis, ""] if self.series.basis else []
        return "\n".join([*lines, *basis, self.printed.markdown()])

    def json(self) -> str:
        """The series."""
        return dump(self.series)

    def html(self) -> str:
        """A line over the runs, what runs vary by, and where it changed; a point says its run, time
        and tags."""
        return metric_page(self.series)

    @property
    def printed(self) -> PrintedRows:
        """A run a row."""
        return PrintedRows("values", self.series.values, MetricValue, none=NO_RUN)


@dataclass(frozen=True)
class RunsPage(Result):
    """The stored runs."""

    rows: PrintedRows
    runs: list[StoredRun]
    series: list[MetricSeries]  # what the page draws of them; see `runs_page`
    reports: Mapping[int, str] | None = None  # address of a run's own page, by its number
    changes: Mapping[int, FirstChange] | None = None  # what a run's report advises first

    @property
    def printed(self) -> PrintedRows:
        """The table."""
        return self.rows

    def terminal(self, width: int = DEFAULT_WIDTH, colour: bool = False) -> str:
        """The runs of each program."""
        return Printed(runs_document(self.runs)).terminal(width, colour)

    def markdown(self) -> str:
        """The runs of each program."""
        return Printed(runs_document(self.runs)).markdown()

    def html(self) -> str:
        """The programs, budgets and metrics over the runs, then the table."""
        return runs_page(self.runs, self.series, self.reports, self.changes)


def bars(series: MetricSeries, width: int) -> str:
    """Lines of at most `width` columns: run, tags, bar, figure. Runs of different programs stand apart,
    each program's bars in a scale of their own. Empty where there are no values."""
    if not series.values:
        return ""
    programs = _by_program(series)
    if len(programs) == 1:
        return _bars(series, width, series.metric)
    heading = f"{series.metric}: {len(programs)} programs, not compared with each other"
    names = short_names(list(programs))
    parts = [_bars(own, width, names[program]) for program, own in programs.items()]
    return "\n".join([f"{heading}\n", *parts])


def _by_program(series: MetricSeries) -> dict[str, MetricSeries]:
    """The series of each program, by its name."""
    values: dict[str, list[MetricValue]] = {}
    for value in series.values:
        values.setdefault(value.program, []).append(value)
    return {program: replace(series, values=own) for program, own in values.items()}


def _bars(series: MetricSeries, width: int, heading: str) -> str:
    """A bar for each run, under a heading with the unit."""
    largest = max(abs(v.value) for v in series.values)
    scale = scale_for(largest, series.unit)
    names = [shorten(f"#{v.run} {v.tags}".strip(), 30) for v in series.values]
    figures = [number(scaled(v.value, scale)) for v in series.values]
    left = max(map(len, names))
    right = max(map(len, figures))
    room = max(width - left - right - 2, 10)  # in fewer columns, bars cannot be told apart
    lines = [f"{heading} ({scale.label})" if scale.label else heading]
    for name, text, value in zip(names, figures, series.values, strict=True):
        length = round(room * abs(value.value) / (largest or 1))
        bar = ("█" if value.value >= 0 else "░") * length
        lines.append(f"{name:<{left}} {bar:<{room}} {text:>{right}}".rstrip())
    return "\n".join(lines) + "\n"
