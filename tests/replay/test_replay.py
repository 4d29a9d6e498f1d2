from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.analysis.causes.test_gaps import Program
from tests.recorded import CASES, ranks, recording
from traceanalyzer.analysis.tables.timing import UnprofiledTime
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.diagnosis.remedies.host import NO_ALLOCATIONS
from traceanalyzer.ingest import load
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.scenario import Scenario, combined
from traceanalyzer.replay.scenarios import (
    COMMUNICATION_FREE,
    COMMUNICATION_OVERLAPPED,
    COPIES_HIDDEN,
    INPUT_READY,
    LAUNCHES_FREE,
    NO_HOST_SYNCS,
    NO_HOST_WORK,
)
from traceanalyzer.replay.simulate import step_time_ns
from traceanalyzer.replay.tape import Tape
from traceanalyzer.replay.whatif import Replay
from traceanalyzer.trace import CopyKind, DeviceOpKind

if TYPE_CHECKING:
    from collections.abc import Callable

GEMM = "ampere_bf16_s16816gemm_bf16_128x64"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def steps(step: object, count: int = 6) -> Measurements:
    program = Program()
    for i in range(count):
        start = program.now
        step(program)
        program.annotation(f"ProfilerStep#{i}", start, program.now)
    return measure(program.build())


def replayed(step: object, scenario: Scenario | None = None) -> float:
    """Step time in us, with the profiler's cost left in."""
    tape = make_tape(steps(step).rated)
    assert tape is not None
    return step_time_ns(scenario.change(tape) if scenario else tape) / 1e3


def gpu_bound(p: Program) -> None:
    p.launch(GEMM, 400).launch(GEMM, 400)


def host_bound(p: Program) -> None:
    for _ in range(10):
        p.spend(40).launch(GEMM, 3)


def waiting(p: Program) -> None:
    p.spend(20).launch(GEMM, 300).sync().spend(60)


def loading(p: Program) -> None:
    p.within("enumerate(DataLoader)#x.__next__", 3000).launch(GEMM, 200)


def thinking(p: Program) -> None:
    p.launch(GEMM, 200).spend(900)


def copying(p: Program) -> None:
    p.launch("Memcpy HtoD (Pinned -> Device)", 500, "cudaMemcpyAsync", DeviceOpKind.MEMCPY)
    p.rows["op"][-1] |= {"copy_kind": CopyKind.HOST_TO_DEVICE, "bytes": 1 << 20}
    p.launch(GEMM, 100)


def communicating(p: Program) -> None:
    p.launch(GEMM, 300).launch(NCCL, 200)


@pytest.mark.parametrize(
    "step", [gpu_bound, host_bound, waiting, loading, thinking, copying, communicating]
)
def test_the_unchanged_recording_is_reproduced(step: object) -> None:
    ctx = steps(step)
    assert replayed(step) == pytest.approx(
        float(np.mean(ctx.timed.steps.duration[1:])) / 1e3, rel=0.02
    )


def test_each_scenario_takes_its_own_part_away() -> None:
    assert replayed(host_bound, LAUNCHES_FREE) == pytest.approx(10 * 3.4, rel=0.05)
    assert replayed(loading, INPUT_READY) == pytest.approx(200, rel=0.05)
    assert replayed(thinking, NO_HOST_WORK) == pytest.approx(200, rel=0.05)
    assert replayed(copying, COPIES_HIDDEN) == pytest.approx(101, rel=0.05)
    assert replayed(communicating, COMMUNICATION_FREE) == pytest.approx(301, rel=0.02)
    assert replayed(communicating, COMMUNICATION_OVERLAPPED) == pytest.approx(401, rel=0.02)
    assert replayed(waiting, NO_HOST_SYNCS) == pytest.approx(301, rel=0.02)
    assert replayed(waiting) > 380


@pytest.mark.parametrize("step", [gpu_bound, communicating])
def test_what_the_device_hides_gains_nothing(step: object) -> None:
    for scenario in (LAUNCHES_FREE, NO_HOST_SYNCS, INPUT_READY, NO_HOST_WORK):
        assert replayed(step, scenario) == pytest.approx(replayed(step), rel=0.01)


