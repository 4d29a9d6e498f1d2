from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import traceanalyzer as ta
from tests.recorded import recording
from traceanalyzer.base.errors import EmptyRecordingError
from traceanalyzer.diagnosis.part_of_run import Selection
from traceanalyzer.report.table_entries import BY_NAME
from traceanalyzer.report.table_entries.kinds import RowFilter
from traceanalyzer.report.tables import table

SAMPLE = Path(__file__).resolve().parents[1] / "tests" / "data" / "gpu" / "sync_bound.json.gz"


@pytest.fixture(scope="module")
def run():
    return ta.load(SAMPLE)


@pytest.mark.parametrize("name", list(BY_NAME))
def test_every_table_is_a_frame(run, name: str) -> None:
    frame = ta.frame(run, name)
    assert list(frame.columns)
    assert len(frame) == len(table(run, name))


def test_gaps_come_in_time_order_and_can_be_narrowed(run) -> None:
    everything = table(run, "gaps")
    assert [g.start_ns for g in everything] == sorted(g.start_ns for g in everything)
    long = table(run, "gaps", wanted=RowFilter(min_us=100))
    assert {g.duration_ns for g in long} == {
        g.duration_ns for g in everything if g.duration_ns >= 100_000
    }
    top = table(run, "gaps", wanted=RowFilter(3))
    assert [g.start_ns for g in top] == sorted(g.start_ns for g in top)
    assert sorted(g.duration_ns for g in top) == sorted(g.duration_ns for g in everything)[-3:]


def test_gaps_fill_the_span_that_device_ops_leave(run) -> None:
    ops = run.traces[0].device_ops
    idle = sum(g.duration_ns for g in table(run, "gaps"))
    (device,) = ta.analyze(run).devices
    assert idle == pytest.approx(device.idle_ms * 1e6, abs=1)
    assert min(g.start_ns for g in table(run, "gaps")) > ops.start[0]


def test_one_step_alone(run) -> None:
    (row,) = table(run, "steps", Selection(step=2))
    assert row == table(run, "steps")[2]
    per_step = {k.full_name: k.calls for k in table(run, "kernels", Selection(step=2))}
    assert per_step == {k.full_name: k.calls for k in table(run, "kernels")}
    assert {g.step for g in table(run, "gaps", Selection(step=2))} <= {1, 2, 3, None}


def test_what_is_not_there_is_said_in_one_line(run) -> None:
    with pytest.raises(EmptyRecordingError, match="no step 12; the recording has steps 0 to 3"):
        table(run, "kernels", Selection(step=12))
    with pytest.raises(EmptyRecordingError, match="device 5 did nothing"):
        table(run, "kernels", Selection(device=5))
    with pytest.raises(EmptyRecordingError, match="no recording of rank 3"):
        table(run, "kernels", Selection(rank=3))


def test_paths_one_by_one_and_as_glob_gives_them():
    ranks = sorted((SAMPLE.parents[3] / "sample_traces" / "straggler").glob("trace.*"))
    assert (
        [t.rank for t in ta.load(*ranks).traces]
        == [t.rank for t in ta.load(ranks).traces]
        == [0, 1]
    )


@pytest.mark.parametrize("name", ["kineto/vit_small_batch.base", "kineto/gpt_large_batch.base"])
def test_operators_by_shape_add_up_to_operators(name: str) -> None:
    run = ta.load(str(recording(name)))
    by_name = table(run, "ops")
    by_shape = table(run, "ops", wanted=RowFilter(by_shape=True))
    assert len(by_shape) > len(by_name)
    assert len({(row.name, row.kind, row.shapes) for row in by_shape}) == len(by_shape)
    for figure in ("device_self_ms", "host_self_ms", "calls"):
        whole = Counter[str]()
        parts = Counter[str]()
        for row in by_name:
            whole[row.name] += getattr(row, figure)
        for row in by_shape:
            parts[row.name] += getattr(row, figure)
        assert parts == pytest.approx(whole)


def test_collectives_that_ranks_share_have_their_waiting() -> None:
    ranks = ta.load(SAMPLE.parents[3] / "sample_traces" / "straggler")
    rows = table(ranks, "skew")
    assert rows
    assert max(row.skew_ms for row in rows) > 0
    assert table(ta.load(SAMPLE), "skew") == []
