"""Takes the pictures that the README shows: `python -m docs.picture` (the page's needs Chromium and
Pillow)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from docs.generate import ROOT

SAMPLE = ROOT / "sample_traces" / "sync_bound_stacks"
PICTURE = ROOT / "docs" / "page.png"
REPORT = ROOT / "docs" / "report.svg"
SIZE = (1280, 1000)
COLOURS = 256
"""Of a page with few of them; half of the bytes. Fewer, and two causes of idle time have one
colour."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--virtual-time-budget=8000",
)


def main() -> None:
    """Draw the report; make the page, open it, keep what is seen."""
    # As a reader of the README would name it.
    analyze = [
        sys.executable,
        "-m",
        "traceanalyzer",
        "analyze",
        str(SAMPLE.relative_to(ROOT)),
        "-o",
    ]
    subprocess.run([*analyze, str(REPORT)], check=True, cwd=ROOT)  # noqa: S603
    from PIL import Image

    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        sys.exit("no Chromium is installed")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        shot = Path(folder) / "page.png"
        subprocess.run([*analyze, str(page)], check=True, cwd=ROOT)  # noqa: S603
        size = f"--window-size={SIZE[0]},{SIZE[1]}"
        subprocess.run([browser, *FLAGS, size, f"--screenshot={shot}", page.as_uri()], check=True)  # noqa: S603
        Image.open(shot).convert("RGB").quantize(COLOURS).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
