"""Slowdowns: of a published log with its published answers, and of pipelines run again without what
is slow."""

import json
from contextlib import suppress
from hashlib import sha512
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.analysis.ranks.pipeline.schedule import Run, frame, run, write
from tests.recorded import ROOT
from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.fleet.pipeline.document import page, recognise

DATA = ROOT / "tests" / "data" / "stragglers"
"""A job whose last stage is too heavy, with its answers: Apache-2.0,
ByteDance-Seed/StragglerAnalysis."""


def answer(path):
    return json.loads(page([path]).json())


def test_which_files_are_such_logs(tmp_path):
    frame(run(2, 2, 4, alike)).drop(columns="mc").to_parquet(tmp_path / "other.parquet")
    assert recognise(DATA / "ST.parquet")
    assert not any(
        map(recognise, (tmp_path / "other.parquet", DATA / "ST.json", tmp_path, tmp_path / "none"))
    )


def test_published_answers():
    published = json.loads((DATA / "ST.json").read_text())
    found = answer(DATA / "ST.parquet")
    slow = found["slowdown"]
    for name in ("s", "m_w", "m_s", "s_t", "s_dp", "s_stage"):
        assert slow[name] == pytest.approx(published[name], rel=1e-5), name
    assert {str(step["step"]): step["s"] for step in found["steps"]} == pytest.approx(
        published["steps"], rel=1e-5
    )
    assert (slow["s_worst_ranks"], slow["s_worst_stage"]) == ([7], 3)
    assert "last stage is too heavy" in found["summary"]["headline"]
    assert found["culprits"] == []
    assert found["pipeline"] == {"dp": 2, "pp": 4, "vpp": 1, "steps": 32}


def test_what_people_read():
    printed = page([DATA / "ST.parquet"])
    screen = printed.terminal(100)
    assert screen.startswith("1.18x slower than with operations of a type alike.")
    assert "122%" not in screen, "a share of the slowdown is no more than all of it"
    whole = printed.in_full().terminal(100)
    assert "of it: last stage (M_S)  all of it" in whole
    assert "First 5 of" not in whole


def test_four_parts_in_order():
    headings = [
        line[3:]
        for line in page([DATA / "ST.parquet"]).markdown().splitlines()
        if line.startswith("## ")
    ]
    assert headings == ["Summary", "Metrics", "Findings", "Recommendations"]


def test_a_page_has_the_evidence():
    assert (
        "share of the slowdown: 100% (threshold 50.0%), the last stage"
        in page([DATA / "ST.parquet"]).html()
    )


def test_findings_and_advice_as_of_other_reports():
    found = answer(DATA / "ST.parquet")
    (finding,) = found["findings"]
    (advice,) = found["recommendations"]
    assert (finding["id"], advice["id"]) == ("heavy-stage", "heavy-stage")
    now_ms = found["summary"]["step_ms"]
    assert advice["predicted_step_ms"] == pytest.approx(now_ms - finding["headroom_ms"])
    assert advice["low_ms"] < advice["predicted_step_ms"] < advice["high_ms"] < now_ms


def alike(kind, dp, stage, chunk, m):
    return {"forward-compute": 1.0, "backward-compute": 2.0}[kind]


@pytest.mark.parametrize(("stages", "chunks"), [(1, 1), (2, 1), (4, 1), (2, 2), (4, 2), (2, 3)])
def test_alike(tmp_path, stages, chunks):
    one = run(stages, 2, 8, alike, chunks)
    found = answer(write(tmp_path / "log.parquet", one, one))
    assert found["slowdown"]["s"] == pytest.approx(1)
    assert found["slowdown"]["simulated_ms"] == pytest.approx(found["slowdown"]["recorded_ms"])
    assert found["slowdown"]["recorded_ms"] == pytest.approx(one.end * 1e3)
    of_step = {
        "recorded_ms": pytest.approx(one.end * 1e3),
        "simulated_ms": pytest.approx(one.end * 1e3),
    }
    assert found["steps"] == [{"step": i, **of_step, "s": pytest.approx(1)} for i in range(2)]
    assert found["summary"]["headline"].startswith("No straggler")
    assert found["pipeline"]["vpp"] == chunks


