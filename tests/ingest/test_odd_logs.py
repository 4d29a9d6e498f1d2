"""Logs whose numbers mean something else than those of others: intervals, epochs, samples, means."""

import json

import pytest

from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.ingest.detect import detect


def log_of(tmp_path, line, count=6):
    path = tmp_path / "train.log"
    path.write_text("".join(line(i) + "\n" for i in range(1, count + 1)))
    (trace,) = detect(path).read(path)
    return trace


def times_ms(trace):
    return [round(time / 1e6, 3) for time in trace.step_timings.duration.tolist()]


def test_a_time_of_all_steps_since_the_line_before(tmp_path):
    for line in (
        lambda i: f"INFO:tensorflow:loss = 0.3, step = {i * 100} (40.000 sec)",
        lambda i: (
            f"[HCTR][10:00:0{i}.0][INFO][RK0][main]: Iter: {i * 100} Time(100 iters): 40.0s Loss: 0.1"
        ),
        lambda i: (
            f"Ep. 1 : Up. {i * 100} : Sen. {i * 640} : Cost 6.5 * 12 : Time 40.00s : 300 words/s"
        ),
    ):
        assert times_ms(log_of(tmp_path, line)) == [400.0] * 6


def test_an_epoch_is_no_step(tmp_path):
    trace = log_of(tmp_path, lambda i: f"Epoch [{i}/40] Train Loss: 2.1 | Time: 40.0s")
    assert trace.logged_epochs
    assert "The log times epochs, no steps." in trace.health.notes
    trace = log_of(
        tmp_path, lambda i: f"Epoch {i}/40: loss=2.1, epoch_time=40.0s, avg_batch_time=0.400s"
    )
    assert not trace.logged_epochs
    assert times_ms(trace) == [400.0] * 6


def test_means_since_the_start_tell_no_slow_step(tmp_path):
    trace = log_of(tmp_path, lambda i: f"[{i}/99] loss: 2.1 avg step: {400 + 200 / i:.1f} ms")
    assert trace.logged_means


def test_counts_of_samples_are_no_steps(tmp_path):
    trace = log_of(
        tmp_path,
        lambda i: (
            f"Train Epoch: 0 [{i * 12800}/1280000 ({i}%)] Data (t): 0.240 Batch (t): 0.400, "
            "640.0/s, 80.0/s/gpu LR: 0.000100 Loss: 4.5 (4.6)"
        ),
    )
    assert times_ms(trace) == [400.0] * 6
    assert trace.step_timings.data.tolist() == [240_000_000] * 6


def test_keras_counts_samples(tmp_path):
    trace = log_of(
        tmp_path, lambda i: "60000/60000 [==========] - 3s 50us/sample - loss: 0.22 - acc: 0.9"
    )
    assert trace.step_timings.duration.tolist() == [-1] * 6
    assert trace.step_timings.samples_per_s[0] == pytest.approx(20_000)


def test_numbers_without_names(tmp_path):
    for line in (
        lambda i: f"{i}: 5.2, 5.1 avg loss, 0.001 rate, 0.400000 seconds, {i * 64} images",
        lambda i: f"  {i} 400.00 ms run, 1.2 ms python, 2.0 ms fetch data, 396.0 ms CUDA, 7.1 loss",
        lambda i: f"{i} | loss 7.1 | lr 1.0e-05 | 400.00ms | mfu 3.2%",
    ):
        trace = log_of(tmp_path, line)
        assert trace.step_timings.step.tolist() == [1, 2, 3, 4, 5, 6]
        assert times_ms(trace) == [400.0] * 6


def test_a_thousand_images_of_stylegan(tmp_path):
    trace = log_of(
        tmp_path, lambda i: f"tick {i} kimg {i}.0 time 1m 20s sec/tick 80.0 sec/kimg 20.00 gpumem 9"
    )
    assert trace.step_timings.samples_per_s[0] == pytest.approx(50)


def test_dllogger_on_a_console(tmp_path):
    trace = log_of(
        tmp_path,
        lambda i: f"DLL 2024-05-01 10:00:0{i}.000 - 0 | {i} | train_loss : 2.0  train_time : 0.9",
    )
    assert times_ms(trace) == [900.0] * 6
    trace = log_of(
        tmp_path,
        lambda i: (
            f"DLL 2024-05-01 10:00:0{i}.000 - Training Epoch: 0 Training Iteration: {i * 10} loss : 6"
        ),
    )
    assert times_ms(trace)[1:] == [100.0] * 5


def test_what_a_logger_of_json_was_told(tmp_path):
    trace = log_of(
        tmp_path,
        lambda i: json.dumps(
            {"ts": f"2024-05-01T10:00:0{i}.0Z", "msg": f"step {i} loss 2.1 dt 400.0ms"}
        ),
    )
    assert times_ms(trace) == [400.0] * 6


