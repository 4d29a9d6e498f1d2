"""Memory over time as charts that can be zoomed to the steps and to the peak."""

from collections.abc import Iterator, Sequence
from statistics import median

from traceanalyzer.analysis.memory.course import Consumer, StepMemory
from traceanalyzer.analysis.memory.measure import MemoryOfDevice
from traceanalyzer.base import MEMORY
from traceanalyzer.report.format import figure
from traceanalyzer.report.html.charts import Chart, View, axis_name
from traceanalyzer.report.html.frame import chart_place
from traceanalyzer.report.html.markup import Markup, join
from traceanalyzer.report.html.pictures.plot import Axis, Dot, Dots, Lines, Plot

GIGA = 2**30
AROUND = 120  # points of the curve on each side of the peak that are shown near it: a few steps
LONG = 3.0
"""Of the median: a longer first step is start-up, beside which the others would be slivers."""
PALETTE = (
    "compute",
    "idle-launch",
    "copy",
    "communication",
    "idle-input",
    "idle-sync",
    "idle-host",
    "idle-communication",
    "idle-profiler",
)
"""Colours that everyone tells apart, in the order in which areas are stacked."""


def drawn_curves(devices: Sequence[MemoryOfDevice]) -> Markup:
    """Memory of each device over time."""
    return join(*(chart_place(chart) for device in devices for chart in curves(device)))


def curves(device: MemoryOfDevice) -> Iterator[Chart]:
    """Memory over time by category and by line of the program, each to be zoomed."""
    if not device.curve:
        return
    highest = max(range(len(device.curve)), key=lambda i: device.curve[i][1])
    views = _views(device, highest)
    for kind, title in (("category", "by category"), ("line", "by line of the program")):
        if any(consumer.kind == kind for consumer in device.consumers):
            yield _curve(device, kind, title, views, highest)


def _views(device: MemoryOfDevice, highest: int) -> list[View]:
    """The steps, what is around the peak, and all: start-up may be most of it, and is of least
    interest."""
    seconds = [at for at, _, _ in device.curve]
    near = _near(seconds, highest)
    views = [View("near the peak", seconds[near.start], seconds[near.stop - 1])]
    steps = _steady(device.steps)
    if steps:
        first = max(steps[0].start_s, seconds[0])
        views.insert(0, View("the steps", first, min(steps[-1].end_s, seconds[-1])))
    views.append(View("all", seconds[0], seconds[-1]))
    return [view for view in views if view.high > view.low]


def _steady(steps: Sequence[StepMemory]) -> Sequence[StepMemory]:
    """The steps without those at the begin that take far longer: they load, compile and search."""
    if len(steps) < 2:
        return []
    long_s = LONG * median(step.end_s - step.start_s for step in steps)
    first = next(i for i, step in enumerate(steps) if step.end_s - step.start_s <= long_s)
    return steps[first:]


def _near(seconds: Sequence[float], highest: int) -> slice:
    """The points around the peak, equally long before and after it: what goes before the first step
    may take ages."""
    first = max(highest - AROUND, 0)
    last = min(highest + AROUND, len(seconds) - 1)
    sides = [
        side
        for side in (seconds[highest] - seconds[first], seconds[last] - seconds[highest])
        if side > 0
    ]
    reach = min(sides, default=0.0)
    centre = seconds[highest]
    inside = [i for i in range(first, last + 1) if abs(seconds[i] - centre) <= reach]
    return slice(inside[0], inside[-1] + 1)


def _curve(
    device: MemoryOfDevice, kind: str, title: str, views: Sequence[View], highest: int
) -> Chart:
    """What is allocated, stacked, below what is reserved; the peak marked."""
    (at_peak, allocated, _) = device.curve[highest]
    seconds = [at for at, _, _ in device.curve]
    reserved = [held / GIGA for _, _, held in device.curve]
    hint = (
        f"{figure(allocated, MEMORY)}: "
        f"{f'the {device.peak_phase} phase' if device.peak_phase else 'the peak'}"
    )
    consumers = [consumer for consumer in device.consumers if consumer.kind == kind]
    marks: list[Lines | Dots] = list(_areas(seconds, consumers))
    marks.append(Lines("reserved", "idle-other", seconds, reserved, steps=True, fine=True))
    marks.append(Dots("peak", "text", [Dot(at_peak, allocated / GIGA, 5.0, hint, hint)]))
    caption = (
        f"GPU {device.device} over {device.events:,} events of the allocator: what is allocated {title}, what is "
        "reserved, and the peak with the phase that sets it."
    )
    plot = Plot(
        marks, Axis("s since the first event", range=(seconds[0], seconds[-1])), Axis("GiB")
    )
    return Chart(
        f"memory-{device.device}-{kind}",
        f"Memory over time {title}",
        caption,
        plot,
        views=views,
        places=[(step.start_s, f"step {step.index}") for step in device.steps],
    )


def _areas(seconds: Sequence[float], consumers: Sequence[Consumer]) -> Iterator[Lines]:
    base = [0.0] * len(seconds)
    for i, consumer in enumerate(consumers):
        sizes = [size / GIGA for size in consumer.bytes]
        top = [below + size for below, size in zip(base, sizes, strict=True)]
        hint = f"{_label(consumer)}: at most {figure(max(consumer.bytes, default=0), MEMORY)}"
        yield Lines(
            axis_name(_label(consumer)),
            PALETTE[i % len(PALETTE)],
            seconds,
            top,
            steps=True,
            hints=[hint],
            base=base,
            fine=True,
        )
        base = top


def _label(consumer: Consumer) -> str:
    return consumer.name.replace("_", " ") if consumer.kind == "category" else consumer.name
