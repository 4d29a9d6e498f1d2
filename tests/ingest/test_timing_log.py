"""Timing logs: a line of every program as it writes it, and the odd things logs hold."""

import gzip
from pathlib import Path

import pytest

from tests.ingest.trainer_logs import CASES
from traceanalyzer.analysis.memory.stats import stats_of_printed
from traceanalyzer.base.errors import TraceAnalyzerError, UnreadableInputError
from traceanalyzer.ingest.detect import detect
from traceanalyzer.ingest.timing import read
from traceanalyzer.ingest.timing.formats import BINARY_MEANS

DATA = Path(__file__).parents[1] / "data" / "timing"
UNKNOWN = -1e-6

FORMATS = {
    "own.jsonl": ("JSONL", [0, 1, 2], [41.2, 40.8, 41.0]),
    "steps.csv": ("CSV", [0, 1, 2], [41.2, 40.8, 41.0]),
    "plain.log": ("lines of keys and values", [12, 13, 14], [41.2, 41.4, 40.96]),
    "megatron.log": ("Megatron-LM", [43, 44, 45], [5444.9, 5533.8, 5718.6]),
    "megatron_old.log": ("Megatron-LM", [122, 123, 124], [86545.2, 87871.6, 89474.8]),
    "torchtitan.log": ("torchtitan", [14, 15, 16, 17], [UNKNOWN, 1118, 1121, 1125]),
    "torchtitan_every_10.log": (
        "torchtitan",
        [200, 210, 220, 230],
        [UNKNOWN, 1464.8, 1396.4, 1396.1],
    ),
    "nanogpt.log": ("nanoGPT", [0, 10, 20, 30], [9371.81, 893.76, 894.88, 893.5]),
    "nanogpt_old.log": ("nanoGPT", [1631, 1632, 1633], [561.94, 563.15, 562.11]),
    "deepspeed.log": ("DeepSpeed", [40, 50, 60], [UNKNOWN, 1514.5, 1514.4]),
    "deepspeed_breakdown.log": ("DeepSpeed", [34, 35], [3989.06, 3996.06]),
    "deepspeed_micro.log": ("DeepSpeed micro-steps", [-1, -1, -1], [523.82, 527.1, 520.64]),
    "vllm.log": ("vLLM", [-1, -1, -1], [UNKNOWN] * 3),
    "lightning.log": ("Lightning", [1, 2, 3, 4846], [8770, 5820, 4870, 1000 / 13.47]),
    "hf_bar.log": ("progress bar", [506, 507, 508], [2030, 2030, 2020]),
    "hf_trainer.log": ("HF Trainer", [-1], [1000 / 1.721]),
    "hf_trainer_text_values.log": ("HF Trainer", [-1], [1000 / 0.124]),
    "vllm_iterations.log": ("vLLM iterations", [514, 515, 516], [31.42, 10.99, 11.02]),
    "tensorrt_llm.log": ("TensorRT-LLM iterations", [7, 8], [12.5, 5]),
    "tensorrt_llm_metrics.jsonl": ("TensorRT-LLM metrics", [7, 8, 9], [12.5, 5, UNKNOWN]),
    "sglang.log": ("SGLang batches", [-1, -1, -1], [UNKNOWN] * 3),
    "mlperf.log": ("MLPerf", [-1, -1], [UNKNOWN] * 2),
}


def steps_of(path, **options):
    (trace,) = read(path, **options)
    return trace.step_timings


