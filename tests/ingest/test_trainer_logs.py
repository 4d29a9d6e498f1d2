"""A log of each trainer, as the program prints it: its steps and their times."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from tests.ingest.trainer_logs import CASES
from tests.protobuf import field, message
from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.ingest.detect import detect
from traceanalyzer.ingest.timing import read
from traceanalyzer.ingest.timing.clocks import counts_up, differences
from traceanalyzer.ingest.timing.names import Meaning, meaning

DATA = Path(__file__).parents[1] / "data" / "timing"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_log_of_each_trainer(case):
    (trace,) = detect(DATA / case.name).read(DATA / case.name)
    assert trace.health.notes[0] == f"Read as a timing log ({case.form})."
    assert trace.step_timings.step.tolist() == case.steps
    times = [time / 1e6 if time >= 0 else None for time in trace.step_timings.duration.tolist()]
    assert times == [None if ms is None else pytest.approx(ms, abs=2e-3) for ms in case.times_ms]


def log_of(name):
    (trace,) = read(DATA / name)
    return trace


def test_time_for_data():
    for name, data_ms in (
        ("detectron2.log", 39.0),
        ("timm.log", 39.0),
        ("metric_logger.log", 234.0),
        ("lerobot.log", 10.0),
        ("prefixed.log", 39.0),
        ("espnet.log", 234.0),
        ("paddle.log", 237.0),
    ):
        assert log_of(name).step_timings.data[0] == data_ms * 1e6, name


def test_loss_norm_and_memory():
    for name, loss, norm in (
        ("build_nanogpt.log", 10.9, 2.5),
        ("llm_c.log", 10.9, 15.3),
        ("fairseq.log", 15.012, 3.1),
        ("verl.log", 0.011, 0.21),
    ):
        log = log_of(name).step_timings
        assert (log.loss[0], log.grad_norm[0]) == (loss, norm), name
    for name, mib in (("detectron2.log", 4121), ("mmengine.log", 3902), ("olmo.log", 21311)):
        assert log_of(name).step_timings.peak_memory_bytes[0] == mib << 20, name


def test_a_loss_printed_between_redrawn_bars_is_that_of_their_step(tmp_path):
    path = tmp_path / "train.log"
    lines = [
        f"{i}%|#   | {i}/100 [00:30<19:00,  2.00s/it]\n{{'loss': {3 - i / 10:.1f}, 'epoch': 0.1}}\n"
        for i in range(1, 5)
    ]
    path.write_text("".join(lines))
    assert read(path)[0].step_timings.loss.tolist() == [2.9, 2.8, 2.7, 2.6]


def test_phases_by_names_of_the_programs_own():
    trace = log_of("verl.log")
    assert [phase.name for phase in trace.logged_phases] == ["rollout", "update_actor", "ref"]
    assert trace.logged_phases[0].duration.tolist()[:2] == [23_400_000_000, 23_700_000_000]


def test_a_log_with_the_rank_in_front():
    assert log_of("nemo.log").rank == 3


@pytest.mark.parametrize(
    "line",
    [
        "step {n} elapsed {clock:.3f} s",
        "iter {n}: {clock:.2f}s",
        '{{"step": {n}, "time_s": {clock:.3f}}}',
        "[{n}/100] total time: {clock:.2f} s, loss 2.3",
    ],
)
def test_a_clock_since_the_start_is_no_step(tmp_path, line):
    path = tmp_path / "train.log"
    clock = np.cumsum([0.14, 0.15, 0.16] * 20)
    path.write_text("".join(line.format(n=n + 1, clock=t) + "\n" for n, t in enumerate(clock)))
    duration = read(path)[0].step_timings.duration
    assert np.median(duration[1:]) / 1e6 == pytest.approx(150, abs=10.1)


def test_steps_that_become_slower_are_no_clock():
    steps = np.arange(100.0)
    assert not counts_up(100 + steps, steps)
    assert counts_up(0.4 * (steps + 1), steps)
    assert counts_up(0.4 * (steps + 500), steps + 500)
    assert not counts_up(np.full(100, 0.4), steps)
    assert not counts_up(np.array([0.4, 0.5]), np.array([0.0, 1.0]))


def test_a_clock_in_whole_seconds_tells_the_mean_alone():
    steps = np.arange(10.0) * 10
    found = differences(np.array([0.0, 4, 8, 13, 17, 21, 26, 30, 34, 38]), steps)
    assert found.is_mean
    assert found.each.tolist() == pytest.approx([38 / 90] * 10)
    fine = differences(np.array([0.0, 40, 81, 120]), np.array([0.0, 100, 200, 300]))
    assert not fine.is_mean
    assert fine.each[1:].tolist() == [0.40, 0.41, 0.39]


MEANINGS = {
    ("train/perf/data_s", ""): Meaning("data_s"),
    ("timing_s/step", ""): Meaning("iter_s"),
    ("timing_s/gen", ""): Meaning("phase:rollout"),
    ("elapsed time per iteration (ms)", ""): Meaning("iter_s", 1e-3),
    ("elapsed_time_per_iteration_ms", "K"): Meaning("iter_s", 1.0),
    ("train_step_timing in s", ""): Meaning("iter_s"),
    ("step_avg", "ms"): Meaning("mean_s", 1e-3),
    ("max_mem", "M"): Meaning("peak_memory_bytes", 2.0**20),
    ("Tokens/s/device", ""): Meaning("tokens_per_s"),
    ("", "ms/step"): Meaning("iter_s", 1e-3),
    ("bf16 MFU", "%"): Meaning("mfu", 0.01),
    ("val_loss", ""): None,
    ("eval/step_time_s", ""): None,
    ("loss_scale", ""): None,
    ("timing_per_token_ms/gen", ""): None,
    ("global_seqlen/min", ""): None,
}


@pytest.mark.parametrize(("key", "unit"), MEANINGS)
def test_what_a_key_means(key, unit):
    assert meaning(key, unit) == MEANINGS[key, unit]


@pytest.mark.parametrize("line", ["Test: [{n}/90]", "Epoch(val) [1][{n}/90]", "Validation {n}/90"])
def test_lines_of_evaluation_are_no_steps(tmp_path, line):
    path = tmp_path / "train.log"
    train = "".join(f"Epoch: [0][{n}/90] Time 0.400 Data 0.010 Loss 2.3\n" for n in range(5))
    evaluation = "".join(line.format(n=n) + " Time 0.100 Data 0.001 Loss 2.0\n" for n in range(9))
    path.write_text(train + evaluation)
    assert read(path)[0].step_timings.duration.tolist() == [400_000_000] * 5


def test_the_unit_of_a_bare_time_is_told_by_the_time_between_lines(tmp_path):
    path = tmp_path / "train.log"
    path.write_text(
        "".join(
            f"2026-05-11 08:00:{i * 4 // 10:02d},{i * 400 % 1000:03d} step {i} step_time {390 + i}\n"
            for i in range(9)
        )
    )
    (trace,) = read(path)
    assert trace.step_timings.duration.tolist()[:2] == [390_000_000, 391_000_000]
    assert any("say no unit: ms" in note for note in trace.health.notes)


def trainer_state(tmp_path):
    history = [{"epoch": i / 10, "loss": 3 - i / 10, "step": i * 10} for i in range(1, 5)]
    history.append({"epoch": 0.4, "eval_loss": 2.0, "eval_steps_per_second": 20.0, "step": 40})
    summary = {"step": 40, "train_runtime": 16.0, "train_steps_per_second": 2.5, "train_loss": 2.7}
    path = tmp_path / "trainer_state.json"
    state = {"best_metric": None, "global_step": 40, "log_history": [*history, summary]}
    path.write_text(json.dumps(state, indent=2))
    return path


def test_the_state_of_hfs_trainer(tmp_path):
    path = trainer_state(tmp_path)
    (trace,) = detect(path).read(path)
    assert trace.step_timings.step.tolist() == [10, 20, 30, 40]
    assert trace.step_timings.duration.tolist() == [400_000_000] * 4
    assert trace.step_timings.loss.tolist() == pytest.approx([2.9, 2.8, 2.7, 2.6])
    assert "The only time in this log is the mean over the whole training." in trace.health.notes


@pytest.mark.parametrize(
    "document",
    [
        [{"step": i, "iter_ms": 40 + i} for i in range(3)],
        {"history": {"step": [0, 1, 2], "iter_ms": [40, 41, 42]}},
        {"runs": [{"steps": [{"iter_ms": 40 + i, "loss": 2.0} for i in range(3)]}, 1][:1]},
    ],
)
def test_documents_with_a_list_of_steps(tmp_path, document):
    path = tmp_path / "log.json"
    for text in (json.dumps(document), json.dumps(document, indent=1)):
        path.write_text(text)
        times = detect(path).read(path)[0].step_timings.duration
        assert times.tolist() == [40_000_000, 41_000_000, 42_000_000]


def test_a_report_is_no_log(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"schema_version": 2, "steps": [{"step": 1, "iter_ms": 2.0}] * 9}))
    with pytest.raises(UnreadableInputError):
        detect(path)


def test_binary_files_are_no_logs(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(range(32)) * 20 + b"step 1: 2 ms\n" * 9)
    with pytest.raises(UnreadableInputError):
        detect(path)


def record_of(*event):
    """A record of an event file; its checksums are not looked at."""
    body = message(*event)
    return struct.pack("<QI", len(body), 0) + body + bytes(4)


def simple(tag, value):
    return field(1, field(1, tag) + bytes([2 << 3 | 5]) + struct.pack("<f", value))


def tensor(tag, value):
    return field(1, field(1, tag) + field(8, field(1, 1) + field(5, struct.pack("<f", value))))


def event_file(path, *, times=True):
    records = [record_of((1, 1.0e9), (3, "brain.Event:2"))]
    for i in range(5):
        records.append(
            record_of((1, 1.7e9 + i * 0.4), (2, i), (5, simple("train/loss", 3 - i / 4)))
        )
        if times:
            step_time = simple("perf/step_time_ms", 390.0 + i)
            records.append(record_of((1, 1.7e9 + i * 0.4), (2, i), (5, step_time)))
    path.write_bytes(b"".join(records))
    return path


def test_event_files_of_tensorboard(tmp_path):
    path = event_file(tmp_path / "events.out.tfevents.1")
    (trace,) = detect(path).read(path)
    assert trace.health.notes[0] == "Read as a timing log (TensorBoard)."
    assert trace.step_timings.duration.tolist() == [(390 + i) * 1_000_000 for i in range(5)]
    assert trace.step_timings.loss.tolist() == [3, 2.75, 2.5, 2.25, 2]


def test_without_step_times_the_wall_clock_tells(tmp_path):
    path = event_file(tmp_path / "events", times=False)
    duration = detect(path).read(path)[0].step_timings.duration
    assert (duration[1:] / 1e6).tolist() == pytest.approx([400] * 4, abs=0.01)


def test_damaged_event_files(tmp_path):
    whole = event_file(tmp_path / "events").read_bytes()
    for data in (whole[:-9], whole + b"\xff" * 40):
        path = tmp_path / "cut"
        path.write_bytes(data)
        (trace,) = detect(path).read(path)
        assert trace.health.truncated
        assert len(trace.step_timings) == 5


def test_scalars_written_as_tensors(tmp_path):
    path = tmp_path / "events"
    records = [record_of((1, 1.0e9), (3, "brain.Event:2"))]
    records += [record_of((1, 1.7e9), (2, i), (5, tensor("step_time_s", 0.4))) for i in range(3)]
    path.write_bytes(b"".join(records))
    duration = detect(path).read(path)[0].step_timings.duration
    assert (duration / 1e6).tolist() == pytest.approx([400] * 3)


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("step   loss   step_time_ms", "{}      2.31   400.0"),
        ("| step | loss | time (s) |\n|---|---|---|", "| {} | 2.31 | 0.400 |"),
    ],
)
def test_tables_that_spaces_or_lines_part(tmp_path, header, row):
    path = tmp_path / "log.txt"
    path.write_text("\n".join([header, *(row.format(i) for i in range(4))]))
    (trace,) = detect(path).read(path)
    steps = trace.step_timings
    timed = steps.duration > 0
    assert steps.step[timed].tolist() == [0, 1, 2, 3]
    assert set(steps.duration[timed].tolist()) == {400_000_000}


def test_a_clock_without_steps_is_not_parted(tmp_path):
    path = tmp_path / "train.log"
    path.write_text("".join(f"rate: 2.5it/s elapsed: 00:{i:02d} loss=2.3\n" for i in range(9)))
    assert set(read(path)[0].step_timings.duration.tolist()) == {400_000_000}