@pytest.mark.parametrize(("stages", "chunks"), [(1, 1), (4, 1), (2, 2), (4, 2)])
def test_a_slow_worker(tmp_path, stages, chunks):
    def slow(kind, dp, stage, chunk, m):
        return alike(kind, dp, stage, chunk, m) * (1.6 if (dp, stage) == (2, stages - 1) else 1.0)

    mean = 1 + 0.6 / (3 * stages)
    as_it_ran = run(stages, 3, 8, slow, chunks)
    ideal = run(stages, 3, 8, lambda *of: alike(*of) * mean, chunks)
    found = answer(write(tmp_path / "log.parquet", as_it_ran))
    slow_ms = found["slowdown"]
    assert slow_ms["simulated_ms"] == pytest.approx(as_it_ran.end * 1e3)
    assert slow_ms["s"] == pytest.approx(as_it_ran.end / ideal.end)
    rank = 2 + 3 * (stages - 1)
    assert slow_ms["s_worst_ranks"] == [rank]
    assert max(slow_ms["s_w"], key=slow_ms["s_w"].get) == str(rank)
    assert [one["rank"] for one in found["culprits"]] == [rank]
    assert found["culprits"][0]["gain_ms"] == pytest.approx(
        slow_ms["simulated_ms"] * (1 - 1 / slow_ms["s"]), rel=0.3
    )


def test_sequences_of_different_length(tmp_path):
    def varying(kind, dp, stage, chunk, m):
        return alike(kind, dp, stage, chunk, m) * (1 + 0.1 * ((7 * m + 3 * dp) % 5))

    found = answer(write(tmp_path / "log.parquet", run(4, 3, 8, varying)))
    assert found["slowdown"]["forward_backward_correlation"] == pytest.approx(1)
    assert "Microbatches are of unequal work" in found["summary"]["headline"]


def test_even_microbatches_gain_what_a_run_of_them_does(tmp_path):
    def varying(kind, dp, stage, chunk, m):
        return alike(kind, dp, stage, chunk, m) * (1 + 0.1 * m)

    even = run(4, 1, 8, lambda *of: alike(*of) * (1 + 0.1 * 3.5))
    as_it_ran = run(4, 1, 8, varying)
    found = answer(write(tmp_path / "log.parquet", as_it_ran))
    gain_ms = found["slowdown"]["even_microbatches_ms"][0]
    assert gain_ms == pytest.approx((as_it_ran.end - even.end) * 1e3, abs=1)


def test_layers_that_are_moved_are_work_of_other_stages(tmp_path):
    def heavy(kind, dp, stage, chunk, m):
        return alike(kind, dp, stage, chunk, m) * (1.4 if stage == 3 else 1.0)

    even = run(4, 2, 8, lambda *of: alike(*of) * 1.1)
    as_it_ran = run(4, 2, 8, heavy)
    found = answer(write(tmp_path / "log.parquet", as_it_ran))
    (finding,) = found["findings"]
    assert finding["id"] == "heavy-stage"
    assert finding["headroom_ms"] == pytest.approx((as_it_ran.end - even.end) * 1e3, abs=1)


def test_a_slow_rank_of_the_last_stage_is_no_heavy_stage(tmp_path):
    def slow(kind, dp, stage, chunk, m):
        return alike(kind, dp, stage, chunk, m) * (1.6 if (dp, stage) == (2, 3) else 1.0)

    found = answer(write(tmp_path / "log.parquet", run(4, 3, 8, slow)))
    assert [one["id"] for one in found["findings"]] == ["straggler"]
    assert found["recommendations"][0]["remedy"] == "fix_straggler"


def test_the_only_rank_of_a_stage_is_that_stage(tmp_path):
    def heavy(kind, dp, stage, chunk, m):
        return alike(kind, dp, stage, chunk, m) * (1.6 if stage == 1 else 1.0)

    found = answer(write(tmp_path / "log.parquet", run(4, 1, 8, heavy)))
    assert "Stage 1 is too heavy" in found["summary"]["headline"]
    assert found["culprits"] == []


