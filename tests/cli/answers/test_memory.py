"""`traceanalyzer memory` as a user meets it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from traceanalyzer.base.errors import RefusedSnapshotError
from traceanalyzer.cli import cli
from traceanalyzer.diagnosis.pages import finding_page
from traceanalyzer.ingest.memory import read_snapshot
from traceanalyzer.report.explain import explained
from traceanalyzer.report.memory.build import memory_report

DATA = Path(__file__).parents[2] / "data" / "memory"
SAMPLES = Path(__file__).parents[3] / "sample_traces"
LEAK, FRAGMENTED, BASE, FIXED = (
    str(DATA / f"{name}.snapshot.pickle.gz")
    for name in ("oom_leak", "oom_fragmentation", "wide", "wide_fused")
)


def run(*arguments: str) -> str:
    return CliRunner().invoke(cli, ["memory", *arguments], catch_exceptions=False).stdout


def document(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--format", "json"))
    return found


def test_the_json_has_the_contracts_names() -> None:
    told = document(LEAK)
    (device,) = told["memory"]
    assert {
        "device",
        "peak_bytes",
        "peak_phase",
        "reserved_bytes",
        "at_peak",
        "sites",
        "growth",
        "fragmentation",
        "oom",
    } <= set(device)
    assert list(device["at_peak"]) == [
        "parameters",
        "gradients",
        "optimizer_state",
        "activations",
        "temporaries",
        "other",
        "before_recording",
    ]
    assert sum(device["at_peak"].values()) == device["peak_bytes"]
    assert {"site", "category", "bytes", "allocations"} <= set(device["sites"][0])
    assert {"bytes_per_step", "low", "high", "verdict", "sites"} <= set(device["growth"])
    assert {"internal_bytes", "inactive_bytes", "largest_free_block_bytes"} <= set(
        device["fragmentation"]
    )
    assert {"requested_bytes", "device_free_bytes", "verdict"} <= set(device["oom"])
    assert [finding["id"] for finding in told["findings"]][:2] == ["oom-leak", "memory-leak"]
    assert all(finding_page(finding["id"]) for finding in told["findings"])
    assert all(
        advice["predicted_peak_bytes"] <= device["peak_bytes"] for advice in told["recommendations"]
    )


def test_the_fused_optimizer_is_recommended_with_its_peak() -> None:
    advice = next(a for a in document(BASE)["recommendations"] if a["remedy"] == "fused_optimizer")
    measured = json.loads((DATA / "truth.json").read_text())["cases"]["wide_fused"]["peak"]
    assert advice["predicted_peak_bytes"] == pytest.approx(measured, rel=0.01)


def test_two_snapshots_are_compared_by_line() -> None:
    (pair,) = document(BASE, "--other", FIXED)["compared"]
    assert pair["change_bytes"] == pair["other_peak_bytes"] - pair["peak_bytes"] < 0
    assert sum(line["change_bytes"] for line in pair["lines"]) == pair["change_bytes"]


@pytest.mark.parametrize("format_", ["terminal", "markdown", "html"])
def test_people_read_the_cause_and_the_remedy(format_: str) -> None:
    text = run(FRAGMENTED, "--format", format_)
    assert "because of fragmentation" in text
    assert "expandable segments" in text
    assert "gpu.py:146 fragmented" in text


def test_redacted_it_names_no_file() -> None:
    assert DATA.name + "/" not in run(LEAK, "--format", "markdown", "--redact")


def test_another_file_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.pickle"
    path.write_bytes(b"\x80\x04Nr\xff\xff\xff\x1f.")
    result = CliRunner().invoke(cli, ["memory", str(path)])
    assert isinstance(result.exception, RefusedSnapshotError)
    assert "\n" not in str(result.exception)


def test_a_folder_stands_for_the_snapshot_in_it(tmp_path: Path) -> None:
    def outcome() -> str:
        result = CliRunner().invoke(cli, ["memory", str(tmp_path)])
        return str(result.exception) if result.exit_code else result.stdout

    assert "no memory snapshot in this folder" in outcome()
    shutil.copy(LEAK, tmp_path / "memory.rank0.pickle.gz")
    assert outcome().split("Next: ")[0] == run(LEAK).split("Next: ")[0]
    shutil.copy(LEAK, tmp_path / "memory.rank1.pickle.gz")
    assert "name one: memory.rank0.pickle.gz, memory.rank1.pickle.gz" in outcome()


def test_a_folder_with_a_trace_is_read_with_it(tmp_path: Path) -> None:
    names = ("kv_cat.base.snapshot.pickle.gz", "kv_cat.base.trace.json.gz")
    for name in names:
        shutil.copy(DATA / name, tmp_path / name)
    alone = [str(DATA / name) for name in names]
    assert run(str(tmp_path), "--full") == run(*alone, "--full")
    shutil.copy(DATA / names[1], tmp_path / "another.json.gz")  # of neither a rank is known
    assert run(str(tmp_path), "--full") == run(alone[0], "--full")


def test_operators_are_spoken_of_only_with_a_trace() -> None:
    assert "Operators by memory" not in run(BASE, "--full")
    assert "Operators by memory" not in run(BASE, "--redact", "--full")
    assert "the trace has no allocator events" in " ".join(
        run(BASE, str(SAMPLES / "memory_bound"), "--full").split()
    )


@pytest.mark.parametrize(
    "file", sorted(DATA.glob("*.snapshot.pickle.gz")), ids=lambda file: file.name
)
def test_the_answer_is_one_screen_and_analyze_has_one_too(file: Path) -> None:
    text = run(str(file))
    assert len(text.splitlines()) <= 24
    assert "Next: traceanalyzer analyze" in text
    same = CliRunner().invoke(cli, ["analyze", str(file)], catch_exceptions=False).stdout
    failed = file.name.startswith("oom_")
    assert same.startswith("OUT OF MEMORY\n" if failed else "GPU MEMORY")
    assert len(same.splitlines()) <= 24
    assert len(run(str(file), "--full").splitlines()) > 24


def test_the_headline_of_a_failure_is_what_frees_most() -> None:
    assert "leaks 126 MiB per step (3.94 GiB of 5.88 GiB)" in " ".join(run(LEAK).split())
    assert "125 MiB (131,072,000 bytes) did not fit in step 32" in " ".join(run(LEAK).split())
    fragmented = " ".join(run(FRAGMENTED).split())
    assert "Without fragmentation it fails 3 steps later, in step 9" in fragmented


def test_advice_is_explained_by_the_name_that_it_has() -> None:
    """A leak comes first, and each name on the screen has a page."""
    report = memory_report(read_snapshot(Path(LEAK)))
    assert report.recommendations[0].remedy == "free_tensors"
    assert "[free_tensors]" in run(LEAK)
    for advice in report.recommendations:
        assert explained(advice.remedy)