def log(folder, text, name="train.log"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_a_log_of_each_program(name):
    form, steps, times = FORMATS[name]
    (trace,) = detect(DATA / name).read(DATA / name)
    assert trace.source == "timing_log"
    assert trace.health.notes[0] == f"Read as a timing log ({form})."
    assert trace.step_timings.step.tolist() == steps
    assert (trace.step_timings.duration / 1e6).tolist() == pytest.approx(times)
    assert not trace.health.truncated
    assert trace.health.lost == 0


def test_every_file_of_test_data_is_tested():
    tested = {*FORMATS, *(case.name for case in CASES)}
    assert {path.name for path in DATA.iterdir()} == tested


def test_data_samples_and_tokens():
    for name in ("own.jsonl", "steps.csv"):
        steps = steps_of(DATA / name)
        assert steps.data.tolist() == [3_100_000, 2_900_000, 3_000_000]
        assert steps.samples.tolist() == [128] * 3
        assert steps.tokens.tolist() == [65536] * 3
    assert steps_of(DATA / "megatron.log").samples.tolist() == [128] * 3


def test_rates_and_mfu():
    assert steps_of(DATA / "plain.log").samples_per_s.tolist() == [3106.8, 3091.79, 3125.0]
    assert steps_of(DATA / "vllm.log").tokens_per_s.tolist() == [1055.3, 1226.3, 734.9]
    assert steps_of(DATA / "torchtitan.log").tokens_per_s[0] == 7282
    assert steps_of(DATA / "torchtitan.log").mfu[0] == pytest.approx(0.0017)
    assert steps_of(DATA / "nanogpt.log").mfu.tolist() == pytest.approx(
        [-1, 0.1668, 0.1667, 0.1668]
    )
    assert steps_of(DATA / "deepspeed_breakdown.log").samples_per_s[0] == 8.00912418308922
    assert steps_of(DATA / "mlperf.log").samples_per_s[1] == 1.9357918929116467


def test_start_is_the_sum_of_the_durations_before():
    assert steps_of(DATA / "own.jsonl").start.tolist() == [0, 41_200_000, 82_000_000]


def test_lines_of_other_things_are_counted(tmp_path):
    path = log(
        tmp_path,
        "Loading model\n\niter 0: loss 4.2, time 10.00ms\nsaving checkpoint\n"
        + "".join(f"iter {i}: loss 3.9, time 11.00ms\n" for i in (1, 2)),
    )
    (trace,) = read(path)
    assert (trace.health.events, trace.health.skipped) == (3, 2)


@pytest.mark.parametrize(
    ("line", "ms"),
    [
        ("iter {} 41.5 ms", 41.5),
        ("[{:04d}]: iter 41.5 ms, data 3.0 ms", 41.5),
        ("[{}] step time: 0.0415 s", 41.5),
        ("[{}] iteration 41500 us", 41.5),
    ],
)
def test_units_are_read(tmp_path, line, ms):
    text = "\n".join(line.replace("{} 4", "4").format(i) for i in range(3))
    assert (steps_of(log(tmp_path, text)).duration / 1e6).tolist() == pytest.approx([ms] * 3)


@pytest.mark.parametrize(
    "text",
    [
        "step,time\n0,0.5\n1,0.5\n",
        '{"step": 0, "time": 0.5}\n{"step": 1, "time": 0.5}\n',
        "step\tstep_time\n1\t2\n",
    ],
)
def test_a_time_without_a_unit_is_not_guessed(tmp_path, text):
    with pytest.raises(UnreadableInputError, match="does not say its unit; rename it to"):
        detect(log(tmp_path, text)).read(tmp_path / "train.log")


@pytest.mark.parametrize(
    "header",
    ["step,step_time_s", "Iteration;Time (s)", "step\titeration_time_sec", '"step","time_s"'],
)
def test_headers_of_tables(tmp_path, header):
    mark = next(c for c in ",;\t" if c in header)
    rows = "".join(f"{i}{mark}0.25\n" for i in range(3))
    assert steps_of(log(tmp_path, f"{header}\n{rows}")).duration.tolist() == [250_000_000] * 3


def test_colours_and_carriage_returns(tmp_path):
    bars = [
        f"\x1b[32mEpoch 0:  {i}%|#    | {i}/100 [00:0{i}<00:50,  2.00it/s, v_num=3]\x1b[0m"
        for i in range(1, 5)
    ]
    steps = steps_of(log(tmp_path, "\r".join([bars[0], *bars])))
    assert steps.step.tolist() == [1, 2, 3, 4]
    assert steps.duration.tolist() == [500_000_000] * 4


def test_evaluation_bars_are_not_steps(tmp_path):
    bars = [
        "Epoch 0:  {}%|#| {}/9 [00:01<00:50,  2.00it/s, v_num=3]",
        "Validation DataLoader 0:  {}%|#| {}/9 [00:01<00:50,  9.00it/s, v_num=3]",
    ]
    text = "\r".join(bar.format(i, i) for bar in bars for i in range(1, 6))
    assert steps_of(log(tmp_path, text)).duration.tolist() == [500_000_000] * 5


def test_interleaved_ranks_are_told_apart(tmp_path):
    lines = [
        f"[rank{r}]: iter {i}: loss 3.0, time {10 + r}.00ms, mfu 40.00%"
        for i in range(4)
        for r in (1, 0)
    ]
    traces = read(log(tmp_path, "\n".join(lines)))
    assert [t.rank for t in traces] == [0, 1]
    assert [set(t.step_timings.duration.tolist()) for t in traces] == [{10_000_000}, {11_000_000}]


def test_ranks_that_do_not_name_themselves_count_once(tmp_path):
    line = "[titan] 2026-02-24 19:46:{:02d},508 - root - INFO - step:  {}  loss:  7.6  tps: 10,050  mfu: 13.99%"
    text = "\n".join(line.format(i * 2, i) for i in range(1, 5) for _ in range(8))
    (trace,) = read(log(tmp_path, text))
    assert trace.step_timings.duration.tolist()[1:] == [2_000_000_000] * 3
    assert trace.health.skipped == 28


def test_a_counter_that_starts_again_is_another_epoch(tmp_path):
    text = "".join(f"iter {i}: loss 3.0, time 10.00ms\n" for _ in range(2) for i in range(5))
    assert len(steps_of(log(tmp_path, text))) == 10


def test_a_cut_last_line_is_told(tmp_path):
    whole = (DATA / "own.jsonl").read_text()
    (trace,) = read(log(tmp_path, whole + '{"step": 3, "iter_'))
    assert len(trace.step_timings) == 3
    assert trace.health.truncated
    assert trace.health.lost == 1


def test_a_cut_line_of_text_is_told(tmp_path):
    (trace,) = read(
        log(tmp_path, (DATA / "nanogpt_old.log").read_text() + "iter 1634: loss 3.9, ti")
    )
    assert trace.health.truncated
    assert len(trace.step_timings) == 3


def test_a_last_line_without_its_newline_is_whole(tmp_path):
    (trace,) = read(log(tmp_path, (DATA / "own.jsonl").read_text().rstrip()))
    assert not trace.health.truncated
    assert len(trace.step_timings) == 3


def test_damaged_lines_are_counted(tmp_path):
    lines = (
        '{"step": 0, "iter_ms": 1}',
        '{"step": 1, "iter',
        "[1]",
        '{"step": 2, "iter_ms": NaN}',
        '{"step": 3, "iter_ms": 2}',
    )
    (trace,) = read(log(tmp_path, "\n".join(lines)))
    assert trace.step_timings.step.tolist() == [0, 3]
    assert trace.health.lost == 1


def test_impossible_times_are_not_steps(tmp_path):
    text = "".join(
        f'{{"step": {i}, "iter_ms": {t}}}\n' for i, t in enumerate((10, -5, 1e300, 0, "true", 12))
    )
    (trace,) = read(log(tmp_path, text))
    assert [d for d in trace.step_timings.duration.tolist() if d > 0] == [10_000_000, 12_000_000]


def test_gzip_utf16_and_bytes_that_are_no_text(tmp_path):
    text = (DATA / "nanogpt_old.log").read_text()
    for data in (
        gzip.compress(text.encode()),
        text.encode("utf-16"),
        b"\xef\xbb\xbf" + text.encode(),
        b"\xff\xfa\n" + text.encode(),
    ):
        path = log(tmp_path, data)
        assert len(detect(path).read(path)[0].step_timings) == 3


def test_a_damaged_gzip_gives_what_it_holds(tmp_path):
    text = "".join(f"iter {i}: loss 3.0, time {10 + i % 7}.{i % 100:02d}ms\n" for i in range(20000))
    (trace,) = read(log(tmp_path, gzip.compress(text.encode())[:-5000]))
    assert len(trace.step_timings) > 1000
    assert trace.health.truncated


def test_step_lines_far_into_a_long_log(tmp_path):
    path = log(
        tmp_path, "WARNING: something about kernels\n" * 40000 + (DATA / "megatron.log").read_text()
    )
    assert len(detect(path).read(path)[0].step_timings) == 3


def test_a_log_is_recognised_within_its_first_lines(tmp_path, monkeypatch):
    monkeypatch.setattr("traceanalyzer.ingest.timing.STEPS_WITHIN", 10)
    steps = (DATA / "megatron.log").read_text()
    assert detect(log(tmp_path, "loaded shard 1\n" * 4 + steps))
    with pytest.raises(UnreadableInputError):
        detect(log(tmp_path, "loaded shard 1\n" * 10 + steps))


@pytest.mark.parametrize(
    "text", ["hello\n", "{}\n", '{"a": 1}\n', "iter 1: loss 3, time 4ms\n", "\0\1\2", "a,b\n1,2\n"]
)
def test_other_files_are_refused(tmp_path, text):
    with pytest.raises(UnreadableInputError):
        detect(log(tmp_path, text))
    with pytest.raises(UnreadableInputError, match="--pattern"):
        read(tmp_path / "train.log")


def test_samples_of_a_gpu_monitor_are_not_steps(tmp_path):
    with pytest.raises(UnreadableInputError):
        detect(log(tmp_path, '{"time_s": 1.0, "gpu": 0, "power_w": 300}\n' * 5))


def test_a_pattern_for_the_rest(tmp_path):
    path = log(
        tmp_path, "".join(f"it={i} took 0.25sec (load 50ms) 1,024 tok/s\n" for i in range(4))
    )
    pattern = r"it=(?P<step>\d+) took (?P<iter_s>[\d.]+)sec \(load (?P<data_ms>\d+)ms\) (?P<tokens_per_s>[\d,]+)"
    steps = steps_of(path, pattern=pattern)
    assert steps.duration.tolist() == [250_000_000] * 4
    assert steps.data.tolist() == [50_000_000] * 4
    assert steps.tokens_per_s.tolist() == [1024] * 4


@pytest.mark.parametrize(
    "pattern", ["(", r"(?P<iter>\d+)", r"(?P<color>\d+) (?P<iter_ms>\d+)", r"\d+", r"(?P<step>\d+)"]
)
def test_a_pattern_that_cannot_work_is_refused(tmp_path, pattern):
    with pytest.raises(TraceAnalyzerError, match="--pattern"):
        read(DATA / "own.jsonl", pattern=pattern)


def test_a_pattern_that_matches_nothing(tmp_path):
    with pytest.raises(UnreadableInputError, match="none of its 3 lines matches --pattern"):
        read(DATA / "own.jsonl", pattern=r"x(?P<iter_ms>\d+)")


def test_data_time_beside_the_iteration_is_added_to_it(tmp_path):
    text = "".join(f'{{"step": {i}, "iter_ms": 10, "data_ms": 30}}\n' for i in range(4))
    assert steps_of(log(tmp_path, text)).duration.tolist() == [40_000_000] * 4


@pytest.mark.parametrize(
    "line",
    [
        '{"step": 99999999999999999999999, "iter_ms": 5}',
        '{"a":' * 5000,
        '{"step": 1e300, "iter_ms": 5, "samples": 1e300, "rank": -1}',
        "5% " * 30000,
        "iter 4: loss 3, time 1e400ms",
        "[2022-99-11 02:06:58,985] [Rank 0] 0/40, SamplesPerSec=-nan",
        "iter 5: loss\0 3, time 5ms",
    ],
)
def test_nonsense_among_good_lines_does_no_harm(tmp_path, line):
    for good in ("own.jsonl", "nanogpt_old.log", "steps.csv"):
        text = (DATA / good).read_text()
        (trace,) = read(log(tmp_path, text + line + "\n" + text.splitlines()[-1] + "\n"))
        assert (trace.step_timings.duration > 0).sum() >= 3


def stamped(step_ms, *, clock=True, form="{when} [{i:04d}]: iter 50.0 ms, data 12.0 ms"):
    """Eight lines of a step of 50 ms and data of 12 ms, written every so many ms."""
    lines = []
    for i in range(8):
        at = f"{i * step_ms // 1000:02d}.{i * step_ms % 1000:03d}"
        lines.append(form.format(i=i, when=f"2026-01-05 10:00:{at}" if clock else ""))
    return "\n".join(lines) + "\n"


def notes_of(path, **options):
    (trace,) = read(path, **options)
    return trace.health.notes


@pytest.mark.parametrize(
    ("written_every", "step_ms", "said"), [(62, 62, "do not include"), (50, 50, "include its")]
)
def test_the_clock_says_whether_iterations_include_their_data(
    tmp_path, written_every, step_ms, said
):
    path = log(tmp_path, stamped(written_every))
    assert (steps_of(path).duration / 1e6).tolist() == [step_ms] * 8
    assert any(said in note for note in notes_of(path))


@pytest.mark.parametrize("written_every", [200, 56])
def test_a_clock_that_fits_neither_reading_says_nothing(tmp_path, written_every):
    path = log(tmp_path, stamped(written_every))
    assert (steps_of(path).duration / 1e6).tolist() == [50] * 8
    assert any("compute_ms" in note for note in notes_of(path))


def test_without_a_clock_the_log_is_taken_to_include_its_data_and_says_so(tmp_path):
    path = log(tmp_path, stamped(62, clock=False))
    assert (steps_of(path).duration / 1e6).tolist() == [50] * 8
    assert any("is not known; they are taken to" in note for note in notes_of(path))


def test_the_users_word_decides(tmp_path):
    path = log(tmp_path, stamped(62, clock=False))
    pattern = r"\[(?P<step>\d+)\]: iter (?P<compute_ms>[\d.]+) ms, data (?P<data_ms>[\d.]+) ms"
    assert (steps_of(path, pattern=pattern).duration / 1e6).tolist() == [62] * 8
    assert not any("include" in note for note in notes_of(path, pattern=pattern))
    named = log(
        tmp_path, "".join(f'{{"step": {i}, "compute_ms": 50, "data_ms": 12}}\n' for i in range(4))
    )
    assert (steps_of(named).duration / 1e6).tolist() == [62] * 4
    table = log(tmp_path, "step,compute_ms,data_ms\n" + "".join(f"{i},50,12\n" for i in range(4)))
    assert (steps_of(table).duration / 1e6).tolist() == [62] * 4


def test_the_collectors_own_logs_are_known_to_include_it(tmp_path):
    line = '{{"step": {}, "iter_ms": 50, "host_ms": 50, "data_ms": 12, "timestamp": "2026-01-05 10:00:00.{:03d}"}}\n'
    path = log(tmp_path, "".join(line.format(i, 62 * i) for i in range(8)))
    assert (steps_of(path).duration / 1e6).tolist() == [50] * 8
    assert not any("include" in note for note in notes_of(path))


def test_little_data_time_is_not_worth_a_word(tmp_path):
    path = log(tmp_path, stamped(62, clock=False, form="[{i:04d}]: iter 50.0 ms, data 1.0 ms"))
    assert not any("include" in note for note in notes_of(path))


def test_numbered_iterations(tmp_path):
    path = tmp_path / "a.log"
    path.write_text("".join(f"Iteration {i}: 12{i}.5 ms, data 3 ms\n" for i in range(4)))
    steps = steps_of(path)
    assert steps.step.tolist() == [0, 1, 2, 3]
    assert steps.duration.tolist() == [120_500_000, 121_500_000, 122_500_000, 123_500_000]
    assert steps.data.tolist() == [3_000_000] * 4


PHASES = ("forward: 20.5 ms", "Backward time: 41 ms", "optimizer step: 3.5 ms", "data 5 ms")


@pytest.mark.parametrize("separator", ["\n", ", "])
def test_printed_phases_are_a_step_on_one_line_or_on_several(tmp_path, separator):
    path = tmp_path / "phases.log"
    path.write_text("".join(f"Epoch 1\n{separator.join(PHASES)}\n" for _ in range(4)))
    steps = steps_of(path)
    assert steps.duration.tolist() == [70_000_000] * 4
    assert steps.forward.tolist() == [20_500_000] * 4
    assert steps.backward.tolist() == [41_000_000] * 4
    assert steps.optimizer.tolist() == [3_500_000] * 4
    assert steps.data.tolist() == [5_000_000] * 4


def test_a_total_stands_for_the_sum(tmp_path):
    path = tmp_path / "phases.log"
    path.write_text("forward: 20 ms, backward: 40 ms, total: 65 ms\n" * 3)
    assert steps_of(path).duration.tolist() == [65_000_000] * 3


def test_printed_memory_alone_and_beside_steps(tmp_path):
    lines = "After forward - Allocated: 1.50 GB, Reserved: 2.00 GB\nAfter backward - Allocated: 512.0 MB\n"
    path = tmp_path / "memory.log"
    path.write_text(lines * 2)
    (trace,) = read(path)
    assert trace.printed_memory[:2] == (
        ("forward", 3 << 29, 2 << 30, None, None),
        ("backward", 512 << 20, None, None, None),
    )
    assert not (trace.step_timings.duration > 0).any()
    assert BINARY_MEANS in trace.health.notes
    path.write_text(lines.replace("GB", "GiB").replace("MB", "MiB") * 2)
    (exact,) = read(path)
    assert exact.printed_memory == trace.printed_memory
    assert BINARY_MEANS not in exact.health.notes
    path.write_text("".join(f"iter {i}0.0 ms\n{lines}" for i in range(1, 5)))
    (trace,) = read(path)
    assert len(trace.printed_memory) == 8
    assert trace.step_timings.duration.tolist() == [i * 10_000_000 for i in range(1, 5)]


def test_printed_memory_of_each_step_grows(tmp_path):
    path = tmp_path / "memory.log"
    path.write_text(
        "".join(f"step {i}: alloc {1500 + 24 * i} MiB, peak 4 GiB\n" for i in range(0, 90, 10))
    )
    (trace,) = read(path)
    stats = stats_of_printed(trace.printed_memory)
    assert (stats.peak, stats.growth, stats.growth_per_step) == (4 << 30, "growth", 24 << 20)
    path.write_text("".join(f"step {i}: alloc {1500 + i % 2} MiB\n" for i in range(9)))
    (trace,) = read(path)
    steady = stats_of_printed(trace.printed_memory)
    assert (steady.peak, steady.growth, steady.growth_per_step) == (1501 << 20, "unknown", None)
    path.write_text("After forward: 1.50 GiB\nAfter the optimizer step: 2.10 GiB\n")
    (trace,) = read(path)
    assert [row.after for row in trace.printed_memory] == ["forward", "optimizer"]


def test_objects_behind_a_word(tmp_path):
    data = '"data": {"train_time": 1.0, "loss": 2}'
    lines = [
        f'DLLL {{"timestamp": "{i}.0", "elapsedtime": "{i}.5", "step": [1, {i}], {data}}}\n'
        for i in range(10, 16)
    ]
    path = tmp_path / "dllogger.log"
    path.write_text("".join(lines))
    steps = steps_of(path)
    assert steps.step.tolist() == list(range(10, 16))
    assert steps.duration.tolist() == [10**9] * 6


def test_tables_of_epochs_and_of_one_column(tmp_path):
    path = tmp_path / "fastai.txt"
    path.write_text("epoch     train_loss  time    \n0   0.41   00:40\n1   0.40   01:02\n")
    assert steps_of(path).duration.tolist() == [40 * 10**9, 62 * 10**9]
    path.write_text("step_time_ms\n400.0\n402.0\n401.0\n")
    assert steps_of(path).duration.tolist() == [400_000_000, 402_000_000, 401_000_000]
    path.write_text("".join(f'{{"i": {i}, "latency_ms": 5.0}}\n' for i in range(4)))
    assert steps_of(path).duration.tolist() == [5_000_000] * 4


BATCHES = {
    "vllm_iterations.log": [(1, 888, 19, 19, -1), (0, 0, 20, 20, -1), (0, 0, 20, 20, -1)],
    "tensorrt_llm.log": [(1, 700, 8, -1, 5000), (0, 0, 9, -1, -1)],
    "tensorrt_llm_metrics.jsonl": [(1, 700, 8, -1, 5000), (0, 0, 9, -1, 5009), (0, 0, 9, -1, 5018)],
    "sglang.log": [(2, 1025, 0, -1, -1), (0, -1, 5, -1, 5125), (0, -1, 5, -1, 5325)],
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches_of_a_servers_log(name):
    steps = steps_of(DATA / name)
    columns = (
        steps.context_requests,
        steps.context_tokens,
        steps.generation_requests,
        steps.generation_tokens,
    )
    assert (
        list(zip(*(c.tolist() for c in (*columns, steps.kv_tokens)), strict=True)) == BATCHES[name]
    )
    assert steps.of_server
