"""What is allocated at the peak as a flame graph: stacks of the program from the outside in, as wide as
what they hold."""

from collections.abc import Iterator, Sequence

from traceanalyzer.analysis.memory.measure import MemoryOfDevice
from traceanalyzer.analysis.memory.stacks import StackAtPeak
from traceanalyzer.base import MEMORY
from traceanalyzer.report.format import figure
from traceanalyzer.report.html.charts import Chart, axis_name
from traceanalyzer.report.html.frame import chart_place
from traceanalyzer.report.html.markup import Markup, join
from traceanalyzer.report.html.pictures.plot import Axis, Box, Plot, Rects

GIGA = 2**30
ROW_PX = 26
EDGES_PX = 74
LEAST_SHARE = 0.004  # of the width; narrower boxes cannot be seen
MOST_LEVELS = 24
COLOURS = ("compute", "copy", "communication", "idle-launch")
"""By level, so that neighbours differ."""


def drawn_flames(devices: Sequence[MemoryOfDevice]) -> Markup:
    """A flame graph for each device that has stacks."""
    charts = (flame(device) for device in devices)
    return join(*(chart_place(chart) for chart in charts if chart is not None))


def flame(device: MemoryOfDevice) -> Chart | None:
    """The stacks at the peak; None where there are none."""
    total = sum(stack.bytes for stack in device.stacks)
    if not total:
        return None
    boxes = list(_boxes(device.stacks, 0.0, 0, total))
    levels = 1 + max(int(box.y0) for box in boxes) if boxes else 0
    if not levels:
        return None
    caption = (
        f"GPU {device.device} at its peak of {figure(device.peak_bytes, MEMORY)}: what each line of the program and "
        "those that it calls hold, from the outside in. What is below 0.4 % is left out."
    )
    across = Axis("GiB", range=(0.0, total / GIGA))
    along = Axis(range=(0.0, float(levels)), hidden=True)
    plot = Plot([Rects("", COLOURS[0], boxes)], across, along, down=True)
    height = EDGES_PX + ROW_PX * levels
    return Chart(
        f"memory-{device.device}-flame", "Memory at the peak by stack", caption, plot, height
    )


def _boxes(stacks: Sequence[StackAtPeak], begin: float, level: int, total: int) -> Iterator[Box]:
    """Boxes of this level and those within; `begin` in bytes."""
    if level == MOST_LEVELS:
        return
    groups: dict[str, list[StackAtPeak]] = {}
    for stack in stacks:
        if len(stack.frames) > level:
            groups.setdefault(stack.frames[level], []).append(stack)
    sizes = {name: sum(one.bytes for one in inside) for name, inside in groups.items()}
    for name in sorted(groups, key=lambda name: -sizes[name]):
        size = sizes[name]
        end = begin + size
        if size >= LEAST_SHARE * total:
            hint = f"{name}: {figure(size, MEMORY)}, {size / total:.1%}"
            yield Box(
                begin / GIGA,
                end / GIGA,
                level + 0.03,
                level + 0.97,
                hint,
                axis_name(name),
                COLOURS[level % len(COLOURS)],
            )
            yield from _boxes(groups[name], begin, level + 1, total)
        begin = end
