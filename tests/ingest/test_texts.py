"""Texts that people paste: what each is, what it tells, what to record to know more."""

from pathlib import Path

import pytest

import traceanalyzer.ingest.messages as messages
from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.ingest.detect import detect
from traceanalyzer.ingest.formats import FORMATS
from traceanalyzer.ingest.texts.memory_summary import summarise as summarise_memory
from traceanalyzer.ingest.texts.out_of_memory import summarise as summarise_oom
from traceanalyzer.ingest.texts.sums import nvprof_rows

DATA = Path(__file__).parents[1] / "data" / "texts"
TOLD = {
    "oom.txt": ("out_of_memory", "PyTorch holds 6.2 GiB that nothing uses"),
    "oom_old.txt": ("out_of_memory", "20 MiB were asked for, 15.6 MiB of 7.93 GiB were free"),
    "lightning.txt": (
        "host_profile",
        "40.1 s in all. [_TrainingEpochLoop].train_dataloader_next 24 s",
    ),
    "nccl.log": ("nccl_log", "2 ranks on 2 nodes, 2 channels: 4 connections over TCP sockets"),
    "watchdog.txt": ("watchdog", "2 ranks gave up: rank 3 in allreduce #1,234; rank 0 in"),
    "memsum.txt": ("memory_summary", "At its peak 10 GiB were allocated, 12 GiB reserved"),
    "vllm.txt": ("serving_summary", "TTFT 310 ms, TPOT 21.5 ms, ITL 17.2 ms, 8.3 requests/s"),
    "trtllm.txt": ("serving_summary", "TTFT 163 ms, TPOT 65 ms"),
    "dmon.txt": ("gpu_samples", "GPU utilisation 68%, 275 W"),
    "smi.csv": ("gpu_samples", "GPU utilisation 44%, 251 W"),
    "dcgm.txt": ("gpu_samples", "active 98% of the time, SMs are busy 61% of it, tensor cores 20%"),
    "prom.txt": ("gpu_samples", "GPU utilisation 87%, SMs are busy 45% of it"),
    "dynamo.txt": ("torch_console", "limit of 8 recompilations was reached in forward"),
    "recomp.txt": ("torch_console", "1 recompilation of 1 function; 1 graph break at 1 place"),
    "chrom.json": ("compile_events", "1 compilation took 4 s"),
    "bench.json": ("printed_averages", "Mean 400 ms, median 399 ms, p95 410 ms, p99 412 ms."),
    "averages.txt": (
        "printed_averages",
        "Mean 400 ms, p99 1,200 ms, loading 240 ms, 640 samples/s",
    ),
    "hf_metrics.txt": ("printed_averages", "20 samples/s, 2.5 steps/s."),
    "comms.txt": ("comms_log", "10,139 ms in communication on this rank: broadcast 8,328 ms (147"),
    "memory_stats.txt": (
        "memory_stats",
        "At its peak 8 GiB were allocated, 12 GiB reserved; 2 GiB",
    ),
    "xla.txt": ("xla_metrics", "Compiling 62.1 s (12 times), executing 130 s (1,203 times)"),
    "ncu.csv": ("ncu_csv", "2 kernels, 660 us in all. The longest: 600 us, compute"),
}
SUMS = {
    "nsys.txt": ("nsys_stats", 4, 100.0, 200.0),
    "nsys.csv": ("nsys_stats", 2, 100.0, 0.0),
    "nvprof.txt": ("nvprof", 3, 100.0, 180.0),
    "rocprof.csv": ("rocprof_stats", 2, 100.0, 0.0),
}


def read(path):
    (trace,) = detect(path).read(path)
    return trace


@pytest.mark.parametrize("name", TOLD)
def test_what_a_text_tells(name):
    source, tells = TOLD[name]
    trace = read(DATA / name)
    assert trace.source == source
    assert tells in trace.pasted.tells
    assert trace.pasted.what
    assert trace.pasted.record.endswith(".")


@pytest.mark.parametrize("name", SUMS)
def test_tables_of_sums(name):
    source, rows, device_ms, host_ms = SUMS[name]
    trace = read(DATA / name)
    assert trace.source == source
    assert len(trace.profiler_rows) == rows
    assert sum(row.self_device_ms or 0 for row in trace.profiler_rows) == pytest.approx(device_ms)
    assert sum(row.self_cpu_ms or 0 for row in trace.profiler_rows) == pytest.approx(host_ms)


def test_messages_are_asked_for_after_logs_of_steps():
    names = [form.name for form in FORMATS]
    assert names.index("texts") < names.index("timing") < names.index("messages")
    assert {kind.source for kind in messages.KINDS} == {
        "watchdog",
        "nccl_log",
        "comms_log",
        "memory_stats",
        "xla_metrics",
        "out_of_memory",
        "torch_console",
        "printed_averages",
    }


