"""Repeats of a profiler's schedule in one folder: one is read, and they are no ranks."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.base.reading import read_with
from traceanalyzer.cli import cli
from traceanalyzer.ingest import load
from traceanalyzer.ingest.repeats import one_repeat
from traceanalyzer.ingest.torch_log import read_logs


@pytest.fixture(autouse=True)
def _any_iteration():
    yield
    read_with(iteration=None)


def recording(path, kernel_us):
    events = [
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 0.0, "dur": kernel_us}
    ]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


@pytest.fixture(name="folder")
def _folder(tmp_path):
    for part, name in enumerate(("trace.rank0", "trace.rank0.part2", "trace.rank0.part3"), 1):
        recording(tmp_path / f"{name}.json", 10.0 * part)
    return tmp_path


def kernel_us(path):
    (trace,) = load([path]).traces
    return (trace.device_ops.end - trace.device_ops.start).sum() / 1e3


def test_the_last_repeat_is_read(folder):
    assert kernel_us(folder) == 30
    (trace,) = load([folder]).traces
    assert any(note.startswith("Repeat 3 of 3 was read") for note in trace.health.notes)
    assert not any("claim rank" in note for note in trace.health.notes)


def test_another_is_asked_for_by_its_number_also_after_an_answer_was_kept(folder):
    read_with(iteration=2)
    assert kernel_us(folder) == 20
    asked = ["analyze", str(folder), "--format", "json"]
    last = CliRunner().invoke(cli, asked)
    first = CliRunner().invoke(cli, [*asked, "--iteration", "1"])
    assert "Repeat 3 of 3" in last.output
    assert "Repeat 1 of 3" in first.output
    read_with(iteration=4)
    with pytest.raises(UnreadableInputError, match="no repeat 4; there are 1 to 3"):
        load([folder])


def test_one_that_is_named_is_read(folder):
    assert kernel_us(folder / "trace.rank0.part2.json") == 20


def test_ranks_give_the_same_repeat():
    names = [f"t.rank{rank}{part}.json" for rank in (0, 1) for part in ("", ".part2", ".part3")]
    found, notes = one_repeat([Path(name) for name in names[:-1]])
    assert [path.name for path in found] == ["t.rank0.part2.json", "t.rank1.part2.json"]
    assert len(notes) == 1


def test_names_of_pytorchs_own_handler():
    names = ["host_7.1700000000001.pt.trace.json", "host_7.1700000000002.pt.trace.json"]
    others = ["host_8.1700000000001.pt.trace.json", "notes.json"]
    found, _ = one_repeat([Path(name) for name in names + others])
    assert [path.name for path in found] == [names[1], *others]
    assert one_repeat([Path(name) for name in others]) == ([Path(name) for name in others], [])


def test_the_log_of_a_capture_is_found_in_it(tmp_path):
    inside = tmp_path / "compile"
    inside.mkdir()
    source = Path(__file__).parents[1] / "data" / "compile"
    log = next(path for path in sorted(source.iterdir()) if path.name.endswith((".log", ".log.gz")))
    (inside / log.name).write_bytes(log.read_bytes())
    assert read_logs(tmp_path) == read_logs(inside)
