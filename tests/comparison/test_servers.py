"""Two servers under load compared: by summaries, by logs, and as limits."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import traceanalyzer as ta
from tests import serving_texts as texts
from traceanalyzer.cli import cli

if TYPE_CHECKING:
    from pathlib import Path


def compared(tmp_path: Path, a: str, b: str) -> dict[str, Any]:
    paths = []
    for name, text in (("a.txt", a), ("b.txt", b)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        paths.append(tmp_path / name)
    found = ta.compare(paths[0], paths[1])
    values: dict[str, Any] = found.values  # type: ignore[union-attr]
    return values


def test_a_faster_server_under_the_same_load(tmp_path: Path) -> None:
    found = compared(tmp_path, texts.vllm_summary(), texts.vllm_summary(ttft=120.5, itl=16.9))
    assert found["verdict"] == "likely_faster"
    assert "TTFT median 150 → 120 ms (-19.9%)" in found["headline"]
    assert not found["conditions"]
    rows = {row.figure: row for row in found["figures"]}
    assert (rows["itl_ms.median"].a, rows["itl_ms.median"].b) == ("19.9 ms", "16.9 ms")
    assert rows["itl_ms.median"].change == "-15.1%"


@pytest.mark.parametrize(
    ("ttft", "itl", "verdict"),
    [
        (149.0, 20.0, "no_change"),
        (200.0, 19.9, "likely_slower"),
        (100.0, 30.0, "not_comparable"),
    ],
)
def test_verdicts_under_the_same_load(
    tmp_path: Path, ttft: float, itl: float, verdict: str
) -> None:
    found = compared(tmp_path, texts.vllm_summary(), texts.vllm_summary(ttft=ttft, itl=itl))
    assert found["verdict"] == verdict


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"rate": 16.0}, "requests sent a second"),
        ({"rate": "Infinity"}, "all requests sent at once"),
        ({"most": 32}, "limit of requests at a time"),
        ({"tokens": 102400}, "generated tokens of a request"),
    ],
)
def test_other_loads_are_not_like_for_like(
    tmp_path: Path, changed: dict[str, Any], name: str
) -> None:
    found = compared(tmp_path, texts.vllm_summary(), texts.vllm_summary(**changed, itl=9.0))
    assert found["verdict"] == "not_comparable"
    assert name in [condition.name for condition in found["conditions"]]
    assert found["headline"].startswith("Not like for like")


def test_a_summary_is_no_log(tmp_path: Path) -> None:
    found = compared(tmp_path, texts.SGLANG_SUMMARY, texts.sglang_log(12, 144, 0.96))
    assert [condition.name for condition in found["conditions"]] == ["source"]


def test_logs_compare_where_both_are_at_their_limit(tmp_path: Path) -> None:
    slow, fast = (texts.vllm_log(12, 140, 98.9, rate) for rate in (504.3, 906.0))
    found = compared(tmp_path, slow, fast)
    assert found["verdict"] == "likely_faster"
    assert "output tokens/s 504 → 906 (+79.7%)" in found["headline"]
    idle = texts.vllm_log(12, 0, 40.0, 906.0)
    found = compared(tmp_path, slow, idle)
    assert found["verdict"] == "not_comparable"
    assert "Only A is at its limit (140 requests wait while 12 run" in found["headline"]
    assert "the rate of B is what was asked of it" in found["headline"]
    found = compared(tmp_path, idle, texts.vllm_log(64, 114, 34.0))
    assert "Only B is at its limit (114 requests wait while 64 run" in found["headline"]
    found = compared(tmp_path, idle, texts.vllm_log(18, 0, 40.0))
    assert "Neither is at its limit, so that rates say what was asked" in found["headline"]


def test_what_is_wrong_with_a_side_comes_first(tmp_path: Path) -> None:
    well = texts.vllm_log(12, 0, 40.0)
    found = compared(tmp_path, well, texts.vllm_log(12, 0, 40.0, 0.0).replace("812.0", "0.0"))
    assert found["headline"].startswith("B: Stalled: in the last 3 lines")
    died = texts.VLLM_DIED.format(n=9)
    headline = compared(tmp_path, well, well + died)["headline"]
    assert headline.startswith("B: The log ends with an error")
    assert "at its limit" not in headline
    found = compared(tmp_path, texts.vllm_bench(1000, 0), texts.vllm_bench(12, 988))
    assert found["headline"].startswith("B: 988 of 1,000 requests failed")
    assert found["verdict"] == "not_comparable"
    found = compared(tmp_path, texts.vllm_bench(0, 1000), texts.vllm_bench(1000, 1))
    assert found["headline"].startswith("A: All 1,000 requests failed. B: 1 of 1,001 requests")


def test_limits_on_latencies_and_against_a_baseline(tmp_path: Path) -> None:
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    a.write_text(texts.vllm_summary(), encoding="utf-8")
    b.write_text(texts.vllm_summary(ttft=170.0), encoding="utf-8")
    for arguments, status in (
        (["--max", "serving.ttft_ms=200"], 0),
        (["--max", "serving.ttft_ms=100"], 3),
        (["--max", "serving.ttft_ms.p99=500", "--min", "serving.output_tokens_per_s=900"], 0),
        (["--baseline", str(a), "--max", "serving.ttft_ms=+5%"], 3),
        (["--baseline", str(a), "--max", "serving.ttft_ms=+20%"], 0),
        (["--max", "serving.latency_ms=100"], 3),  # not in the summary
    ):
        result = CliRunner().invoke(cli, ["check", str(b), *arguments])
        assert result.exit_code == status, result.output


def test_figures_are_exported_and_listed(tmp_path: Path) -> None:
    path = tmp_path / "summary.txt"
    path.write_text(texts.SGLANG_SUMMARY, encoding="utf-8")
    database = tmp_path / "figures.sqlite"
    assert CliRunner().invoke(cli, ["export", str(path), "-o", str(database)]).exit_code == 0
    with sqlite3.connect(database) as connection:
        rows = dict(connection.execute("SELECT figure, value FROM serving"))
        units = dict(connection.execute("SELECT figure, unit FROM serving"))
    assert rows["ttft_ms.median"] == 15098.0
    assert (units["ttft_ms.median"], units["ttft_share"]) == ("ms", "share")
    result = CliRunner().invoke(cli, ["show", "serving", str(path), "--format", "csv"])
    assert "concurrency,201.33," in result.output


def test_a_sweep_is_a_table_with_a_row_a_run(tmp_path: Path) -> None:
    names = []
    for most, ttft in ((8, 100.0), (16, 120.0), (32, 310.0)):
        path = tmp_path / f"{most}.json"
        path.write_text(texts.vllm_summary(most=most, ttft=ttft), encoding="utf-8")
        names.append(str(path))
    result = CliRunner().invoke(cli, ["compare", *names, "--format", "json"])
    runs = json.loads(result.output)["runs"]
    assert [(run["run"], run["ttft_ms"]) for run in runs] == [
        ("8.json", 100.0),
        ("16.json", 120.0),
        ("32.json", 310.0),
    ]
    assert [run["verdict"] for run in runs] == ["the first", "Cannot tell", "Cannot tell"]
