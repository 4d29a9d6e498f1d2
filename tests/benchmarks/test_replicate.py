"""A replica is a longer recording of the same work: as much of everything, nothing mixed up."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.replicate import SEAM_NS, replicate
from tests import brute_force
from tests.recorded import ranks

(SOURCE,) = ranks("pairs/sync_mask.base")


@pytest.fixture(scope="module")
def replica(tmp_path_factory):
    path = tmp_path_factory.mktemp("replica") / "three.json"
    replicate(SOURCE, path, copies=3)
    return path


def figures(path: Path) -> brute_force.Figures:
    (ops,) = brute_force.read(path).values()
    return brute_force.figures(ops)


def test_one_copy_is_the_recording(tmp_path):
    replicate(SOURCE, tmp_path / "one.json", copies=1)
    assert figures(tmp_path / "one.json") == figures(SOURCE)


def test_device_work_is_three_times_as_much(replica):
    one = figures(SOURCE)
    three = figures(replica)
    assert three.busy == 3 * one.busy
    assert (three.kernels, three.copies, three.memsets) == (
        3 * one.kernels,
        3 * one.copies,
        3 * one.memsets,
    )
    assert three.gaps == 3 * one.gaps + 2
    assert three.span > 3 * one.span + 2 * SEAM_NS


def test_ids_and_steps_go_on(replica):
    events = json.loads(replica.read_text())["traceEvents"]
    calls = Counter(e["args"]["correlation"] for e in events if e.get("cat") == "cuda_runtime")
    assert max(calls.values()) == 1
    ops = Counter(e["args"]["External id"] for e in events if e.get("cat") == "cpu_op")
    assert max(ops.values()) == 1
    steps = [
        e["name"]
        for e in events
        if e["name"].startswith("ProfilerStep#") and e["cat"] == "user_annotation"
    ]
    assert sorted(steps) == sorted(f"ProfilerStep#{n}" for n in range(3, 15))
    assert sum(e["name"] == "Record Window End" for e in events) == 1
    launched = {e["args"]["correlation"]: e["ts"] for e in events if e.get("cat") == "cuda_runtime"}
    for event in events:
        if event.get("cat") == "kernel" and event["args"]["correlation"] in launched:
            assert 0 <= event["ts"] - launched[event["args"]["correlation"]] < 1e6
