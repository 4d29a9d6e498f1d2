"""How quickly the HTML report opens in headless Chromium: `python -m benchmarks.html_report
[RECORDING...]`; and what axe-core finds on pages: `--axe axe.min.js --pages PAGE...`.

Without arguments the 155 MB recording of ../shared/traces, unpacked, and a replica of it of 0.5 GB.
Needs an installed Chromium. Ends with status 1 where a bar is missed. See README.md here for what
is measured.
"""

import argparse
import re
import sys
import tempfile
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from benchmarks.chromium import Chromium
from benchmarks.measured import MB, measure, traceanalyzer_command
from benchmarks.sized import recordings

MAX_FILE_MB = 1.5
MAX_DATA_MB = 1.1
MAX_INTERACTIVE_S = 1.0
TO_THE_TIMELINE = """(async () => {
    const begun = performance.now();
    document.querySelector("a[href^='#at=']").click();
    while (!document.getElementById("timeline-status").textContent) await new Promise(requestAnimationFrame);
    return performance.now() - begun;
})()"""
ZOOM = """(async () => {
    const begun = performance.now();
    document.querySelector("[data-move=all]").click();
    await new Promise(requestAnimationFrame);
    return performance.now() - begun;
})()"""
WIDTHS = (1280, 390)
VIOLATED = """axe.run(document, { resultTypes: ["violations"] }).then(
    (result) => result.violations.map((one) => `${one.id}: ${one.nodes.length}`))"""
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


@dataclass(frozen=True)
class Opened:
    """One opening of the page; times are ms since the navigation began, or since the click."""

    painted: float
    interactive: float
    timeline: float
    zoom: float
    complaints: list[str]
    requests: list[str]


def open_page(file: Path) -> Opened:
    """Open the page in a browser of its own, follow the first link to the timeline, show all of the
    step."""
    with Chromium.start() as browser:
        page = browser.open(file)
        page.wait(f"({PAINTED}) !== null")
        return Opened(
            painted=page.evaluate(PAINTED),
            interactive=float(page.evaluate("document.documentElement.dataset.ready")),
            timeline=page.evaluate(TO_THE_TIMELINE),
            zoom=page.evaluate(ZOOM),
            complaints=page.complaints,
            requests=[url for url in page.requests if url != file.resolve().as_uri()],
        )


def violations(file: Path, axe: Path) -> list[str]:
    """What axe-core finds on the page, everything unfolded, wide and narrow, light and dark; and
    where it has to be scrolled sideways."""
    found = []
    with Chromium.start() as browser:
        for width, dark in product(WIDTHS, (False, True)):
            page = browser.open(file, width=width, dark=dark)
            page.act("document.querySelectorAll('details').forEach(one => { one.open = true; })")
            page.evaluate(f"{axe.read_text(encoding='utf-8')}; 0")
            where = f"{width} px, {'dark' if dark else 'light'}"
            found += [f"{rule} ({where})" for rule in page.evaluate(VIOLATED)]
            if page.evaluate("document.documentElement.scrollWidth") > width:
                found.append(f"wider than the window ({where})")
            page.close()
    return found


def report_on(recording: Path, folder: Path, repeats: int) -> bool:
    """Print what the recording's page costs; whether it is within all bars."""
    file = folder / "report.html"
    cost = measure([*traceanalyzer_command(), "analyze", str(recording), "-o", str(file)])
    if cost.status:
        sys.exit(f"{recording}: {cost.outcome}")
    text = file.read_text(encoding="utf-8")
    data = sum(
        len(block)
        for block in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text)
    )
    runs = [open_page(file) for _ in range(repeats)]
    first = min(runs, key=lambda run: run.interactive)
    print(
        f"{recording.name} ({recording.stat().st_size / MB:.0f} MB): written in {cost.wall_s:.2f} s, "
        f"{file.stat().st_size / MB:.2f} MB, of it {data / MB:.2f} MB data of timelines\n"
        f"  painted {first.painted / 1e3:.2f} s, interactive {first.interactive / 1e3:.2f} s "
        f"(slowest of {repeats}: {max(run.interactive for run in runs) / 1e3:.2f} s), "
        f"from a finding to the timeline {first.timeline / 1e3:.2f} s, zoomed out {first.zoom / 1e3:.2f} s\n"
        f"  console: {first.complaints or 'nothing'}, network: {first.requests or 'nothing'}"
    )
    quiet = not any(run.complaints or run.requests for run in runs)
    small = file.stat().st_size <= MAX_FILE_MB * MB and data <= MAX_DATA_MB * MB
    return quiet and small and first.interactive <= MAX_INTERACTIVE_S * 1e3


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recordings", nargs="*", type=Path)
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "traceanalyzer-benchmarks"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--axe", type=Path, help="axe.min.js, of `npm pack axe-core`")
    parser.add_argument("--pages", nargs="+", type=Path, default=[], help="only check these pages")
    given = parser.parse_args()
    if given.pages:
        found = {str(file): violations(file, given.axe) for file in given.pages}
        print("\n".join(f"{file}: {', '.join(of) or 'nothing'}" for file, of in found.items()))
        sys.exit(1 if any(found.values()) else 0)
    paths = given.recordings or recordings(given.folder, [500])
    with tempfile.TemporaryDirectory() as folder:
        within = [report_on(path, Path(folder), given.repeats) for path in paths]
    sys.exit(0 if all(within) else 1)


if __name__ == "__main__":
    main()
