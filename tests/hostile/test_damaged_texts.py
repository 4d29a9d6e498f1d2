"""Pasted texts and logs with parts that are missing, and numbers that no run counts to."""

from __future__ import annotations

import time

import pytest

from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.comparison.conditions import _sizes
from traceanalyzer.ingest.detect import detect
from traceanalyzer.ingest.texts.gpu_snapshots import snapshot_samples

LONG = "9" * 5_000  # digits; Python converts 4,300
NO_GPU = "==============NVSMI LOG==============\n    FB Memory Usage\n        Used : 71234 MiB\n"
NO_KERNEL = "    Section: GPU Speed Of Light Throughput\n    Duration   us   400.12\n"
NO_TIME = (
    '==1== Profiling result:\n"Type","Time(%)","Calls","Name"\n,%,,\n"GPU activities",50,1,"k"\n'
)
LONG_FIELD = (
    '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"'
    + "k" * 200_000
    + '",1,5,5,100\nmm,1,5,5,100\n'
)


def read(tmp_path, text, name="pasted.txt"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return detect(path).read(path)


@pytest.mark.parametrize("text", [NO_GPU, NO_KERNEL, NO_TIME])
def test_a_text_without_what_it_is_about_is_refused(tmp_path, text):
    with pytest.raises(UnreadableInputError):
        read(tmp_path, text)


def test_a_field_that_is_too_long_is_left_out(tmp_path):
    (trace,) = read(tmp_path, LONG_FIELD)
    assert [row.name for row in trace.profiler_rows] == ["mm"]


def test_a_row_of_many_columns_is_looked_at_once(tmp_path):
    columns = ",".join(f"c{i}" for i in range(10_000))
    began = time.process_time()
    with pytest.raises(UnreadableInputError):
        read(tmp_path, f'"ID","Kernel Name",{columns}\n' + '"1","k"\n' * 10_000, "ncu.csv")
    assert time.process_time() - began < 2


def test_rows_of_gpus_find_the_name_above_them():
    name = "|   0  NVIDIA H100 On | 00000000:1B:00.0 Off |\n"
    row = "| N/A 45C P0 612W / 700W | 71234MiB / 81559MiB | 99% Default |\n"
    began = time.process_time()
    samples = snapshot_samples("NVIDIA-SMI\n" + row * 20_000 + name * 20_000)
    assert time.process_time() - began < 2
    assert len(samples) == 60_000


@pytest.mark.parametrize("said", ["1e308", LONG])
def test_iterations_that_no_run_skips_are_damage(tmp_path, said):
    line = (
        " iteration {} / 100 | consumed samples: 8 | elapsed time per iteration (ms): 400.0 | "
        "lm loss: 2.0 | number of skipped iterations: {} | number of nan iterations: 0 |\n"
    )
    lines = [line.format(i, said if i > 1 else 2) for i in range(1, 6)]
    (trace,) = read(tmp_path, "".join(lines), "train.log")
    assert "Gradients overflowed: 2 updates" in " ".join(trace.health.notes)


def test_memory_that_no_gpu_has_is_left_out(tmp_path):
    text = (
        "After forward - Allocated: 1e308 GB\nAfter backward - Allocated: 2 GB reserved: 1e308 GB\n"
    )
    (trace,) = read(tmp_path, text * 3 + "step: 1, step_time_ms: 5\n" * 5, "train.log")
    assert {one.allocated for one in trace.printed_memory} == {2 << 30}
    assert {one.reserved for one in trace.printed_memory} == {None}


def test_sizes_of_too_many_digits_are_none():
    assert _sizes(f"[[{LONG}, 4], [8]]") == [4, 8]
