"""Tables alone: what people see in them, and what programs get."""

import csv
import io
import json
from dataclasses import dataclass, replace

import pytest

from tests.report.reports import EPOCH_NS, HOSTILE, full, kernel, tables
from traceanalyzer.analysis.tables.gap_rows import GapRow
from traceanalyzer.analysis.tables.kernels import KernelStats
from traceanalyzer.base.figures import metric
from traceanalyzer.replay.prediction import Prediction, WhatIf
from traceanalyzer.report.format import plain
from traceanalyzer.report.grid import make_grid
from traceanalyzer.report.printed import PrintedRows
from traceanalyzer.report.scenarios import ScenariosPage


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


def test_what_only_trainings_have_is_no_column_of_a_server() -> None:
    from traceanalyzer.analysis.tables.modules import ModuleTimes

    def module(backward_ms: float) -> ModuleTimes:
        times = dict.fromkeys(("calls", "host_ms", "device_ms", "forward_ms", "self_ms"), 1.0)
        return ModuleTimes(
            rank=None,
            name="Model",
            depth=0,
            within=None,
            modules=1,
            share_of_step=None,
            share_of_device=1.0,
            python=None,
            backward_ms=backward_ms,
            **times,
        )

    trained = make_grid([module(0.0), module(2.0)])
    assert column(trained, "backward_ms").cells == ["0", "2.00"]
    served = make_grid([module(0.0), module(0.0)])
    assert "backward_ms" not in [shown.name for shown in served.columns]


def test_a_recording_of_the_cpu_alone_has_no_columns_of_a_gpu() -> None:
    from traceanalyzer.analysis.tables.modules import ModuleTimes

    def module(name: str, device_ms: float, host_ms: float) -> ModuleTimes:
        on_device = ("device_ms", "forward_ms", "self_ms", "share_of_step", "share_of_device")
        times = dict.fromkeys(on_device, device_ms)
        plain = {"rank": None, "within": None, "python": None, "backward_ms": 0.0}
        return ModuleTimes(
            name=name, depth=0, modules=1, calls=1.0, host_ms=host_ms, **plain, **times
        )

    alone = make_grid([module("Model", 0.0, 1.0), module("Layer", 0.0, 2.0)])
    assert [shown.name for shown in alone.columns] == ["name", "calls", "host_ms"]
    assert not [label for label, _ in alone.constant if "device" in label]
    some = make_grid([module("Model", 0.5, 1.0), module("Layer", 0.0, 2.0)])
    assert column(some, "share_of_device").cells == ["50.0", "0"]


def test_columns_of_one_unit_share_a_scale_and_say_it_in_the_header():
    grid = make_grid(ROWS)
    assert column(grid, "total_ms").header == "total (us)"
    assert column(grid, "total_ms").cells == ["250", "-"]
    assert column(grid, "host_ms").cells == ["0.500", "125"]
    assert column(grid, "hidden_share").header == "hidden (%)"
    assert column(grid, "hidden_share").cells == ["50.0", "25.0"]


def test_a_unit_that_fits_is_kept_as_recorded():
    assert (
        column(make_grid([kernel("k", 3.08), kernel("l", 0.02)]), "total_ms").header == "total (ms)"
    )


def test_moments_count_from_the_first_one_and_keep_microseconds():
    grid = make_grid(ROWS)
    assert column(grid, "start_ns").cells == ["1.500", "0.000"]


def test_some_rows_are_shown_whatever_stands_below_them():
    rows = PrintedRows(
        "rows", ROWS * 20, Row, none="nothing", remarks=["A sentence."] * 30, fits=True
    )
    assert "The first 3; --all has the rest." in rows.terminal(120, False)


def test_rows_that_say_the_same_keep_their_own_figures_and_text_is_no_template():
    rows = [
        Row(0, name, EPOCH_NS + i, i + 0.5, 2, 0.1, None)
        for i, name in enumerate(["50 %s", "%(x)d", "50 %s"])
    ]
    shown = PrintedRows("rows", rows, Row, columns=("name", "start_ns", "total_ms")).terminal(
        120, False
    )
    assert [line.split() for line in shown.splitlines() if "%" in line] == [
        ["50", "%s", "0.000", "0.500"],
        ["%(x)d", "0.000", "1.50"],
        ["50", "%s", "0.000", "2.50"],
    ]


