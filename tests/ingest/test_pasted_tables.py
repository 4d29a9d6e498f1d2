"""Tables of benchmarks and logs that people paste, a few lines each, and what stands around them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import traceanalyzer as ta
from traceanalyzer.ingest.detect import detect
from traceanalyzer.ingest.plain.commas import with_decimal_commas
from traceanalyzer.ingest.plain.text import plain_text
from traceanalyzer.trace import Trace

TGI = (
    'INFO generate{best_of: None total_time="5.331201s" queue_time="52.311µs" inference_time="5.3s" '
    'time_per_token="20.82ms"}: Success\n'
    'INFO generate{best_of: None total_time="6.112301s" queue_time="0.4s" inference_time="5.3s" '
    'time_per_token="20.70ms"}: Success\n'
)
TGI_TABLE = """| Step           | Batch Size | Average  | Lowest   |
|----------------|------------|----------|----------|
| Prefill        | 1          | 38.92 ms | 38.51 ms |
|                | 8          | 201.11 ms| 199.00 ms|
| Decode (token) | 1          | 13.21 ms | 13.10 ms |
|                | 8          | 15.02 ms | 14.88 ms |
"""
PYTEST = """Name (time in us)          Min                 Max              Mean            StdDev          Median
------------------------------------------------------------------------------------------------
test_flash         101.2340 (1.0)      190.2331 (1.0)    110.3312 (1.0)    8.1234 (1.0)    108.1102 (1.0)
test_math        1,310.9021 (12.95)  1,799.0123 (9.46)  1,402.1123 (12.7)  61.2331 (7.5)  1,390.2210 (12.8)
"""
PYTEST_JSON = json.dumps(
    {
        "benchmarks": [
            {"name": "test_step", "stats": {"median": 0.0119, "stddev": 0.1, "rounds": 83}}
        ]
    }
)
COMPARE = """[---- Batched dot ----]
                |  mul/sum  |   bmm
1 threads: -----------------------
      [1, 1]    |      5.9  |   11.2
      [64, 64]  |     12.1  |   11.9

Times are in microseconds (us).
"""
TRITON = """softmax-performance (GB/s):
          N       Triton        Torch
0     256.0   478.241017   478.241017
1   12672.0  1453.422301  1402.221012
"""
NVBANDWIDTH = """Running device_to_host_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
           0         1
 0     55.31     12.10

SUM device_to_host_memcpy_ce 67.41
"""
LINES = """Timer unit: 1e-06 s

Total time: 12.3412 s
File: train.py
Function: train_step at line 42

Line #      Hits         Time  Per Hit   % Time  Line Contents
==============================================================
    44      1001    5120331.1   5115.2     41.5      for x, y in loader:
    49      1000    3315651.6   3315.7     26.9          print(loss.item())
"""
MLPERF = "".join(
    f':::MLLOG {{"time_ms": {time}, "event_type": "{kind}", "key": "{key}", "value": null}}\n'
    for time, kind, key in (
        (1000, "INTERVAL_START", "run_start"),
        (61_000, "INTERVAL_START", "eval_start"),
        (66_000, "INTERVAL_END", "eval_stop"),
        (186_000, "INTERVAL_END", "run_stop"),
    )
)
TORCH_TRACEMALLOC = "Total Peak Memory consumed during the train (max): 21646\n"
TABLES = (
    (TGI, "A request takes 5,722 ms, 20.8 ms a token, prefill included, 200 ms in the queue"),
    (TGI_TABLE, "Batch of 8: prefill 201 ms, a token 15 ms."),
    (PYTEST, "test_flash 108 us, test_math 1,390 us (12.9 times) (medians)."),
    (PYTEST_JSON, "test_step 11.9 ms (medians)."),
    (COMPARE, "Fastest: mul/sum in 1, bmm in 1. Last row, [64, 64], 1 threads: mul/sum 12.1 us"),
    (TRITON, "Fastest: Triton in 1. Last row, N 12,672: Triton 1,453 GB/s, Torch 1,402 GB/s."),
    (TRITON.replace(" (GB/s)", ""), "Highest: Triton in 1. Last row, N 12,672: Triton 1,453, T"),
    (NVBANDWIDTH, "device_to_host_memcpy_ce 12.1 to 55.3 GB/s."),
    (LINES, "train_step (train.py:42) takes 12.3 s: line 44 `for x, y in loader:` 5.12 s (41.5%)"),
    (MLPERF, "The run takes 185 s, 1 evaluation of 5 s."),
    (TORCH_TRACEMALLOC, "At most 21.1 GiB during train of GPU memory."),
)
NVPROF = """==27706== Profiling result:
   Start  Duration            Grid Size      Size           Device   Context    Stream  Name
