from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.recorded import recording
from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.cli import cli
from traceanalyzer.ingest import load
from traceanalyzer.report.build import build_report
from traceanalyzer.report.model import Report
from traceanalyzer.trace import ProfilerRow

HEADS = (
    "Name",
    "Self CPU %",
    "Self CPU",
    "CPU total %",
    "CPU total",
    "CPU time avg",
    "Self CUDA",
    "Self CUDA %",
    "CUDA total",
    "CUDA time avg",
    "# of Calls",
)
ROWS = (
    (
        "ProfilerStep*",
        "5%",
        "2.000ms",
        "100%",
        "40.000ms",
        "10.000ms",
        "0.000us",
        "0%",
        "24.000ms",
        "6.000ms",
        "4",
    ),
    (
        "ProfilerStep*",
        "0%",
        "0.000us",
        "0%",
        "0.000us",
        "0.000us",
        "38.000ms",
        "158%",
        "38.000ms",
        "9.500ms",
        "4",
    ),
    (
        "aten::addmm",
        "2%",
        "800.000us",
        "20%",
        "8.000ms",
        "80.000us",
        "18.000ms",
        "75%",
        "18.000ms",
        "180.000us",
        "100",
    ),
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize12...",
        "0%",
        "0.000us",
        "0%",
        "0.000us",
        "0.000us",
        "18.000ms",
        "75%",
        "18.000ms",
        "180.000us",
        "100",
    ),
    (
        "void at::native::vectorized_elementwise_kernel<4, at...",
        "0%",
        "0.000us",
        "0%",
        "0.000us",
        "0.000us",
        "6.000ms",
        "25%",
        "6.000ms",
        "20.000us",
        "300",
    ),
    (
        "cudaLaunchKernel",
        "10%",
        "4.000ms",
        "10%",
        "4.000ms",
        "10.000us",
        "0.000us",
        "0%",
        "0.000us",
        "0.000us",
        "400",
    ),
    (
        "cudaDeviceSynchronize",
        "8%",
        "3.200ms",
        "8%",
        "3.200ms",
        "3.200ms",
        "0.000us",
        "0%",
        "0.000us",
        "0.000us",
        "1",
    ),
)


def table(rows: tuple[tuple[str, ...], ...] = ROWS, heads: tuple[str, ...] = HEADS) -> str:
    """As PyTorch prints it."""
    widths = [55, *(12 for _ in heads[1:])]
    rule = "  ".join("-" * width for width in widths)
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in (heads, *rows)
    ]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule, "Self CPU time total: 40.000ms", ""])


def reported(folder: Path, text: str) -> Report:
    file = folder / "table.txt"
    file.write_text(text)
    return build_report(load([file]))


def test_the_rows_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(table())
    (trace,) = load([tmp_path / "t"]).traces
    assert (trace.source, len(trace.profiler_rows), trace.health.lost) == ("key_averages", 7, 0)
    assert trace.profiler_rows[2] == ProfilerRow("aten::addmm", 100.0, 0.8, 8.0, 18.0, 18.0)


def test_what_a_table_tells_and_what_not(tmp_path: Path) -> None:
    report = reported(tmp_path, table())
    assert report.summary.bottleneck == "inconclusive"
    assert "In a step kernels take 6 ms of GPU time" in report.summary.headline
    assert report.metrics.step_time_ms is report.metrics.budget_ms is None
    assert report.notes == [
        "A step takes 10 ms on the CPU, with the profiler; GPU work is 60% of that at most.",
        "75% of the kernels' time is in gemm kernels.",
        "cudaLaunchKernel: 100 calls a step, 1 ms of CPU time.",
        "cudaDeviceSynchronize: 0.25 calls a step, in which the CPU waits 0.8 ms.",
    ]
    rows = report.tables["profiled"]
    assert [(row.kind, row.cls) for row in rows][:3] == [
        ("op", None),
        ("kernel", "gemm"),
        ("kernel", "elementwise"),
    ]
    assert sum(row.share_of_device or 0.0 for row in rows) == pytest.approx(1.0)


def test_tables_of_old_versions_without_kernels(tmp_path: Path) -> None:
    heads = ("Name", "Self CPU %", "Self CPU", "CPU total", "Self CUDA", "Number of Calls")
    rows = (
        ("conv2d", "10%", "100.000us", "2.0s", "30.000ms", "10"),
        ("relu", "1%", "1.000us", "1.0us", "10.000ms", "5"),
    )
    report = reported(tmp_path, table(rows, heads))
    assert "In the profile kernels take 40 ms" in report.summary.headline


@pytest.mark.parametrize(
    ("before", "after"), [("> ", "\n> "), ("```\n", "```\n"), ("log line\n\n", "bye\n")]
)
def test_tables_as_people_paste_them(tmp_path: Path, before: str, after: str) -> None:
    text = table()
    quoted = before + (text.replace("\n", "\n> ") if before == "> " else text) + after
    assert len(reported(tmp_path, quoted).tables["profiled"]) == 5


def test_damaged_lines_are_counted(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(table().replace("8.000ms      80.000us", "8.000ms"))
    (trace,) = load([tmp_path / "t"]).traces
    assert (len(trace.profiler_rows), trace.health.lost) == (6, 1)


def test_a_table_without_rows_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(table(()))
    with pytest.raises(UnreadableInputError, match="without rows"):
        load([tmp_path / "t"])


def test_a_table_beside_a_trace_in_a_folder_is_not_another_rank(tmp_path: Path) -> None:
    (tmp_path / "table.txt").write_text(table())
    (tmp_path / "trace.json.gz").write_bytes(recording("kineto/tiny_mlp_infer.fix").read_bytes())
    assert [trace.source for trace in load([tmp_path]).traces] == ["kineto"]


def test_what_pytorch_prints_today(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
    ) as profiler:
        torch.nn.Linear(8, 8)(torch.ones(2, 8)).sum().backward()
    averages = profiler.key_averages()
    (tmp_path / "t").write_text(averages.table(row_limit=-1, max_name_column_width=200))
    (trace,) = load([tmp_path / "t"]).traces
    rows = {row.name: row for row in trace.profiler_rows}
    assert rows.keys() == {event.key for event in averages}
    for event in averages:
        assert rows[event.key].calls == event.count
        assert rows[event.key].self_cpu_ms == pytest.approx(
            event.self_cpu_time_total / 1e3, rel=1e-3, abs=1e-6
        )


@pytest.mark.parametrize("command", ["kernels", "ops"])
def test_the_commands_of_operators_and_kernels_print_its_rows(command: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(table())
    result = CliRunner().invoke(
        cli, [command, str(tmp_path / "t"), "--format", "csv"], catch_exceptions=False
    )
    assert "aten::addmm" in result.stdout
    assert "cudaLaunchKernel" in result.stdout