def test_true_and_one_are_not_the_same_cell():
    @dataclass(frozen=True)
    class Flag:
        flag: object = metric("a flag or a figure")

    assert make_grid([Flag(True), Flag(1), Flag(1.0)]).columns == []
    assert column(make_grid([Flag(True), Flag(1), Flag(1.0), Flag(2)]), "flag").cells == [
        "yes",
        "1",
        "1",
        "2",
    ]


def test_a_table_of_rows_that_are_all_alike_has_no_lines():
    rows = [Row(0, "same", 5, None, 1, 0.5, None)] * 2
    assert "same" in PrintedRows("rows", rows, Row).terminal(80, False)


def test_what_is_equal_or_missing_in_every_row_takes_no_column():
    grid = make_grid(ROWS)
    assert not {"rank", "python"} & {c.name for c in grid.columns}
    assert "In every row: rank 2." in grid.remarks
    assert len(grid.remarks) == 1, "what no row has is not listed"


def test_a_time_that_every_row_has_is_said_with_its_unit():
    @dataclass(frozen=True)
    class Gap:
        name: str = metric("where")
        duration_ns: int = metric("how long", "ns")

    assert make_grid([Gap("a", 4_968_343), Gap("b", 4_968_343)]).remarks == [
        "In every row: duration 4.97 ms."
    ]


def test_a_head_keeps_what_was_said_of_every_row():
    rows = [*ROWS, Row(3, "third", EPOCH_NS, 1.0, 1.0, 0.0, None)]
    assert column(make_grid(rows).head(2), "rank").cells == ["2", "2"]


def test_json_has_every_field_under_the_name_of_the_table():
    decoded = json.loads(PrintedRows("gaps", tables()["gaps"][:1], GapRow).json())
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
    assert json.loads(PrintedRows("gaps", [], GapRow).json()) == {"gaps": []}


def test_json_rounds_figures_and_has_null_for_what_is_no_number():
    decoded = json.loads(
        PrintedRows(
            "kernels", [kernel("k", 1 / 3), kernel("\ud800", float("nan"))], KernelStats
        ).json()
    )["kernels"]
    assert decoded[0]["total_ms"] == 0.333333
    assert decoded[0]["class"] == "gemm"
    assert decoded[1]["total_ms"] is None
    assert decoded[1]["name"] == "?"


def test_csv_holds_names_as_they_are_save_formulas_and_empty_cells_for_missing_values():
    text = PrintedRows(
        "kernels", [kernel(name, float("inf")) for name in HOSTILE], KernelStats
    ).csv()
    read = list(csv.DictReader(io.StringIO(text)))
    shown = [
        "\n".join("\t".join(map(plain, line.split("\t"))) for line in name.split("\n"))
        for name in (text.replace("\ud800", "?").replace("\r", "\n") for text in HOSTILE)
    ]
    expected = [f"'{name}" if name.startswith(("@", "=")) else name for name in shown]
    assert [row["name"] for row in read] == expected
    assert {row["total_ms"] for row in read} == {""}
    assert (
        PrintedRows("gaps", [], GapRow).csv()
        == "rank,device,start_ns,duration_ns,step,cause,detail\n"
    )


def test_definitions_are_folded_below_a_table_in_markdown():
    text = PrintedRows("kernels", tables()["kernels"], KernelStats).markdown()
    assert "<details><summary>Definitions</summary>" in text

    assert "operator that launches most of them" in text


