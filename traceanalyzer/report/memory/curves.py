"""Memory over time as charts: all of it, and near its peak."""

from collections.abc import Iterator, Sequence

from traceanalyzer.analysis.memory.course import Consumer
from traceanalyzer.analysis.memory.measure import MemoryOfDevice
from traceanalyzer.base import MEMORY
from traceanalyzer.report.format import figure
from traceanalyzer.report.html.charts import Chart, axis_name
from traceanalyzer.report.html.frame import chart_place
from traceanalyzer.report.html.markup import Markup, join
from traceanalyzer.report.html.pictures.plot import Axis, Dot, Dots, Lines, Plot

GIGA = 2**30
AROUND = 120  # points of the curve on each side of the peak that are shown near it: a few steps
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
    """Memory over time by category, and near the peak by category and by line of the program."""
    if not device.curve:
        return
    highest = max(range(len(device.curve)), key=lambda i: device.curve[i][1])
    near = _near([at for at, _, _ in device.curve], highest)
    for kind, title in (("category", "by category"), ("line", "by line of the program")):
        if any(one.kind == kind for one in device.consumers):
            yield _curve(device, kind, f"{title}, near the peak", near, highest)
    # Start-up may be most of it, and is of least interest.
    yield _curve(device, "category", "by category", slice(0, len(device.curve)), highest)


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


def _curve(device: MemoryOfDevice, kind: str, title: str, shown: slice, highest: int) -> Chart:
    """What is allocated, stacked, below what is reserved; the peak marked."""
    points = device.curve[shown]
    (at_peak, allocated, _) = device.curve[highest]
    seconds = [at for at, _, _ in points]
    hint = (
        f"{figure(allocated, MEMORY)}: "
        f"{f'the {device.peak_phase} phase' if device.peak_phase else 'the peak'}"
    )
    marks: list[Lines | Dots] = list(
        _areas(seconds, [one for one in device.consumers if one.kind == kind], shown)
    )
    marks.append(
        Lines("reserved", "idle-other", seconds, [held / GIGA for _, _, held in points], steps=True)
    )
    marks.append(Dots("peak", "text", [Dot(at_peak, allocated / GIGA, 5.0, hint, hint)]))
    caption = (
        f"GPU {device.device} over {device.events:,} events of the allocator: what is allocated {title}, what is "
        "reserved, and the peak with the phase that sets it."
    )
    plot = Plot(
        marks, Axis("s since the first event", range=(seconds[0], seconds[-1])), Axis("GiB")
    )
    id_ = f"memory-{device.device}-{kind}" + ("" if len(points) == len(device.curve) else "-near")
    return Chart(id_, f"Memory over time {title}", caption, plot)


def _areas(
    seconds: Sequence[float], consumers: Sequence[Consumer], shown: slice
) -> Iterator[Lines]:
    base = [0.0] * len(seconds)
    for i, consumer in enumerate(consumers):
        sizes = [size / GIGA for size in consumer.bytes[shown]]
        top = [below + size for below, size in zip(base, sizes, strict=True)]
        hint = (
            f"{_label(consumer)}: at most {figure(max(consumer.bytes[shown], default=0), MEMORY)}"
        )
        yield Lines(
            axis_name(_label(consumer)),
            PALETTE[i % len(PALETTE)],
            seconds,
            top,
            steps=True,
            hints=[hint],
            base=base,
        )
        base = top


def _label(consumer: Consumer) -> str:
    return consumer.name.replace("_", " ") if consumer.kind == "category" else consumer.name
