"""Tables alone: what people see in them, and what programs get."""

import csv
import io
import json
from dataclasses import dataclass

import pytest

from tests.report.reports import EPOCH_NS, HOSTILE, full, kernel, tables
from traceanalyzer.analysis.gap_rows import GapRow
from traceanalyzer.analysis.kernels import KernelStats
from traceanalyzer.analysis.metric import metric
from traceanalyzer.analysis.replay.whatif import Prediction
from traceanalyzer.report.grid import make_grid
from traceanalyzer.report.rows import (
    rows_as_csv,
    rows_as_json,
    rows_as_markdown,
    rows_as_terminal,
    scenarios_as_terminal,
)


@dataclass(frozen=True)
class Row:
    rank: int | None = metric("rank of the process")
    name: str = metric("name")
    start_ns: int = metric("start on the recording's clock", "ns")
    total_ms: float | None = metric("total time", "ms")
    host_ms: float = metric("host time", "ms")
    hidden_share: float = metric("hidden part", "share")
    python: str | None = metric("Python frame")


ROWS = [
    Row(2, "first", EPOCH_NS + 1_500_000, 0.25, 0.0005, 0.5, None),
    Row(2, "second", EPOCH_NS, None, 0.125, 0.25, None),
]


def column(grid, name):
    return next(c for c in grid.columns if c.name == name)


def test_columns_of_one_unit_share_a_scale_and_say_it_in_the_header():
    grid = make_grid(ROWS)
    assert column(grid, "total_ms").header == "total (us)"
    assert column(grid, "total_ms").cells == ["250", "-"]
    assert column(grid, "host_ms").cells == ["0.500", "125"]
    assert column(grid, "hidden_share").header == "hidden (%)"
    assert column(grid, "hidden_share").cells == ["50.0", "25.0"]


def test_a_unit_that_fits_is_kept_as_recorded():
    assert column(make_grid([kernel("k", 3.08), kernel("l", 0.02)]), "total_ms").header == "total (ms)"


def test_moments_count_from_the_first_one_and_keep_microseconds():
    grid = make_grid(ROWS)
    assert column(grid, "start_ns").cells == ["1.500", "0.000"]
    assert f"Moments count from {EPOCH_NS} ns on the recording's clock." in grid.remarks


def test_what_is_equal_or_missing_in_every_row_takes_no_column():
    grid = make_grid(ROWS)
    assert not {"rank", "python"} & {c.name for c in grid.columns}
    assert "In every row: rank 2." in grid.remarks
    assert "Empty in every row: python." in grid.remarks


def test_a_head_keeps_what_was_said_of_every_row():
    rows = [*ROWS, Row(3, "third", EPOCH_NS, 1.0, 1.0, 0.0, None)]
    assert column(make_grid(rows).head(2), "rank").cells == ["2", "2"]


def test_json_has_every_field_under_the_name_of_the_table():
    decoded = json.loads(rows_as_json("gaps", tables()["gaps"][:1]))
    assert list(decoded) == ["gaps"]
    assert decoded["gaps"] == [
        {
            "rank": 0,
            "device": 0,
            "start_ns": EPOCH_NS + 1_234_567,
            "duration_ns": 182_411,
            "step": 3,
            "cause": "sync",
            "detail": "cudaStreamSynchronize in aten::item; ended by add",
        }
    ]
    assert json.loads(rows_as_json("gaps", [])) == {"gaps": []}


def test_json_rounds_figures_and_has_null_for_what_is_no_number():
    decoded = json.loads(rows_as_json("kernels", [kernel("k", 1 / 3), kernel("\ud800", float("nan"))]))["kernels"]
    assert decoded[0]["total_ms"] == 0.333333
    assert decoded[0]["class"] == "gemm"
    assert decoded[1]["total_ms"] is None
    assert decoded[1]["name"] == "?"


def test_csv_holds_names_as_they_are_save_formulas_and_empty_cells_for_missing_values():
    text = rows_as_csv([kernel(name, float("inf")) for name in HOSTILE], KernelStats)
    read = list(csv.DictReader(io.StringIO(text)))
    plain = [name.replace("\ud800", "?").replace("\r", "\n") for name in HOSTILE]
    expected = [f"'{name}" if name.startswith(("@", "=")) else name for name in plain]
    assert [row["name"] for row in read] == expected
    assert {row["total_ms"] for row in read} == {""}
    assert rows_as_csv([], GapRow) == "rank,device,start_ns,duration_ns,step,cause,detail\n"


@pytest.mark.parametrize("name", ["=HYPERLINK(1)", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", " =cmd|'/C calc'!A0"])
def test_csv_cells_never_begin_a_formula_and_numbers_stay_numbers(name):
    text = rows_as_csv([kernel(name, -1.5)], KernelStats)
    row = next(csv.DictReader(io.StringIO(text)))
    assert row["name"] == "'" + name.replace("\r", "\n")
    assert float(row["total_ms"]) == -1.5


@pytest.mark.parametrize("draw", [rows_as_markdown, lambda rows: rows_as_terminal(rows, 80, False)])
def test_definitions_stand_below_a_table(draw):
    text = draw(tables()["kernels"])
    assert "operator that launches most of them" in text
    assert draw([]) == "No rows: the recording holds none.\n"


@pytest.mark.parametrize("name", [name for name, rows in tables().items() if rows])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(name, width):
    text = rows_as_terminal(full().tables[name], width, False)
    assert max(map(len, text.splitlines())) <= width


def test_a_narrow_terminal_keeps_figures_and_says_what_it_left_out():
    text = rows_as_terminal(tables()["kernels"], 60, False)
    assert "(ms)" in text
    assert "No room for: " in text


def scenario(name: str, step: float | None, spread: float = 0.0) -> Prediction:
    if step is None:
        return Prediction(name, None, None, None, None, f"why not {name}")
    return Prediction(name, step, step - spread, step + spread, 2 / step, f"what {name} assumes")


def test_scenarios_say_in_full_what_they_assume():
    text = scenarios_as_terminal(
        [scenario("a+b", 1.0), scenario("a", 1.5), scenario("b", 1.8), scenario("c", None)], 80, False
    )
    assert "what a assumes" in text
    assert "what a+b assumes" not in text
    assert text.index("Not predicted") < text.index("why not c")
    assert "low" not in text


def test_scenarios_with_a_range_show_it():
    assert "high" in scenarios_as_terminal([scenario("a", 1.0, 0.2)], 80, False)