@pytest.mark.parametrize(
    "name", ["=HYPERLINK(1)", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", " =cmd|'/C calc'!A0"]
)
def test_csv_cells_never_begin_a_formula_and_numbers_stay_numbers(name):
    text = PrintedRows("kernels", [kernel(name, -1.5)], KernelStats).csv()
    row = next(csv.DictReader(io.StringIO(text)))
    assert row["name"] == "'" + name.replace("\r", "\n")
    assert float(row["total_ms"]) == -1.5


def test_an_empty_table_says_what_there_is_none_of():
    nothing = PrintedRows("comm", [], KernelStats, none="No collectives in this recording.")
    assert (
        nothing.markdown() == nothing.terminal(80, False) == "No collectives in this recording.\n"
    )


def test_people_see_the_columns_that_they_ask_for():
    text = PrintedRows(
        "kernels", tables()["kernels"], KernelStats, columns=["name", "calls"]
    ).terminal(80, False)
    assert text.split("\n")[0].split() == ["name", "calls"]


@pytest.mark.parametrize("name", [name for name, rows in tables().items() if rows])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(name, width):
    text = PrintedRows(name, full().tables[name], object).terminal(width, False)
    assert max(map(len, text.splitlines())) <= width


def test_a_narrow_terminal_keeps_figures_and_says_what_it_left_out():
    text = PrintedRows("kernels", tables()["kernels"], KernelStats).terminal(60, False)
    assert "(ms)" in text
    assert " more columns: --format csv has all." in text


def scenario(name: str, step: float | None, spread: float = 0.0) -> Prediction:
    if step is None:
        return Prediction(name, None, None, None, None, f"why not {name}")
    return Prediction(name, step, step - spread, step + spread, 2 / step, f"what {name} assumes")


def page(*scenarios: Prediction, full: bool = False) -> str:
    result = WhatIf(2.0, 2.0, 0.0, 1.9, 1.8, 2.0, 1, list(scenarios), [])
    return ScenariosPage(result, full).terminal(80, False)


def test_the_first_screen_has_the_scenarios_that_change_the_step_and_those_asked_for():
    told = scenario("a+b", 1.0), scenario("a", 1.0), scenario("b", 1.995), scenario("c", None)
    text = page(*told, scenario("gelu=2", 2.0), scenario("mm=2", None))
    assert "what a assumes" not in text
    assert "Gain under 1%: b." in text, "a+b gains what a does"
    assert "Not predicted: c." in text
    assert "why not mm=2" in text
    assert "what gelu=2 assumes" in text
    assert "what b assumes" not in text


def test_scenarios_say_in_full_what_they_assume():
    text = page(
        scenario("a+b", 1.0), scenario("a", 1.5), scenario("b", 1.8), scenario("c", None), full=True
    )
    assert "what a assumes" in text
    assert "what a+b assumes" not in text
    assert text.index("Not predicted") < text.index("why not c")


def test_scenarios_in_full_are_those_that_change_the_step():
    rows = scenario("a", 1.0), scenario("b", 1.995)
    text = page(*rows, full=True)
    assert "1.00" in text
    assert "what b assumes" not in text
    assert "Gain under 1%: b." in text


def test_assumptions_stand_one_by_one_and_whole():
    basis = "; ".join(f"assumption {i} which is told in many words" for i in range(9))
    told = replace(scenario("a", 1.0), basis=basis)
    text = page(told, full=True)
    assert text.count("   - assumption") == 9
    markdown = ScenariosPage(WhatIf(2.0, 2.0, 0.0, 1.9, 1.8, 2.0, 1, [told], [])).markdown()
    assert markdown.count("   - assumption") == 9
    assert "…" not in markdown


def test_scenarios_with_one_reason_share_it():
    one = replace(scenario("c", None), basis="nothing recorded")
    text = page(one, replace(one, id="d"), full=True)
    assert text.count("nothing recorded") == 1
    assert "c, d" in text


def test_scenarios_show_their_range():
    assert "high" in page(scenario("a", 1.0, 0.2))


def test_the_table_says_which_scenarios_are_changes_and_which_are_ideals():
    text = page(scenario("a", 1.0), replace(scenario("b", 1.1), kind="ideal"))
    rows = [line.split()[:2] for line in text.splitlines() if line.strip()[:2] in ("a ", "b ")]
    assert rows == [["a", "change"], ["b", "ideal"]]
    assert "ideal: one cost less" in text
    assert "one cost is gone" not in page(scenario("a", 1.0))
