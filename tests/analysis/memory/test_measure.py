"""The ledger against what torch.cuda.max_memory_allocated measured, and hand-made histories for
each rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.snapshots import (
    BACKWARD,
    CAST,
    FORWARD,
    MIB,
    OPTIMIZER,
    SEGMENT,
    ZERO,
    content,
    event,
    freed,
    segment,
    snapshot,
)
from traceanalyzer.analysis.memory.lives import at_moments, lives_of, rounded_request
from traceanalyzer.analysis.memory.measure import MemoryOfDevice, measured_memory
from traceanalyzer.diagnosis.memory import memory_recommendations
from traceanalyzer.ingest.memory import read_snapshot

DATA = Path(__file__).parents[2] / "data" / "memory"
TRUTH: dict[str, Any] = json.loads((DATA / "truth.json").read_text())["cases"]
TRAINED = [name for name, case in TRUTH.items() if "phase_peaks" in case and name != "ring"]
STAGED = [name for name, case in TRUTH.items() if "expected" in case]


def of(name: str) -> MemoryOfDevice:
    return measured_memory(read_snapshot(DATA / f"{name}.snapshot.pickle.gz"))[0]


@pytest.mark.parametrize("name", [*TRUTH, "kv_cat.base"])
def test_the_ledger_adds_up_to_the_byte(name: str) -> None:
    device = of(name)
    assert (
        sum(device.at_peak.values())
        == device.peak_bytes
        == sum(site.bytes for site in device.sites)
    )
    assert device.unexplained_bytes == 0
    if name in TRUTH:
        assert device.end_bytes == TRUTH[name]["end"]


@pytest.mark.parametrize("name", TRAINED)
def test_peaks_of_every_phase_and_step_are_what_was_measured(name: str) -> None:
    device = of(name)
    truth = TRUTH[name]
    assert device.peak_bytes == truth["peak"]
    for phase, wanted in truth["phase_peaks"].items():
        assert [step.phase_peaks[phase] for step in device.steps] == wanted
    assert [step.end_bytes for step in device.steps] == truth["allocated_after_step"]
    assert device.at_peak["parameters"] == pytest.approx(truth["parameters"], rel=0.02)
    assert device.at_peak["optimizer_state"] == pytest.approx(truth["optimizer_state"], rel=0.02)
    if "before" in truth:
        assert device.at_peak["before_recording"] == pytest.approx(truth["before"], rel=0.02)


def test_a_ring_that_overflowed_still_adds_up() -> None:
    device = of("ring")
    truth = TRUTH["ring"]
    assert device.peak_bytes == truth["peak"]
    assert device.at_peak["before_recording"] > truth["parameters"] + truth["optimizer_state"]
    assert "before the recorded history" in device.notes[0]


@pytest.mark.parametrize("name", STAGED)
def test_failures_of_known_cause(name: str) -> None:
    oom = of(name).oom
    assert oom is not None
    assert oom.verdict == TRUTH[name]["expected"]
    assert oom.fits_with_expandable_segments == (name == "oom_fragmentation")
    assert oom.culprits[0].site.startswith("memory_gpu.py:")


PREDICTED = [
    ("kept_forward", "set-to-none", "kept_forward_none"),
    ("base", "checkpoint", "checkpointed"),
    ("base", "batch-x2", "double_batch"),
    ("base", "batch-x0.5", "half_batch"),
    ("wide", "fused-optimizer", "wide_fused"),
]


@pytest.mark.parametrize(("base", "scenario", "changed"), PREDICTED)
def test_predicted_peaks_are_what_the_changed_program_reaches(
    base: str, scenario: str, changed: str
) -> None:
    predicted = {s.id: s.peak_bytes for s in of(base).scenarios}[scenario]
    assert predicted == pytest.approx(TRUTH[changed]["peak"], rel=0.01)


def test_a_cache_that_grows_by_concatenation_is_no_leak() -> None:
    growth = of("kv_cat.base").growth
    assert growth.verdict == "growth"
    assert growth.bytes_per_step == pytest.approx(67108864)
    assert growth.sites[0].site == "memory_cases.py:72 fwd"


def test_the_leaking_line_is_named() -> None:
    growth = of("oom_leak").growth
    assert growth.verdict == "leak"
    assert growth.bytes_per_step == pytest.approx(2 * 512 * 32000 * 4, rel=0.05)
    assert growth.sites[0].site == "memory_gpu.py:106 forward"


def step(k: int, kept: bool = False) -> list[dict[str, Any]]:
    """Forward, backward, optimizer: an activation, a gradient, a temporary; with `kept` one more
    stays each step."""
    at = SEGMENT + 64 * MIB
    stays = [event("alloc", at + (10 + k) * 4 * MIB, 4 * MIB, FORWARD)] if kept else []
    state = [event("alloc", at + 4 * MIB, 3 * MIB, OPTIMIZER)] if k == 0 else []
    return [
        event("alloc", at, 2 * MIB, FORWARD),
        *stays,
        event("alloc", at + 8 * MIB, 5 * MIB, BACKWARD),
        *freed(at, 2 * MIB, BACKWARD),
        *state,
        event("alloc", at + 16 * MIB, 3 * MIB, OPTIMIZER),
        *freed(at + 16 * MIB, 3 * MIB, OPTIMIZER),
        *freed(at + 8 * MIB, 5 * MIB, ZERO),
    ]


def program(tmp_path: Path, steps: int, kept: bool = False) -> MemoryOfDevice:
    size = 512 * MIB
    begin = [event("segment_alloc", SEGMENT, size), event("alloc", SEGMENT, 5 * MIB, CAST)]
    events = begin + [e for k in range(steps) for e in step(k, kept)]
    alive = {SEGMENT: 5 * MIB, SEGMENT + 68 * MIB: 3 * MIB}
    if kept:
        alive |= {SEGMENT + 64 * MIB + (10 + k) * 4 * MIB: 4 * MIB for k in range(steps)}
    blocks = [
        (address, asked, asked, "active_allocated") for address, asked in sorted(alive.items())
    ]
    return measured_memory(snapshot(tmp_path, content(events, [segment(blocks, size)])))[0]


def test_categories_of_a_training_step(tmp_path: Path) -> None:
    device = program(tmp_path, 3)
    assert device.peak_phase == "optimizer"
    assert device.at_peak == {
        "parameters": 5 * MIB,
        "gradients": 5 * MIB,
        "optimizer_state": 3 * MIB,
        "activations": 0,
        "temporaries": 3 * MIB,
        "other": 0,
        "before_recording": 0,
    }
    assert device.phase_peaks["backward"] == 15 * MIB
    assert len(device.steps) == 3


def test_growth_needs_steps(tmp_path: Path) -> None:
    assert program(tmp_path, 3, kept=True).growth.verdict == "unknown"
    grown = program(tmp_path, 8, kept=True).growth
    assert (grown.verdict, grown.bytes_per_step) == ("leak", 4 * MIB)
    assert grown.sites[0].site == "model.py:7 forward"
    assert program(tmp_path, 8).growth.verdict == "steady"


def test_a_rest_that_is_not_split_off_belongs_to_the_allocation(tmp_path: Path) -> None:
    """What the history asks for is less than the block: 512 bytes of rounding, and a rest of up to
    1 MiB."""
    size = 20 * MIB
    asked = size - MIB // 2 - 100
    events = [
        event("segment_alloc", SEGMENT, size),
        event("alloc", SEGMENT, asked, FORWARD),
        *freed(SEGMENT, asked),
    ]
    device = measured_memory(
        snapshot(tmp_path, content(events, [segment([(SEGMENT, size, asked, "inactive")], size)]))
    )[0]
    assert device.peak_bytes == size
    assert device.fragmentation.internal_bytes == size - asked


def test_sizes_are_rounded_as_the_allocator_does() -> None:
    assert [rounded_request(size, {}) for size in (0, 1, 512, 513)] == [512, 512, 512, 1024]
    assert rounded_request(1200 * MIB, {1024: 4}) == 1280 * MIB


def test_what_waits_for_another_stream_is_not_allocated(tmp_path: Path) -> None:
    events = [
        event("segment_alloc", SEGMENT, 20 * MIB),
        event("alloc", SEGMENT, 8 * MIB, FORWARD),
        event("free_requested", SEGMENT, 8 * MIB, FORWARD),
        event("alloc", SEGMENT + 8 * MIB, 4 * MIB, FORWARD),
    ]
    blocks = [
        (SEGMENT, 8 * MIB, 8 * MIB, "active_pending_free"),
        (SEGMENT + 8 * MIB, 4 * MIB, 4 * MIB, "active_allocated"),
        (SEGMENT + 12 * MIB, 8 * MIB, 0, "inactive"),
    ]
    found = snapshot(tmp_path, content(events, [segment(blocks, 20 * MIB)]))
    device = measured_memory(found)[0]
    assert (device.peak_bytes, device.end_bytes, device.unexplained_bytes) == (8 * MIB, 4 * MIB, 0)
    lives = lives_of(found.devices[0], {})
    assert at_moments(np.arange(5), (lives.born, lives.freed, lives.size)).tolist() == [
        0,
        0,
        8 * MIB,
        0,
        4 * MIB,
    ]


def test_without_a_history_the_state_is_all_there_is(tmp_path: Path) -> None:
    blocks = [
        (SEGMENT, 2 * MIB, MIB, "active_allocated"),
        (SEGMENT + 2 * MIB, 18 * MIB, 0, "inactive"),
    ]
    device = measured_memory(snapshot(tmp_path, content([], [segment(blocks, 20 * MIB)])))[0]
    assert (device.peak_bytes, device.reserved_bytes, device.peak_phase) == (
        2 * MIB,
        20 * MIB,
        None,
    )
    assert device.at_peak["before_recording"] == 2 * MIB
    assert device.notes[0].startswith("No history was recorded")


def test_half_the_batch_twice_is_between_half_and_all_of_it() -> None:
    """The measured peak of half the batch, and the gradients of the first half beside it at
    most."""
    base, half = (
        measured_memory(read_snapshot(DATA / f"{name}.snapshot.pickle.gz"))[0]
        for name in ("base", "half_batch")
    )
    (found,) = (scenario for scenario in base.scenarios if scenario.id == "accumulate")
    gradients = base.at_peak["parameters"]
    assert (
        half.peak_bytes
        <= found.peak_bytes
        <= half.peak_bytes + gradients
        < base.peak_bytes + gradients
    )


def test_state_that_does_not_fit_is_predicted_whole_and_what_makes_it_fit_is_advised() -> None:
    device = of("oom_optimizer_state")
    made = device.at_peak["optimizer_state"]
    parameters = device.at_peak["parameters"]
    unmade = 2 * parameters - made
    assert unmade == 2_202_714_112
    peaks = {one.id: one.peak_bytes for one in device.scenarios}
    assert peaks["bf16-states"] == device.peak_bytes - made // 2 + unmade // 2
    assert peaks["shard-optimizer-8"] == pytest.approx(
        device.peak_bytes - made * 7 / 8 + unmade / 8, abs=4096
    )
    assert device.oom is not None
    assert peaks["bf16-states"] > device.oom.usable_bytes
    assert device.oom.fits_with_batch_share is None
    assert [one.remedy for one in memory_recommendations([device])] == ["shard"]