def parquet(path: Path, table: object) -> Path:
    pq.write_table(pa.Table.from_pandas(table), path)
    return path


@pytest.mark.parametrize(
    "spoil",
    [lambda log: log[log.stage == 0], lambda log: log.assign(seq_id=0)],
    ids=["no other stage", "moving layers gains nothing"],
)
def test_no_stage_is_heavy_where_nothing_is_gained(tmp_path, spoil):
    log = pd.read_parquet(DATA / "ST.parquet")
    found = answer(parquet(tmp_path / "log.parquet", spoil(log)))
    assert [one["id"] for one in found["findings"]] == ["slow-operations"]
    assert found["recommendations"] == []


def test_operations_that_overlap_gain_no_more_than_the_step(tmp_path):
    log = pd.read_parquet(DATA / "ST.parquet")
    log.loc[log["rank"] == 7, "duration"] *= 50
    found = answer(parquet(tmp_path / "log.parquet", log))
    step_ms = found["slowdown"]["recorded_ms"]
    assert found["slowdown"]["simulated_ms"] > 2 * step_ms
    assert 0 < found["culprits"][0]["gain_ms"] < step_ms
    assert 0 < found["recommendations"][0]["predicted_step_ms"] < step_ms
    assert "gains are uncertain" in found["notes"][-1]


def test_damage_is_counted(tmp_path):
    one: Run = run(2, 2, 4, alike)
    log = frame(one, one, one)
    log["optype"] = log["optype"].astype(str)
    twice = log[(log.step == 0)].iloc[:2]
    broken = log.drop(log[(log.step == 1) & (log.optype == "optimizer")].index[:1])
    odd = log.iloc[:1].assign(optype="unheard-of")
    found = answer(parquet(tmp_path / "log.parquet", pd.concat([broken, twice, odd])))
    assert found["slowdown"]["s"] == pytest.approx(1)
    assert found["pipeline"]["steps"] == 2
    assert [note.split()[0] for note in found["notes"]] == ["1", "2", "1"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda log: log.drop(columns="gmc"), "it lacks gmc"),
        (lambda log: log.iloc[:0], "no operations in common"),
        (lambda log: log[log.optype != "forward-recv"], "forward-send, stage 1 0 forward-recv"),
        (
            lambda log: log[~((log.optype == "forward-recv") & (log.seq_id > 1))],
            "has 2 forward-recv for 4",
        ),
        (
            lambda log: log[~((log["rank"] == 3) & (log.optype == "optimizer"))],
            "data-parallel rank 1 lacks optimizer 0",
        ),
        (lambda log: log.assign(rank="none"), "damaged"),
    ],
)
def test_what_is_no_such_log(tmp_path, spoil, words):
    log = frame(run(2, 2, 4, alike))
    with pytest.raises(UnreadableInputError, match=words):
        page([parquet(tmp_path / "log.parquet", spoil(log))])


@pytest.mark.parametrize("cut", [True, False])
def test_damaged_bytes(tmp_path, cut):
    whole = (DATA / "ST.parquet").read_bytes()
    path = tmp_path / "log.parquet"
    for place in range(4, len(whole), len(whole) // 13):
        path.write_bytes(
            whole[:place]
            if cut
            else whole[:place] + sha512(bytes(place % 256)).digest() + whole[place + 64 :]
        )
        with suppress(UnreadableInputError):
            page([path])


def test_a_text_that_is_not_utf8(tmp_path):
    log = pa.Table.from_pandas(frame(run(2, 2, 4, alike)), preserve_index=False)
    at = log.schema.get_field_index("optype")
    broken = pa.array([b"backward-sen\xc0"] * len(log), pa.binary())
    # a view of the same bytes, which nothing has checked
    unchecked = pa.Array.from_buffers(pa.string(), len(log), broken.buffers())
    pq.write_table(log.set_column(at, "optype", unchecked), tmp_path / "log.parquet")
    with pytest.raises(UnreadableInputError, match="damaged"):
        page([tmp_path / "log.parquet"])
