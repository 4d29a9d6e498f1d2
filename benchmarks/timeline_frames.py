"""How many frames a second the page's timeline draws, in headless Chromium: `python -m
benchmarks.timeline_frames`.

A made-up step of 100,000 events on 20 lanes (a seventh of them longer than a pixel of the whole),
all in view at first, then zoomed and moved at every frame. Ends with status 1 below 60 frames a
second, or what the page gets at rest.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.chromium import Chromium
from tests.report.reports import full
from traceanalyzer.report.html import Details, data, render_html
from traceanalyzer.report.html import sections as module
from traceanalyzer.report.timeline.lanes import Category, DrawnEvents, Lane, Timeline

EVENTS = 100_000
LANES = 20
FRAMES = 240
MOST_FPS = 60
LEAST_SHARE = 0.95
"""Of the frames that the same page gets at rest: on a busy machine even those are fewer."""
IDLE = f"""(async () => {{
    const begun = performance.now();
    for (let i = 0; i < {FRAMES}; i++) await new Promise(requestAnimationFrame);
    return {FRAMES} / ((performance.now() - begun) / 1e3);
}})()"""
MOVING = f"""(async () => {{
    const plot = document.getElementById("timeline-plot"), keys = ["-", "d", "a", "+", "w", "d", "s", "a"], paints = [];
    plot.scrollIntoView();
    await new Promise(requestAnimationFrame);
    const begun = performance.now();
    for (let i = 0; i < {FRAMES}; i++) {{
        plot.dispatchEvent(new KeyboardEvent("keydown", {{ key: keys[i % keys.length], bubbles: true }}));
        await new Promise(requestAnimationFrame);
        paints.push(shownTimeline.painted);
    }}
    paints.sort((a, b) => a - b);
    const seconds = (performance.now() - begun) / 1e3;
    return {{ fps: {FRAMES} / seconds, median: paints[{FRAMES} / 2], worst: paints[{FRAMES} - 1] }};
}})()"""


def crowded() -> Timeline:
    """A step with as many events as are to be drawn."""
    random = np.random.default_rng(0)
    length = np.where(
        random.random(EVENTS) < 1 / 7, random.integers(50_000, 200_000, EVENTS), 2_000
    )
    lane = np.arange(EVENTS) % LANES
    start = np.zeros(EVENTS, np.int64)
    for one in range(LANES):
        here = lane == one
        start[here] = np.concatenate(
            ([0], np.cumsum(length[here] + random.integers(0, 4_000, here.sum()))[:-1])
        )
    end = start + length
    names = [f"aten::operator_{i}" for i in range(200)]
    columns = {"lane": lane, "start": start, "end": end, "name": random.integers(0, 200, EVENTS)}
    categories = np.array(
        [Category.COMPUTE, Category.COPY, Category.IDLE_SYNC, Category.OPERATOR, Category.API_CALL]
    )
    columns["category"] = categories[random.integers(0, len(categories), EVENTS)]
    extent = (0, int(end.max()))
    lanes = [Lane(f"lane {i}") for i in range(LANES)]
    return Timeline(0, 0, extent, extent, lanes, names, [], DrawnEvents.from_columns(columns), [])


def main() -> None:
    """Print the figures."""
    data.FIRST_BYTES = module.MAX_BYTES = 100_000_000
    with tempfile.TemporaryDirectory() as folder, Chromium.start() as browser:
        file = Path(folder) / "page.html"
        file.write_text(render_html(full(), Details([crowded()])), encoding="utf-8")
        page = browser.open(file)
        seen = page.evaluate(MOVING)
        idle = page.evaluate(IDLE)
    print(
        f"{EVENTS:,} events: {seen['fps']:.0f} frames/s, drawn in {seen['median']:.1f} ms (median), "
        f"{seen['worst']:.1f} ms (worst of {FRAMES}); the page at rest: {idle:.0f} frames/s"
    )
    sys.exit(0 if seen["fps"] >= LEAST_SHARE * min(idle, MOST_FPS) else 1)


if __name__ == "__main__":
    main()
