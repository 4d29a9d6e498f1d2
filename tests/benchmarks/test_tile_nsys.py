"""A repeated export is a recording of as much more work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.tile_nsys import tile
from tests.nsys_builder import small_run
from traceanalyzer.ingest import nsys

if TYPE_CHECKING:
    from pathlib import Path


def test_rows_of_the_sources_own_mix(tmp_path: Path) -> None:
    source = small_run("3.24.0").write(tmp_path / "source.sqlite")
    (one,) = nsys.read(source)
    there = sum(tile(source, tmp_path / "same.sqlite", rows=1).values())
    made = tile(source, tmp_path / "tiled.sqlite", rows=7 * there)
    (seven,) = nsys.read(tmp_path / "tiled.sqlite")
    assert sum(made.values()) == 7 * there
    assert len(seven.device_ops) == 7 * len(one.device_ops)
    assert len(seven.api_calls) == 7 * len(one.api_calls)
