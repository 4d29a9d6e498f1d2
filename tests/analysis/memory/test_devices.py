"""A snapshot of several GPUs: what is found of each is what is found where it is alone."""

from __future__ import annotations

import copy
import gzip
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.snapshots import FORWARD, MIB, SEGMENT, content, event, freed, segment, snapshot
from traceanalyzer.analysis.memory.measure import MemoryOfDevice, measured_memory
from traceanalyzer.report.memory.build import memory_report
from traceanalyzer.report.memory.document import memory_document

DATA = Path(__file__).parents[2] / "data" / "memory"


def content_of(name: str) -> dict[str, Any]:
    raw = gzip.decompress((DATA / f"{name}.snapshot.pickle.gz").read_bytes())
    value: dict[str, Any] = pickle.loads(raw)  # noqa: S301 our own
    return value


def together(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """One snapshot of two GPUs, the second one's content on GPU 1: addresses may be the same on
    both."""
    second = copy.deepcopy(second)
    segments = [{**one, "device": 1} for one in second["segments"]]
    notes = [
        *first.get("external_annotations", []),
        *({**a, "device": 1} for a in second["external_annotations"]),
    ]
    traces = [first["device_traces"][0], second["device_traces"][0]]
    return {
        **first,
        "segments": first["segments"] + segments,
        "device_traces": traces,
        "external_annotations": notes,
    }


def alone(folder: Path, value: dict[str, Any]) -> MemoryOfDevice:
    return measured_memory(snapshot(folder, value))[0]


@pytest.mark.parametrize(
    ("one", "two"), [("base", "oom_leak"), ("ring", "kept_forward"), ("expandable", "expandable")]
)
def test_each_gpu_is_as_it_is_alone(tmp_path: Path, one: str, two: str) -> None:
    first = content_of(one)
    second = content_of(two)
    second.setdefault("external_annotations", [])
    found = measured_memory(snapshot(tmp_path, together(first, second)))
    assert [device.device for device in found] == [0, 1]
    assert found[0] == alone(tmp_path, first)
    assert replace(found[1], device=0) == alone(tmp_path, second)
    for device in found:
        assert sum(device.at_peak.values()) == device.peak_bytes
        assert sum(site.bytes for site in device.sites) == device.peak_bytes
        assert device.unexplained_bytes == 0


def test_only_the_second_gpu_is_used(tmp_path: Path) -> None:
    held = segment([(SEGMENT, 4 * MIB, 4 * MIB, "active_allocated")], 4 * MIB, device=1)
    value = content([], [held])
    value["device_traces"] = [[], [event("alloc", SEGMENT, 4 * MIB, FORWARD)]]
    (device,) = measured_memory(snapshot(tmp_path, value))
    assert (device.device, device.peak_bytes, device.end_bytes) == (1, 4 * MIB, 4 * MIB)


def test_the_report_keeps_the_gpus_apart(tmp_path: Path) -> None:
    events = [event("alloc", SEGMENT, 8 * MIB, FORWARD), *freed(SEGMENT, 8 * MIB)]
    value = content(events, [segment([], 8 * MIB), segment([], 2 * MIB, device=1)])
    value["device_traces"] = [events, [event("alloc", SEGMENT, MIB, FORWARD), *freed(SEGMENT, MIB)]]
    report = memory_report(snapshot(tmp_path, value))
    assert "8 MiB allocated at the peak of GPU 0" in report.headline
    text = memory_document(report).terminal(120, colour=False)
    for device in (0, 1):
        assert f"GPU {device} peak allocated" in text
        assert f"on GPU {device}" in text