def test_gains_do_not_add() -> None:
    """Without the waits the host is the limit, without launches the waits are; both gone leave the
    device's work."""

    def both(p: Program) -> None:
        for _ in range(4):
            p.spend(80).launch(GEMM, 20).sync()

    assert replayed(both, combined(NO_HOST_SYNCS, LAUNCHES_FREE)) == pytest.approx(
        4 * 20.4, rel=0.05
    )
    assert replayed(both, NO_HOST_SYNCS) > 4 * 80


def operator(p: Program, name: str, us: float) -> Program:
    """An operator of PyTorch that launches a kernel at its end."""
    p.op(name, p.now, p.now + us + 4)
    return p.spend(us).launch(GEMM, 3)


def test_a_wait_goes_with_the_python_that_leads_to_it() -> None:
    """Of 24 us in each of two operators, 5 between them, 8 to get to the wait, the wait and 5 after
    it, 58 are left; of a longer way there four usual pauses go."""

    def ending(before: float) -> Callable[[Program], object]:
        def step(p: Program) -> None:
            for _ in range(8):
                operator(p, "aten::linear", 20).spend(5)
                operator(p, "aten::tanh", 20).spend(before).sync("cudaDeviceSynchronize").spend(5)

        return step

    assert replayed(ending(8), NO_HOST_SYNCS) == pytest.approx(8 * 58, rel=0.03)
    assert replayed(ending(30), NO_HOST_SYNCS) == pytest.approx(8 * (58 + 10), rel=0.03)


def test_without_its_wait_nonzero_is_gone() -> None:
    def masked(p: Program) -> None:
        for _ in range(4):
            operator(p, "aten::relu", 20)
            begin = p.now
            p.spend(30).launch(GEMM, 40).sync().spend(10).launch(GEMM, 40)
            p.op("aten::nonzero", begin, p.now)

    assert replayed(masked, NO_HOST_SYNCS) == pytest.approx(4 * 24, rel=0.03)


def test_pauses_of_the_framework_are_launches_and_the_programs_work_is_not() -> None:
    def pausing(us: float) -> Callable[[Program], object]:
        def step(p: Program) -> None:
            operator(p, "aten::relu", 20).spend(us)
            operator(p, "aten::relu", 20)

        return step

    assert replayed(pausing(150), LAUNCHES_FREE) == pytest.approx(2 * 3.4, rel=0.1)
    assert replayed(pausing(900), LAUNCHES_FREE) == pytest.approx(900, rel=0.02)


def test_an_outlying_step_is_left_out() -> None:
    program = Program()
    for i in range(8):
        start = program.now
        program.spend(5000 if i == 5 else 0)
        host_bound(program)
        program.annotation(f"ProfilerStep#{i}", start, program.now)
    tape = make_tape(measure(program.build()).rated)
    assert tape is not None
    assert tape.steps == 7
    assert step_time_ns(tape) / 1e3 == pytest.approx(replayed(host_bound), rel=0.02)


def test_the_last_step_takes_the_host_no_longer_than_it_lasted() -> None:
    """A host that is ahead issues the last step slowly, and the device waits for nothing."""
    program = Program()
    for number in range(4):
        start = program.now
        for _ in range(10):
            program.spend(250 if number == 3 else 20).launch(GEMM, 100)
        program.annotation(f"ProfilerStep#{number}", start, program.now)
    m = measure(program.build())
    tape = make_tape(m.rated)
    assert tape is not None
    last = tape.step_of_event == 3
    assert tape.host_before_event[last].sum() <= 1.01 * m.timed.steps.duration[3]


def test_no_loading_is_cut_off_a_step_that_took_the_host_longer() -> None:
    """A host that is ahead may take longer for a step than that lasted: what is too much of it is
    what the recorder slows."""
    program = Program()
    for number in range(4):
        start = program.now
        program.within("enumerate(DataLoader)#x.__next__", 300)
        for _ in range(10):
            program.spend(200 if number == 2 else 20).launch(GEMM, 100)
        program.annotation(f"ProfilerStep#{number}", start, program.now)
    m = measure(program.build())
    tape = make_tape(m.rated)
    assert tape is not None
    assert tape.loading.sum() == pytest.approx(4 * 300e3, rel=0.01)
    slow = tape.step_of_event == 2
    assert tape.host_before_event[slow].sum() <= 1.01 * m.timed.steps.duration[2]


