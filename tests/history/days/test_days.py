"""Stores of step times with known changes, slow ranks, restarts."""

import json

import pandas as pd
import pytest

from tests.history.days.logs import STEP_MS, write_logs
from traceanalyzer.base.errors import TraceAnalyzerError, UnreadableInputError
from traceanalyzer.base.limits import raised
from traceanalyzer.history.days.document import days_page, page, recognise


def answer(tmp_path, steps=1_500, run=None, **known):
    logs = write_logs(tmp_path / "logs", steps, **known)
    return json.loads(days_page(tmp_path / "store", logs, run).json())


def test_nothing_happens(tmp_path):
    found = answer(tmp_path)
    assert found["summary"]["headline"] == "No change: 1,500 steps of 500 ms. Goodput 100%."
    assert found["ranks"]["read"] == 4
    assert (found["culprits"], found["stops"], found["drift"], found["notes"]) == ([], [], None, [])
    assert recognise(tmp_path / "store")
    assert not recognise(tmp_path / "logs")
    assert json.loads(page([tmp_path / "store"]).json()) == found


def test_longer_since(tmp_path):
    found = answer(tmp_path, longer={900: 1.1}, data=False)
    before, after = found["levels"]
    assert after["first_step"] == pytest.approx(900, abs=3)
    assert (before["step_ms"], after["step_ms"]) == pytest.approx(
        (STEP_MS, STEP_MS * 1.1), rel=0.01
    )
    assert after["change_share"] == pytest.approx(0.1, abs=0.01)
    assert after["since"] == "2025-10-09 09:00:50"  # 900 steps of half a second after 08:53:20
    assert "Steps take 10% longer since step 9" in found["summary"]["headline"]
    assert found["culprits"] == []
    assert "not who" in found["notes"][0]


def test_who_waits_for_data(tmp_path):
    found = answer(tmp_path, 2_400, slow=(2, 1_000, 40.0))
    (slow,) = found["slow_ranks"]
    assert (slow["rank"], slow["of"]) == (2, "data_ms")
    assert slow["since_step"] == pytest.approx(1_000, abs=120)
    assert slow["excess_ms"] == pytest.approx(40, rel=0.05)
    assert slow["minutes"] == pytest.approx(1_400 * 0.54 / 60, rel=0.15)
    assert [(one["rank"], one["cause"]) for one in found["culprits"]] == [(2, "input")]


def test_a_store_that_multiplies_is_refused_before_it_is_read(tmp_path):
    into = tmp_path / "run=x" / "day=unknown"
    into.mkdir(parents=True)
    equal = dict.fromkeys(("rank", "step", "step_ms"), [1] * 100_000)
    pd.DataFrame(equal).to_parquet(into / "many.parquet", index=False)
    with raised(size=1_000_000), pytest.raises(UnreadableInputError, match="100,000 steps in"):
        days_page(tmp_path, [], None)


def test_a_hiccup_is_no_slow_rank(tmp_path):
    assert answer(tmp_path, 1_000, slow=(2, 800, 40.0))["slow_ranks"] == []


def test_restarts(tmp_path):
    found = answer(tmp_path, 1_000, back={400: (50, 600.0), 800: (0, 300.0)})
    restart, pause = found["stops"]
    assert (restart["kind"], restart["last_step"], restart["next_step"]) == ("restart", 399, 350)
    assert restart["repeated_steps"] == 50
    assert restart["stopped_s"] == pytest.approx(600, abs=1)
    assert (pause["kind"], pause["repeated_steps"]) == ("pause", 0)
    goodput = found["goodput"]
    assert goodput["repeated_s"] == pytest.approx(25, rel=0.01)
    assert goodput["useful_s"] == pytest.approx(500, rel=0.01)
    assert goodput["wall_s"] == pytest.approx(500 + 25 + 900, rel=0.01)
    assert goodput["share"] == pytest.approx(500 / 1425, rel=0.01)


def test_without_a_clock(tmp_path):
    found = answer(tmp_path, 600, back={400: (50, 600.0)}, clock=False)
    assert found["goodput"] is None
    assert [(one["kind"], one["stopped_s"], one["repeated_steps"]) for one in found["stops"]] == [
        ("restart", None, 50)
    ]
    assert "The logs have no times" in found["notes"][-1]


def test_logs_grow_and_runs_stay_apart(tmp_path):
    logs = write_logs(tmp_path / "logs", 400)
    store = tmp_path / "store"
    whole = [log.read_text() for log in logs]
    for log, text in zip(logs, whole, strict=True):
        log.write_text("".join(text.splitlines(keepends=True)[:300]))
    days_page(store, logs, "a")
    for log, text in zip(logs, whole, strict=True):
        log.write_text(text)
    assert json.loads(days_page(store, logs, "a").json())["steps"] == 400
    days_page(store, logs[:2], "b")
    assert json.loads(days_page(store, (), "a").json())["ranks"]["read"] == 4
    assert json.loads(days_page(store, (), None).json())["run"] == "b"


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns", "timestamp"])
def test_any_parquet_of_these_columns(tmp_path, unit):
    per_s = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}.get(unit, 1)
    steps = range(300)
    t = pd.Series([1.76e9 + 0.5 * i for i in steps])
    frame = pd.DataFrame({"rank": 0, "step": steps, "step_ms": 500.0, "compute_ms": 400.0})
    frame["t"] = (
        pd.to_datetime(t, unit="s")
        if unit == "timestamp"
        else (t * per_s).astype("int64" if per_s > 1 else float)
    )
    folder = tmp_path / "run=7" / "day=2025-10-09"
    folder.mkdir(parents=True)
    frame.to_parquet(folder / "part.parquet")
    found = json.loads(page([tmp_path]).json())
    assert found["run"] == "7"
    assert found["levels"][0]["since"] == "2025-10-09 08:53:21"
    assert found["goodput"]["wall_s"] == pytest.approx(150)


def test_what_cannot_be_answered(tmp_path):
    with pytest.raises(UnreadableInputError, match="no run a"):
        days_page(tmp_path, (), "a")
    with pytest.raises(TraceAnalyzerError, match="letters, digits"):
        days_page(tmp_path, write_logs(tmp_path / "logs", 5), "../a")
    folder = tmp_path / "run=1" / "day=x"
    folder.mkdir(parents=True)
    (folder / "part.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(UnreadableInputError, match=r"part\.parquet"):
        days_page(tmp_path, (), "1")
    pd.DataFrame({"rank": [1]}).to_parquet(folder / "part.parquet")
    with pytest.raises(UnreadableInputError, match="no column step, step_ms"):
        days_page(tmp_path, (), "1")
    pd.DataFrame({"rank": [1], "step": [1], "step_ms": [float("nan")]}).to_parquet(
        folder / "part.parquet"
    )
    with pytest.raises(UnreadableInputError, match="no steps with a time"):
        days_page(tmp_path, (), "1")
