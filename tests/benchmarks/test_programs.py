"""Programs that take the analysis apart still fit it."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.growth import growth
from benchmarks.public_recordings import row
from tests.recorded import RECORDINGS, ROOT

SMALL = RECORDINGS / "ablations" / "copy_pinned.base.json.gz"


def test_each_part_of_an_analysis_has_its_cost() -> None:
    """In a process of its own: it changes how memory is freed."""
    command = [sys.executable, "-m", "benchmarks.parts", str(SMALL)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert said.count("CPU-s") == 12


def test_a_row_of_a_recording_says_its_step_and_class() -> None:
    cells = row(SMALL).split(" | ")
    assert "profiler step" in cells[1]
    assert cells[3].startswith("transfer")


def test_growth_is_measured_of_a_family() -> None:
    size, length, _, exponent = growth("log_lines", 1e-6)
    assert size >= 500
    assert length > 0
    assert exponent >= 0