def test_a_host_that_is_ahead_loses_no_launches() -> None:
    """While queued work lasts, a step may take the host longer than the device, which still runs
    all of its ops."""
    program = Program()
    for i in range(4):
        start = program.now
        for part in range(8):
            program.launch(GEMM, 500).spend(1000 if i == 2 and part == 3 else 0)
        program.spend(4500 if i == 2 else 20)
        program.annotation(f"ProfilerStep#{i}", start, program.now)
    tape = make_tape(measure(program.build()).rated)
    assert tape is not None
    assert len(tape.row) == 4 * 8
    assert step_time_ns(tape) / 1e3 == pytest.approx(8 * 501, rel=0.01)


def test_what_is_left_of_a_shorter_copy_bounds_no_range() -> None:
    """A copy of 500 us and a kernel of 100: of the copy a fifth is left, or the host is faster."""
    replay = Replay.of(steps(copying).rated)
    assert replay is not None

    def shorter(tape: Tape) -> Tape:
        return tape.retimed(np.where(tape.copy, tape.duration // 5, tape.duration))

    def faster_host(tape: Tape) -> Tape:
        return tape.with_dispatch(tape.dispatch // 2)

    left = replay.predict(Scenario("copy_less", shorter, "a fifth of the data"))
    kept = replay.predict(Scenario("copy_less", faster_host, "all of the data"))
    assert left.low_ms is not None
    assert kept.low_ms is not None
    assert 0.09 < left.low_ms < 0.92 * 0.2
    assert kept.low_ms > 0.55


def test_the_host_is_fitted_to_a_measured_step_time() -> None:
    replay = Replay.of(steps(host_bound).rated, UnprofiledTime(0.3, 0.29, 0.31))
    assert replay is not None
    assert replay.base_ms == pytest.approx(0.3, rel=0.01)


def test_a_wait_stays_where_the_timed_steps_had_less_device_work() -> None:
    """4 ms of kernels, then a call that frees memory: it waits for them and takes 400 us. The timed
    steps take 3.3 ms, less than the recorded kernels."""

    def step(p: Program) -> None:
        for _ in range(8):
            p.launch("k", 500)
        p.call("cudaFree", p.now, p.device_free + 400)
        p.now = p.device_free + 400

    m = steps(step)
    replay = Replay.of(m.rated, UnprofiledTime(3.3, 3.2, 3.4))
    assert replay is not None
    assert replay.base_ms == pytest.approx(3.3)
    left = replay.step_under_ms(NO_ALLOCATIONS)
    assert left == pytest.approx(3.3 * 4.0 / 4.4, rel=0.02)


def fed(name: str) -> Callable[[Program], object]:
    def step(p: Program) -> None:
        p.within(f"enumerate(DataLoader)#{name}.__next__", 3000)
        p.launch(GEMM, 200)

    return step


def test_batches_that_were_ready_while_steps_were_recorded_are_waited_for_as_long_as_timed() -> (
    None
):
    timed = UnprofiledTime(10.0, 9.9, 10.1)
    workers = Replay.of(steps(fed("_MultiProcessingDataLoaderIter")).rated, timed)
    single = Replay.of(steps(fed("_SingleProcessDataLoaderIter")).rated, timed)
    assert workers is not None
    assert single is not None
    assert workers.base_ms == single.base_ms == pytest.approx(10.0)
    assert workers.step_under_ms(INPUT_READY) == pytest.approx(0.2, rel=0.2), (
        "the rest of the step is as recorded"
    )
    assert workers.typical[0].loading.sum() > 2.5 * single.typical[0].loading.sum()


def test_without_launches_there_is_no_replay() -> None:
    assert Replay.of(measure(Program().launch().build()).rated) is not None, (
        "the recording is the unit"
    )
    assert make_tape(measure(Program().kernel("k", 0, 10).build()).rated) is None


def nearest(value: float, rounds: list[float]) -> float:
    """The stopwatch's own round that is nearest to the value, which it may lie between."""
    return min(max(value, min(rounds)), max(rounds))


def test_fidelity_and_unprofiled_step_times_on_labelled_recordings() -> None:
    """The bars: fidelity 2 % in the median and 8 % at worst; unprofiled 8 % in the median, 20 % for
    nine in ten."""
    fidelity = []
    error = []
    for name, case in CASES.items():
        replay = measure(load(ranks(name)[:1]).traces[0]).replay
        assert replay is not None
        fidelity.append(abs(replay.fidelity_error))
        error.append(abs(replay.base_ms / nearest(replay.base_ms, case["rounds_ms"]) - 1))
    assert np.median(fidelity) < 0.02
    assert max(fidelity) < 0.08
    assert np.median(error) < 0.08
    assert np.mean(np.array(error) < 0.2) >= 0.9


ABLATIONS = {
    "ablations/item_small_layers": NO_HOST_SYNCS,
    "ablations/item_long_layers": NO_HOST_SYNCS,
    "ablations/python_hidden": NO_HOST_WORK,
    "ablations/copy_pinned": COPIES_HIDDEN,
    "ablations/graph_decode": LAUNCHES_FREE,
    "ablations/tp_small": COMMUNICATION_FREE,
    "kineto/python_between_ops": NO_HOST_WORK,
    "kineto/tiny_mlp_infer": LAUNCHES_FREE,
    "ranks2/tensor_parallel": COMMUNICATION_FREE,
}


def test_predictions_agree_with_the_ablations_in_the_median() -> None:
    errors = []
    for name, scenario in ABLATIONS.items():
        replay = measure(load(ranks(f"{name}.base")[:1]).traces[0]).replay
        assert replay is not None
        predicted = replay.predict(scenario).step_ms
        truth = CASES.get(f"{name}.without") or CASES[f"{name}.fix"]
        errors.append(abs(predicted / nearest(predicted, truth["rounds_ms"]) - 1))
    assert np.median(errors) < 0.1


@pytest.mark.parametrize(
    ("name", "scenario"), [("python_hidden", NO_HOST_WORK), ("item_long_layers", NO_HOST_SYNCS)]
)
@pytest.mark.parametrize("suffix", ["base", "base.syncevents"])
def test_no_gain_is_promised_where_removing_the_thing_gained_nothing(
    name: str, scenario: Scenario, suffix: str
) -> None:
    replay = measure(load([recording(f"ablations/{name}.{suffix}")]).traces[0]).replay
    assert replay is not None
    speedup = replay.predict(scenario).speedup
    assert speedup is not None
    assert speedup < 1.05


def test_what_the_host_does_before_a_copy_of_input_is_input_too() -> None:
    """50 us in the loader and 250 us of work of its own lead to the copy that brings the batch: all
    is loading."""

    def batch(p: Program) -> None:
        p.within("enumerate(DataLoader)#x.__next__", 50).spend(250)
        p.launch("Memcpy HtoD (Pinned -> Device)", 20, "cudaMemcpyAsync", DeviceOpKind.MEMCPY)
        p.rows["op"][-1] |= {"copy_kind": CopyKind.HOST_TO_DEVICE, "bytes": 1 << 20}
        p.launch(GEMM, 20)

    assert replayed(batch) == pytest.approx(308, rel=0.02)
    assert replayed(batch, INPUT_READY) < 50


def test_the_range_of_the_step_is_around_it_and_wider_where_the_host_decides() -> None:
    """What the profiler costs the host is not known well; a device that is always busy does not
    mind."""
    wide, narrow = (Replay.of(steps(step).rated) for step in (host_bound, gpu_bound))
    assert wide is not None
    assert narrow is not None
    for replay in (wide, narrow):
        low, high = replay.range_ms
        assert low < replay.base_ms < high
    assert wide.range_ms[1] / wide.base_ms > 1.05 * narrow.range_ms[1] / narrow.base_ms
    assert wide.range_ms[0] / wide.base_ms < 0.95 * narrow.range_ms[0] / narrow.base_ms
