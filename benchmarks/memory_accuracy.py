"""Predictions from snapshots against what `memory_on_gpu` measured: `python -m benchmarks.memory_accuracy FOLDER`.

FOLDER has its `memory.json`, and `memory.tar` or what was in it. Prints Markdown: docs/accuracy.md has the tables of
the kept run.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceanalyzer.analysis.memory.measure import measured
from traceanalyzer.ingest.memory.snapshot import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.memory.measure import MemoryOfDevice

GB = 1e9


def device_of(folder: Path, name: str) -> MemoryOfDevice:
    """What the snapshot of a family tells of its only GPU."""
    return measured(read_snapshot(folder / f"{name}.snapshot.pickle.gz"))[0]


def predicted(folder: Path, truth: dict[str, Any]) -> Iterator[tuple[str, str, float | None, float]]:
    """(family, scenario, predicted bytes, measured bytes)."""
    for key, variants in truth.items():
        if not key.startswith("family ") or "error" in variants:
            continue
        peaks = {s.id: s.peak_bytes for s in device_of(folder, key[7:]).scenarios}
        for scenario, ran in variants.items():
            if scenario != "base":
                yield key[7:], scenario, peaks.get(scenario), ran["peak"]


def ledgers(folder: Path, truth: dict[str, Any]) -> Iterator[str]:
    """A line a family: what differs from what was measured of its base."""
    for key, variants in truth.items():
        if not key.startswith("family ") or "error" in variants:
            continue
        device, base = device_of(folder, key[7:]), variants["base"]
        phases = [max(base["phase_peaks"][name]) - device.phase_peaks.get(name, 0) for name in base["phase_peaks"]]
        parts = [
            f"{device.at_peak[name] / base[name] - 1:+.2%}" if base[name] and device.at_peak[name] else "-"
            for name in ("parameters", "optimizer_state")
        ]
        left = sum(device.at_peak.values()) - device.peak_bytes
        yield (
            f"| {key[7:]} | {base['peak'] / GB:.3f} | {device.peak_bytes - base['peak']} B | "
            f"{max(phases, key=abs)} B | {left} B | {' | '.join(parts)} | {len(device.steps)} |"
        )


def main(folder: Path) -> None:
    truth = json.loads((folder / "memory.json").read_text())
    with tempfile.TemporaryDirectory() as scratch:
        if (folder / "memory.tar").is_file() and not list(folder.glob("*.snapshot.pickle.gz")):
            with tarfile.open(folder / "memory.tar") as tar:
                tar.extractall(scratch, filter="data")
            folder = Path(scratch)
        print(f"{truth['gpu']}, torch {truth['torch']}\n")
        print("| family | peak (GB) | peak off by | worst phase | ledger left | parameters | optimizer state | steps |")
        print("|---|---|---|---|---|---|---|---|")
        print("\n".join(ledgers(folder, truth)))
        print("\n| family | change | predicted (GB) | measured (GB) | off by |\n|---|---|---|---|---|")
        for family, scenario, peak, real in predicted(folder, truth):
            told = "- | " if peak is None else f"{peak / GB:.3f} | "
            off = "not predicted" if peak is None else f"{peak / real - 1:+.2%}"
            print(f"| {family} | {scenario} | {told}{real / GB:.3f} | {off} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