def test_tokens_that_count_up_without_a_step(tmp_path):
    trace = log_of(
        tmp_path,
        lambda i: (
            f"{{'loss': 0.1, 'learning_rate': 1e-06, 'num_tokens': {i * 4000}.0, "
            f"'step_time': 12.0, 'epoch': {i / 100}}}"
        ),
    )
    assert times_ms(trace) == [12_000.0] * 6
    assert trace.step_timings.tokens[1:].tolist() == [4_000] * 5


def test_no_pattern_takes_a_loss_for_a_time(tmp_path):
    with pytest.raises(UnreadableInputError) as error:
        log_of(tmp_path, lambda i: f"epoch: {i}, lr: 0.001 - train loss: 2.{i} - valid loss: 2.{i}")
    assert "its lines name no time of a step" in str(error.value)


def test_a_peak_that_stands_alone_is_the_peak(tmp_path):
    path = tmp_path / "train.log"
    path.write_text("After forward: 5.0 GB\nAfter backward: 6.0 GB\nPeak: 7.0 GB\n")
    (trace,) = detect(path).read(path)
    assert max(memory.allocated for memory in trace.printed_memory) == 7 * 2**30


def test_a_date_and_a_count_that_stands_are_no_steps(tmp_path):
    for line in (
        lambda i: f"[05/01/24 10:00:0{i}] INFO [Epoch 0 / Train]: Step time: 0.400s, Loss: 2.1",
        lambda i: f"[CV 1/5] END C={i}; score=0.9 step time= 0.4s",
    ):
        assert times_ms(log_of(tmp_path, line)) == [400.0] * 6


def test_bars_over_something_else_say_no_rate(tmp_path):
    with pytest.raises(UnreadableInputError):
        log_of(
            tmp_path,
            lambda i: f"Map:  {i}%|# | {i * 50}/5000 [00:0{i}<00:20, 50.00 examples/s]",
        )


def test_of_a_log_of_two_runs_the_last_is_read(tmp_path):
    """One starts anew, one at a checkpoint's step, one with a clock that counts from its start."""
    for line in (
        lambda i: f"step {(i - 1) % 9} loss 2.1 dt {400 if i < 10 else 200}.0ms",
        lambda i: f"step {i if i < 10 else i - 4} loss 2.1 dt {400 if i < 10 else 200}.0ms",
        lambda i: (
            f"step:{(i - 1) % 11 + 1}/90 train_time:{(400 if i < 12 else 200) * ((i - 1) % 11)}ms"
        ),
    ):
        trace = log_of(tmp_path, line, count=18)
        durations = trace.step_timings.duration
        assert set(durations[durations >= 0].tolist()) == {200_000_000}
        assert any("The log holds 2 runs" in note for note in trace.health.notes)


def test_a_run_that_times_no_step_is_left_out(tmp_path):
    path = tmp_path / "train.log"
    times = ("5s", "5s", "9s")
    timed = "".join(f"iter {36 + i}: loss, time {time}\n" for i, time in enumerate(times))
    path.write_text(f"it 641\nit 6\n{timed}it 39\n")
    (trace,) = detect(path).read(path)
    assert times_ms(trace) == [5000.0, 5000.0, 9000.0]
    assert any(note.startswith("1 run in the log") for note in trace.health.notes)


def test_epochs_without_a_number_and_a_late_line_are_one_run(tmp_path):
    trace = log_of(tmp_path, lambda i: f"step {(i - 1) % 6} loss 2.1 dt 400.0ms", count=24)
    assert len(trace.step_timings) == 24
    trace = log_of(tmp_path, lambda i: f"step {i if i != 12 else 9} loss 2.1 dt 400.0ms", count=18)
    assert len(trace.step_timings) == 17
    assert not any("2 runs" in note for note in trace.health.notes)


def test_no_pattern_is_made_of_what_is_no_time(tmp_path):
    for line in (
        lambda i: f"step {i} loss 2.{i} ETA: {90 - i}s",
        lambda i: f"{{'eps': {30 + i}, 'kl': 0.{i}, 'episode': {i * 64}}}",
        lambda i: f"step {i} time/sample: 12.{i} ms",
        lambda i: f"   {i}0.0/755.5 MB {i}.1 MB/s",
    ):
        with pytest.raises(UnreadableInputError) as error:
            log_of(tmp_path, line)
        assert "its lines name no time of a step" in str(error.value), line(1)
    path = tmp_path / "metrics.csv"
    path.write_text("".join(["epoch,train_loss,lr\n", *(f"{i},2.{i},0.001\n" for i in range(9))]))
    with pytest.raises(UnreadableInputError) as error:
        detect(path)
    assert "--pattern" not in str(error.value)


def test_a_number_in_brackets_is_no_json(tmp_path):
    for line in (lambda i: f"[{i}]\ttrain-auc:0.{i}", lambda i: f"[123.{i}] NVRM: Xid 79"):
        with pytest.raises(UnreadableInputError) as error:
            log_of(tmp_path, line)
        assert "JSON" not in str(error.value)