133.81ms  135.78us                    -  409.60KB  GeForce GT 640M         1         2  [CUDA memcpy HtoD]
134.90ms  3.7037ms   (20 10 1)         -  GeForce GT 640M         1         2  void mul<int=32>(float*, int) [94]
138.71ms  3.7011ms   (20 10 1)         -  GeForce GT 640M         1         2  void mul<int=32>(float*, int) [105]
"""


def read(tmp_path: Path, text: str) -> Trace:
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    (trace,) = detect(path).read(path)
    return trace


def tells(tmp_path: Path, text: str) -> str:
    told = read(tmp_path, text).pasted
    assert told is not None
    return told.tells


@pytest.mark.parametrize("case", range(len(TABLES)))
def test_tables_and_logs(tmp_path: Path, case: int) -> None:
    text, expected = TABLES[case]
    assert expected in tells(tmp_path, text)


def test_a_row_an_operation_of_nvprof_is_summed_by_name(tmp_path: Path) -> None:
    copy, kernel = read(tmp_path, NVPROF).profiler_rows
    assert (copy.name, copy.self_device_ms) == ("[CUDA memcpy HtoD]", pytest.approx(0.13578))
    assert (kernel.name, kernel.calls) == ("void mul<int=32>(float*, int)", 2)
    assert kernel.self_device_ms == pytest.approx(7.4048)


@pytest.mark.parametrize(
    "prefix",
    [
        "2024-05-14T12:31:02.221456Z ",
        "trainer-1  | ",
        "(EngineCore_0 pid=1234) ",
        "[rank0]: ",
        "0: ",
        "trainer-1  | 2024-05-14 12:31:02,221 [rank0]: ",
        "\x1b[32m",
    ],
)
def test_what_stands_before_every_line_is_not_of_the_text(tmp_path: Path, prefix: str) -> None:
    marked = "".join(f"{prefix}{line}\n" for line in COMPARE.splitlines())
    assert "bmm in 1" in tells(tmp_path, marked)


def test_a_time_that_stands_before_a_few_lines_stays() -> None:
    text = "10:01:02 begins\none\ntwo\n"
    assert plain_text(text.encode()) == text
    assert plain_text("a\r\nb".encode("utf-16")) == "a\nb"


def test_sizes_before_their_names_are_theirs(tmp_path: Path) -> None:
    lines = [f"Step {i}: {500 + i}.0 MB allocated, 700.0 MB reserved\n" for i in range(4)]
    (row, *_) = read(tmp_path, "".join(lines)).printed_memory
    assert (row.allocated / 2**20, (row.reserved or 0) / 2**20) == (500, 700)


def test_samples_of_a_whole_run_are_not_those_of_a_step(tmp_path: Path) -> None:
    text = "train_samples = 15011\ntrain_samples_per_second = 12.4\ntrain_steps_per_second = 0.1\n"
    assert "12.4 samples/s" in tells(tmp_path, text)


def test_numbers_may_have_decimal_commas(tmp_path: Path) -> None:
    path = tmp_path / "schritte.log"
    path.write_text("".join(f"step {i}: loss 2,{90 - i}, time 0,4{i} s\n" for i in range(10, 20)))
    (trace,) = detect(path).read(path)
    assert trace.step_timings.duration[0] == pytest.approx(0.41e9)
    assert not with_decimal_commas("step 1,234 of 5,678 at 10:01:02,123 with [1,2,3]\n" * 3)


CUT = """-----------------------  ------------  ------------  ------------
                   Name      Self CPU     CPU total     Self CUDA
-----------------------  ------------  ------------  ------------
           aten::conv2d       1.200ms     111.210ms       {}
"""


@pytest.mark.parametrize(("cell", "device_ms"), [("812.100ms", 812.1), ("812.100m", None)])
def test_the_last_column_of_a_cut_table_is_read_where_it_is_whole(
    tmp_path: Path, cell: str, device_ms: float | None
) -> None:
    (row,) = read(tmp_path, CUT.format(cell)).profiler_rows
    assert row.self_cpu_ms == pytest.approx(1.2)
    assert row.self_device_ms == (None if device_ms is None else pytest.approx(device_ms))


def test_the_first_step_of_one_run_is_not_that_of_the_next(tmp_path: Path) -> None:
    lines = [f"step={i} loss=2.1 step_time={t}s" for t in (0.5, 0.3) for i in range(20)]
    path = tmp_path / "runs.log"
    path.write_text("\n".join(lines), encoding="utf-8")
    report = ta.analyze(path)
    assert report.metrics.step_time_ms is not None
    assert report.metrics.step_time_ms.mean == pytest.approx(300)
    assert report.metrics.first_steps is None
