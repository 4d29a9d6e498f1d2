"""Charts of the step: its budget, its idle time, its ranks."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from traceanalyzer.report.figures.step_times import recorded_ms
from traceanalyzer.report.format import is_figure, label, number, step_figure
from traceanalyzer.report.html.charts import Chart, Series, height_of, means, side_by_side, stacked
from traceanalyzer.report.html.charts import rows as rows_of
from traceanalyzer.report.html.details import Details
from traceanalyzer.report.html.pictures.plot import Axis, Box, Dot, Dots, Rects
from traceanalyzer.report.model import Report
from traceanalyzer.report.timeline.distributions import WORST, in_groups

MAX_BARS = 200
"""Steps drawn one by one; of more, each bar is the mean of a few that follow each other. Also of
ranks."""
PARTS = ("compute_ms", "exposed_communication_ms", "exposed_copy_ms", "idle_ms")
OF_LENGTHS = (
    ("launch", "launch"),
    ("sync", "sync"),
    ("other", "any other cause"),
)  # that the table of gaps tells
CAUSES = ("launch", "sync", "input", "host", "communication", "profiler", "other")


def step_budget(report: Report, details: Details) -> Chart | None:
    """The budget of each step, stacked, with its idle time by cause; without device work only the
    steps' times."""
    rows = report.tables.get("steps", [])
    if not rows:
        return None
    block = -(-len(rows) // MAX_BARS)
    known = rows[0].compute_ms is not None
    columns = _of_steps(rows, details)
    series = [
        Series(name, shown, means(values, block)) for name, shown, values in columns if any(values)
    ]
    plot = stacked([f"step {row.step}" for row in rows[::block]], series, "step", "ms")
    warm = sum(row.warmup for row in rows)
    marks = list(plot.marks)
    caption = f"Wall-clock time of each recorded step{' by what the device did' * known}."
    if block > 1:
        caption += f" Each bar is the mean of {block} steps."
    if warm:
        top = max(
            map(
                sum,
                zip(*(one.known().tolist() for one in series), strict=True),
            )
        )
        marks.insert(
            0,
            Rects("", "shade", [Box(-0.5, (warm - 1) // block + 0.5, 0.0, top)]),
        )
        caption += " The shaded steps are warm-up and left out of every mean."
    plot = replace(
        plot,
        marks=marks,
        x=Axis(
            "step",
            names=[str(row.step) for row in rows[::block]],
        ),
    )
    return Chart("steps", "Step by step", caption, plot)


def _of_steps(
    rows: Sequence[Any],
    details: Details,
) -> list[tuple[str, str, list[float | None]]]:
    """Name, colour and values of each part of the steps: idle time by cause where that is known of
    all."""
    causes = [details.idle_of_steps.get(row.step) for row in rows]
    names = PARTS if rows[0].compute_ms is not None else ("duration_ms",)
    parts = [
        (
            label(name),
            name.removesuffix("_ms").replace("_", "-"),
            [getattr(row, name) for row in rows],
        )
        for name in names
    ]
    if None in causes:
        return parts
    by_cause = [
        (f"idle: {one}", f"idle-{one}", [getattr(of, one) for of in causes]) for one in CAUSES
    ]
    return [*(part for part in parts if part[1] != "idle"), *by_cause]


def idle_causes(report: Report) -> Chart | None:
    """Idle time of the mean step by cause."""
    idle = report.metrics.idle_ms
    by_cause = {cause: getattr(idle, cause, None) for cause in CAUSES}
    parts = {cause: value for cause, value in by_cause.items() if value}
    if not parts:
        return None
    names = sorted(parts, key=lambda cause: -parts[cause])
    values = [parts[cause] for cause in names]
    ends = [f"{value / (recorded_ms(report) or value):.1%}" for value in values]
    hints = [
        f"{n}: {step_figure(v)}, {end} of the step"
        for n, v, end in zip(names, values, ends, strict=True)
    ]
    plot = rows_of(
        names,
        [Series("", "idle", values, hints)],
        "ms a step",
        ends,
        [f"idle-{one}" for one in names],
    )
    caption = (
        "What the GPU was waiting for while it had no work, in a mean steady step as recorded."
    )
    return Chart("idle", "Idle time by cause", caption, plot, height_of(len(parts)))


def gap_lengths(report: Report, details: Details) -> Chart | None:
    """Idle time in gaps by their length and cause."""
    rows = report.tables.get("gap_histogram", [])
    if not rows:
        return None
    known = details.idle_by_length
    lengths = list(map(attrgetter("length"), rows))
    parts = [
        (name, cause, [getattr(row, f"{cause}_ms") for row in rows]) for cause, name in OF_LENGTHS
    ]
    if known.keys() >= {*lengths}:
        parts = [
            (cause, cause, [getattr(known[length], cause) for length in lengths])
            for cause in CAUSES
        ]
    series = [Series(name, f"idle-{cause}", values) for name, cause, values in parts]
    plot = rows_of(lengths, series, "ms a step", [f"{number(row.gaps)} gaps" for row in rows])
    caption = (
        "Idle time of a mean steady step, as recorded, by the length of its gaps; after each bar the number of gaps. "
        "Many short gaps are latency between kernels, few long ones mean that the GPU ran dry."
    )
    return Chart("gaps", "Gaps by length", caption, plot, height_of(len(rows)))


def rank_bars(report: Report, details: Details) -> Chart | None:
    """Ranks side by side, their idle time by cause."""
    every = report.tables.get("ranks", [])
    if not every:
        return None
    groups: list[Sequence[Any]] = [
        *zip(every[:WORST], strict=True),
        *in_groups(every[WORST:], MAX_BARS - WORST),
    ]
    names = list(map(_name_of, groups))

    def bars(name: str, colour: str, value: Callable[[Any], float | None]) -> Series:
        return Series(name, colour, [_mean([value(row) for row in some]) for some in groups])

    def cause(name: str) -> Callable[[Any], float | None]:
        return lambda row: getattr(details.idle_of_ranks.get(row.rank), name, None)

    shared = [[bars("communication", "communication", lambda row: row.communication_ms)]]
    if any(row.transfer_ms is not None for row in every):
        waiting = bars("waiting for other ranks", "idle-communication", lambda row: row.waiting_ms)
        shared = [[waiting], [bars("transfer", "communication", lambda row: row.transfer_ms)]]
    idle_alone = [bars("idle", "idle", lambda row: row.idle_ms)]
    causes = (
        [bars(f"idle: {name}", f"idle-{name}", cause(name)) for name in CAUSES]
        if details.idle_of_ranks
        else idle_alone
    )
    compute = [bars("compute", "compute", lambda row: row.compute_ms)]
    plot = side_by_side(names, [compute, *shared, causes], "ms a step")
    means = Dots("mean step", "text", _mean_steps(groups, names))
    plot = replace(plot, marks=[*plot.marks, means])
    return Chart("ranks", "Ranks side by side", _about_ranks(every, len(groups)), plot)


def _mean_steps(groups: Sequence[Sequence[Any]], names: Sequence[str]) -> list[Dot]:
    """A dot at the mean step of each group whose step is known."""
    dots = []
    for place, (rows, name) in enumerate(zip(groups, names, strict=True)):
        time = _mean([row.step_mean_ms for row in rows])
        if is_figure(time):
            dots.append(Dot(place, time, 4.0, f"{name}: mean step {step_figure(time)}"))
    return dots


def _name_of(some: Sequence[Any]) -> str:
    mark = " ⚠" if any(row.straggler for row in some) else ""
    return f"rank {some[0].rank}{mark}" + (f" and {len(some) - 1} more" if len(some) > 1 else "")


def _about_ranks(every: Sequence[Any], shown: int) -> str:
    caption = (
        "A mean steady step of each rank on its busiest device; what overlaps is counted in "
        "each bar "
    )
    caption += "it is part of." + " ⚠ marks the rank that holds up the others." * any(
        row.straggler for row in every
    )
    if len(every) > shown:
        caption += (
            f" First the {WORST} that hold up the run most; the others are put together, as "
            "their means."
        )
    return caption


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