def test_every_file_of_test_data_is_tested():
    assert {path.name for path in DATA.iterdir()} == {*TOLD, *SUMS}


def test_names_with_spaces_and_commas_are_whole():
    for name in ("nsys.txt", "nsys.csv"):
        kernels = [row.name for row in read(DATA / name).profiler_rows]
        assert "void add_kernel<float, 4>(float *, int)" in kernels


def test_why_there_was_no_memory():
    message = (
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 80.00 GiB of "
        "which 1.00 GiB is free. {} Of the allocated memory {} GiB is allocated by PyTorch, and "
        "{} GiB is reserved by PyTorch but unallocated."
    )
    other = "Process 7 has 40.00 GiB memory in use."
    for text, why in (
        (message.format("", 78, 0.5), "Tensors take 78 GiB"),
        (message.format("", 70, 8), "fragmentation"),
        (message.format(other, 38, 0.5), "Other processes hold 40 GiB of the GPU"),
    ):
        assert why in summarise_oom(text, DATA).tells


def test_retries_and_fragments_of_a_summary():
    notes = summarise_memory((DATA / "memsum.txt").read_text(), DATA).notes
    assert any("3 times cudaMalloc failed" in note for note in notes)
    assert any("2.45 GiB lie unused" in note for note in notes)


def test_gpus_that_do_not_work_alike():
    notes = read(DATA / "dmon.txt").pasted.notes
    assert "The GPUs do not work alike: GPU 0 42%, GPU 1 94%." in notes


def test_a_log_of_steps_with_a_message_stays_a_log(tmp_path):
    path = tmp_path / "train.log"
    steps = "".join(f"step {i} | loss 2.3 | dt: 400.0ms\n" for i in range(5))
    path.write_text((DATA / "dynamo.txt").read_text() + steps + (DATA / "oom.txt").read_text())
    assert read(path).source == "timing_log"


@pytest.mark.parametrize("name", [*TOLD, *SUMS])
def test_damage_is_one_clear_line(tmp_path, name):
    whole = (DATA / name).read_bytes()
    path = tmp_path / name
    for size in range(1, len(whole), max(len(whole) // 12, 1)):
        for data in (whole[:size], whole[:size] + b"9" * 5_000, whole[:size] + b"\x01\x02\xff"):
            path.write_bytes(data)
            assert "\n" not in outcome(path)


def outcome(path):
    """The source of what was read, or why nothing was."""
    try:
        return read(path).source
    except UnreadableInputError as error:
        return str(error)


def test_a_log_of_no_known_form_is_told_a_pattern(tmp_path):
    path = tmp_path / "train.log"
    path.write_text("".join(f"[w] no. {i} went by within 12.{i} clicks\n" for i in range(5)))
    with pytest.raises(UnreadableInputError) as error:
        detect(path)
    assert str(error.value).endswith(
        r"--pattern 'no\.\s+(?P<step>\d+).*?within\s+(?P<iter_s>[\d.]+)'"
    )
    assert "JSON" not in str(error.value)


@pytest.mark.parametrize("time", ["080....00ms", "1.2.3us", "....ms"])
def test_a_row_whose_number_is_damaged_is_none(time: str) -> None:
    row = "  GPU activities:   50.00%  {}        10  1.0ms  1.0ms  1.0ms  gemm\n"
    assert nvprof_rows(row.format(time)) == []
    assert nvprof_rows(row.format("8.0ms"))[0].device_total_ms == 8.0


def test_ranks_behind_and_ranks_that_said_nothing(tmp_path: Path) -> None:
    line = (
        "[Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={1}, OpType=ALLREDUCE, "
        "NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
    )
    path = tmp_path / "watchdog.txt"
    path.write_text("".join(line.format(*one) for one in ((0, 1207), (1, 1208), (3, 1208))))
    notes = " ".join(read(path).pasted.notes)
    assert "rank 0 is behind, at #1,207 while others are at #1,208" in notes
    assert "Rank 2 said nothing" in notes


def test_a_gpu_that_a_kernel_holds_and_hardly_uses(tmp_path: Path) -> None:
    head = "index, utilization.gpu [%], power.draw [W], power.limit [W]\n"
    for draws, is_said in ((95.4, True), (320.0, False)):
        path = tmp_path / f"{draws}.csv"
        path.write_text(head + f"0, 100 %, {draws} W, 400.00 W\n" * 3)
        notes = " ".join(read(path).pasted.notes)
        assert (f"GPU 0 draws {draws} of 400 W" in notes) is is_said
