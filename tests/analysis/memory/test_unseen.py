"""Programs that nobody tuned on, on an H200: AMP, accumulation, LoRA, convolutions, generation,
FSDP, captures."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.analysis.memory.measure import MemoryOfDevice, measured_memory
from traceanalyzer.ingest.memory import read_snapshot

DATA = Path(__file__).parents[2] / "data" / "memory" / "unseen"
TRUTH: dict[str, Any] = json.loads((DATA / "memory.json").read_text())
FAMILIES = ["amp", "accumulated", "conv", "lora", "states", "fsdp"]
GENERATED = 301_727_232
"""The prompt, run before the steps that were measured, needs this much more than they do."""


@cache
def of(name: str) -> MemoryOfDevice:
    return measured_memory(read_snapshot(DATA / f"{name}.snapshot.pickle.gz"))[0]


@pytest.mark.parametrize("name", [*FAMILIES, "generate", "capture", "out_of_memory"])
def test_the_ledger_adds_up(name: str) -> None:
    assert sum(of(name).at_peak.values()) == of(name).peak_bytes
    assert of(name).unexplained_bytes == 0


@pytest.mark.parametrize("name", [*FAMILIES, "generate"])
def test_every_phase_of_every_step_is_what_was_measured(name: str) -> None:
    device = of(name)
    base = TRUTH[f"family {name}"]["base"]
    assert device.peak_bytes == base["peak"] + (GENERATED if name == "generate" else 0)
    for phase, wanted in base["phase_peaks"].items():
        found = [step.phase_peaks.get(phase) for step in device.steps]
        assert [
            pair for pair in zip(found, wanted, strict=True) if pair[0] not in (None, pair[1])
        ] == []
        assert device.phase_peaks[phase] in (max(wanted), device.peak_bytes)


@pytest.mark.parametrize("name", FAMILIES)
def test_what_the_peak_is_made_of(name: str) -> None:
    device = of(name)
    base = TRUTH[f"family {name}"]["base"]
    assert device.at_peak["parameters"] == pytest.approx(base["parameters"], rel=0.02)
    assert device.at_peak["optimizer_state"] == pytest.approx(base["optimizer_state"], rel=0.02)


@pytest.mark.parametrize(
    ("name", "scenario"),
    [
        ("amp", "chunked-loss"),
        ("amp", "checkpoint"),
        ("accumulated", "checkpoint"),
        ("states", "bf16-states"),
        ("states", "shard-optimizer-8"),
        ("amp", "batch-x2"),
        ("amp", "batch-x0.5"),
        ("accumulated", "batch-x2"),
        ("lora", "batch-x2"),
        ("lora", "checkpoint"),
        ("conv", "batch-x0.5"),
    ],
)
def test_predicted_peaks(name: str, scenario: str) -> None:
    (predicted,) = (s.peak_bytes for s in of(name).scenarios if s.id == scenario)
    assert predicted == pytest.approx(TRUTH[f"family {name}"][scenario]["peak"], rel=0.03)


def test_of_a_cache_that_grows_no_batch_is_predicted() -> None:
    device = of("generate")
    assert device.growth.verdict == "growth"
    assert device.growth.bytes_per_step == 2 * 8 * 32 * 1024 * 2
    assert not any(s.id.startswith("batch") for s in device.scenarios)
    assert "kept from step to step" in str(device.larger_batch.reason)


def test_a_captures_parameters_and_state_are_named_though_they_came_before() -> None:
    base = TRUTH["family amp"]["base"]
    assert of("capture").at_peak["parameters"] == pytest.approx(base["parameters"], rel=0.02)
    assert of("capture").at_peak["optimizer_state"] == pytest.approx(
        base["optimizer_state"], rel=0.02
    )


def test_the_collectors_snapshot_of_a_failure_names_the_leak() -> None:
    oom = of("out_of_memory").oom
    assert oom is not None
    assert oom.verdict == "leak"
    assert oom.culprits[0].site.startswith("memory_programs.py:")
