"""Both recorders' reports of one program, compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.recorders import both_of, compared, kept

if TYPE_CHECKING:
    from pathlib import Path


def report(verdict: str, step_ms: float, **promised: float | None) -> dict[str, Any]:
    advised = [{"remedy": name, "predicted_step_ms": time} for name, time in promised.items()]
    return {
        "summary": {"bottleneck": verdict, "step_ms": step_ms},
        "recommendations": advised,
    }


REPORTS = {
    "a": report("launch", 10.0, cuda_graph=2.0, compile=2.5),
    "a.nsys": report("launch", 9.0, compile=2.2, cuda_graph=2.4),
    "b": report("memory", 30.0, channels_last=20.0),
    "b.nsys": report("compute", 60.0),
    "c": report("sync", 10.0, remove_syncs=5.0),
}
"""`c` was not recorded by nsys."""
TIMED: dict[str, dict[str, Any]] = {
    "a": {"base_ms": [10.5, 8.9, 12.0]},
    "b": {"base_ms": [30.0, 30.1]},
    "c": {"base_ms": [10.0]},
}


def test_first_remedies_that_are_promised_alike_are_nearly_the_same() -> None:
    first, second = both_of(TIMED, REPORTS)
    assert (first.program, first.same_verdict, first.same_remedy) == ("a", True, False)
    assert first.nearly_same, "2.0 and 2.5 of 10 ms"
    assert not second.nearly_same
    assert second.kineto.is_close(second.rounds_ms)
    assert not second.nsys.is_close(second.rounds_ms)


def test_the_totals_count_programs() -> None:
    text = compared(TIMED, REPORTS)
    assert text.startswith(
        "Of 2 programs 1 have the same verdict, 0 the same first remedy, 0 both; 1 more promise"
    )
    assert "Of 2 steps by PyTorch's profiler within 20% of a round of the stopwatch 1 are" in text
    assert "| b | memory | **compute** | channels_last | **-** | 30.1 | 30 | 60 |" in text


def test_captures_without_their_recording_are_left_out(tmp_path: Path) -> None:
    for name, file in (("a", "trace.rank0.json.gz"), ("b", "light.rank0.json.gz")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).touch()
    assert [one.name for one in kept(tmp_path)] == ["a"]
