"""When holes in reserved memory are a finding: a fifth of what is reserved, and never less than 256
MiB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.snapshots import FORWARD, MIB, SEGMENT, content, event, freed, segment, snapshot
from traceanalyzer.analysis.memory.measure import measured_memory
from traceanalyzer.diagnosis.memory import findings_of

if TYPE_CHECKING:
    from pathlib import Path


def found(tmp_path: Path, reserved: int, holes: int) -> list[tuple[str, int | None]]:
    """One segment of `reserved` MiB with a hole of `holes` at its end, at the peak."""
    used = (reserved - holes) * MIB
    events = [
        event("segment_alloc", SEGMENT, reserved * MIB),
        event("alloc", SEGMENT, used, FORWARD),
    ]
    events += freed(SEGMENT, used, FORWARD)
    state = [segment([(SEGMENT, reserved * MIB, 0, "inactive")], reserved * MIB)]
    devices = measured_memory(snapshot(tmp_path, content(events, state)))
    return [
        (f.id, f.headroom_bytes) for f in findings_of(devices) if f.id == "memory-fragmentation"
    ]


@pytest.mark.parametrize(
    ("reserved", "holes", "is_finding"),
    [(1000, 300, True), (1000, 200, False), (4000, 700, False), (4000, 900, True)],
    ids=["both", "few bytes", "small share", "large"],
)
def test_holes_count_by_share_and_by_bytes(
    tmp_path: Path, reserved: int, holes: int, is_finding: bool
) -> None:
    assert found(tmp_path, reserved, holes) == (
        [("memory-fragmentation", holes * MIB)] if is_finding else []
    )
