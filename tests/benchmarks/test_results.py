"""Tables of what was measured: every row once, exponents of the same thing at two sizes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.measured import MB, Cost, measure
from benchmarks.results import Results
from benchmarks.sized import TWO_RANKS, _rank_of
from tests.recorded import ROOT

HOLDS = "import time; held = bytearray({} * 1_000_000); time.sleep(0.6)"
STARTS = (
    "import subprocess, sys; own = bytearray(30 * 1_000_000); "
    f"subprocess.run([sys.executable, '-c', {HOLDS.format(60)!r}])"
)


def cost(wall: float, memory: float, status: int = 0) -> Cost:
    return Cost(wall, wall / 2, memory, memory, status, "", "it broke")


def test_exponents_are_those_of_the_smallest_and_the_largest_that_went_well(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b"x" * MB)
    results = Results()
    for text, wall, memory, status in (
        (1, 1, 100, 0),
        (2, 9, 100, 0),
        (4, 16, 200, 0),
        (8, 99, 900, 1),
    ):
        results.add("Plain", "analyze", file, text, cost(wall, memory, status))
    results.add("Plain", "once", file, 1, cost(1, 1))
    results.note("a note")
    text = results.markdown()
    assert "| Plain: analyze | 1 to 4 MB | 2.00 | 2.00 | 0.50 |" in text
    assert "Plain: once" not in text
    assert text.count("| analyze |") == 4
    assert "exit 1: it broke" in text
    assert "- a note" in text


def test_memory_of_all_processes_is_counted() -> None:
    """Measured by a small process: this one's own memory would count as the command's."""
    program = f"from benchmarks.measured import measure; c = measure({[sys.executable, '-c', STARTS]!r})\n"
    shown = "print(c.peak_mb, c.together_mb, c.status)"
    said = subprocess.run(
        [sys.executable, "-c", program + shown],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    peak, together, status = map(float, said.stdout.split())
    assert 60 < peak < together
    assert status == 0


def test_a_command_that_takes_too_long_is_ended() -> None:
    assert (
        measure([sys.executable, "-c", "import time; time.sleep(60)"], timeout_s=0.3).status == -9
    )


def test_a_rank_of_many(tmp_path: Path) -> None:
    source = tmp_path / "one.json"
    source.write_text(
        '"rank": 1, "world_size": 2, "pg_size": 2, "ranks": [0, 1]\n'
        '"Process Group Ranks": "[0, 1]", "Group size": 2, "Rank": 1'
    )
    _rank_of(source, tmp_path / "many.json", 5, 6)
    assert (tmp_path / "many.json").read_text() == (
        '"rank": 5, "world_size": 6, "pg_size": 6, "ranks": [0, 1, 2, 3, 4, 5]\n'
        '"Process Group Ranks": "[0, 1, 2, 3, 4, 5]", "Group size": 6, "Rank": 5'
    )
    assert len(TWO_RANKS) == 2
