"""What ranks send to each other: how much of it is transfer, in how many bytes, and beside what."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.collectives import GEMM, Ranked
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.replay.changes.communication.collectives import (
    casts_for_exchanges,
    compressed,
    overlapped_by_halves,
    smaller_messages,
    transfers,
    wide_sums,
)
from traceanalyzer.replay.host_speed import SENDING_SHARE, host_scaled
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.simulate import step_time_ns
from traceanalyzer.replay.tape import Tape

IN_16_BITS = "traceanalyzer.replay.changes.communication.collectives.in_16_bits_already"
ALL_TO_ALL = "ncclDevKernel_SendRecv"
LAYERS = 4


def layers(
    times: list[float], *, name: str = "allreduce", learns: bool = False, kernel: str = ""
) -> Tape:
    """Layers of 200 us, each followed on its stream by a collective that takes so long, us."""
    b = Ranked()
    free = 0.0
    now = 0.0
    for step in range(6):
        begun = now = free
        back = now
        for us in times:
            b.launched(GEMM, free + 8, free + 208, now)
            options = {"kernel": kernel} if kernel else {}
            b.collective(
                free + 210, free + 210 + us, now + 6, name=name, elements=1 << 22, **options
            )
            free = free + 210 + us
            now = now + 14
        if learns:
            b.op("autograd::engine::evaluate_function: MmBackward0", back, now)
        b.call("cudaStreamSynchronize", now, free + 2)
        free += 2
        b.annotation(f"ProfilerStep#{step}", begun, free)
    made = make_tape(measure(b.trace(0, 2)).rated)
    assert made is not None
    return made


def test_of_one_rank_what_the_quickest_of_its_size_took_is_transfer() -> None:
    tape = layers([100, 400, 100, 100])
    found = transfers(tape)
    assert np.unique(found[tape.communication]).tolist() == [100_000]
    assert (found[tape.compute] == tape.duration[tape.compute]).all()
    halved = compressed(tape)
    assert halved is not None
    saved = (tape.duration - halved.duration)[tape.communication]
    assert np.unique(saved).tolist() == [50_000]


def test_fp32_sums_of_16_bit_layers_can_be_sent_in_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IN_16_BITS, lambda _: True)
    tape = layers([100] * LAYERS)
    assert wide_sums(tape).sum() == (LAYERS - 1) * tape.steps
    change = smaller_messages(0.5, 1.0)
    found = change(tape)
    assert found is not None
    assert (step_time_ns(tape) - step_time_ns(found)) / 1e3 == pytest.approx(
        50 * (LAYERS - 1), rel=0.05
    )


@pytest.mark.parametrize(("narrow", "learns"), [(False, False), (True, True)])
def test_sums_of_fp32_layers_and_gradients_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, narrow: bool, learns: bool
) -> None:
    monkeypatch.setattr(IN_16_BITS, lambda _: narrow)
    tape = layers([100] * LAYERS, learns=learns)
    assert not wide_sums(tape).any()
    assert smaller_messages(0.5, 1.0)(tape) is None


def test_experts_with_half_the_capacity_compute_half_as_much() -> None:
    tape = layers([100] * LAYERS, name="all_to_all", kernel=ALL_TO_ALL)
    fewer = smaller_messages(0.25, 0.5)(tape)
    narrower = smaller_messages(0.5, 1.0)(tape)
    assert fewer is not None
    assert narrower is not None
    saved, least = ((step_time_ns(tape) - step_time_ns(one)) / 1e3 for one in (fewer, narrower))
    assert least == pytest.approx(50 * LAYERS, rel=0.05)
    # two of four layers lie between two exchanges
    assert saved == pytest.approx(75 * LAYERS + 100 * LAYERS / 2, rel=0.05)


def exchanges_of_casts() -> Tape:
    """A layer of 200 us, a cast of 50 us, an exchange in fp32 of 100 us and a cast back, twice a
    step."""
    b = Ranked()
    free = 0.0
    for step in range(6):
        begun = now = free
        for _ in range(2):
            b.launched(GEMM, free + 8, free + 208, now)
            for at in (free + 210, free + 362):
                b.op("aten::to", now + 5, now + 11)
                b.launched("direct_copy_kernel", at, at + 50, now + 6)
                if at == free + 210:
                    b.collective(
                        at + 51,
                        at + 151,
                        now + 12,
                        name="all_to_all",
                        kernel=ALL_TO_ALL,
                        elements=1 << 22,
                    )
                now += 20
            free += 412
        b.call("cudaStreamSynchronize", now, free + 2)
        free += 2
        b.annotation(f"ProfilerStep#{step}", begun, free)
    made = make_tape(measure(b.trace(0, 2)).rated)
    assert made is not None
    return made


@pytest.mark.parametrize("narrow", [True, False])
def test_casts_for_an_exchange_in_fp32_go_where_the_model_computes_in_16_bits(
    monkeypatch: pytest.MonkeyPatch, narrow: bool
) -> None:
    monkeypatch.setattr(IN_16_BITS, lambda _: narrow)
    tape = exchanges_of_casts()
    assert casts_for_exchanges(tape).sum() == (4 * tape.steps if narrow else 0)
    found = smaller_messages(0.5, 1.0)(tape)
    assert found is not None
    spared = float(tape.duration.sum() - found.duration.sum()) / tape.steps / 1e3
    assert spared == pytest.approx(100 + (200 if narrow else 0), rel=0.02)


def test_two_halves_hide_what_they_exchange() -> None:
    tape = layers([100] * LAYERS)
    found = overlapped_by_halves(0.5)(tape)
    assert found is not None
    # the last collective stays, three hide and make the layers longer by half of their time
    assert step_time_ns(found) / 1e3 == pytest.approx(LAYERS * 210 + 0.5 * 300 + 100, rel=0.05)
    assert found.dispatch.sum() == 2 * tape.dispatch.sum()
    assert overlapped_by_halves(0.5)(layers([100] * LAYERS, learns=True)) is None


def test_calls_of_collectives_keep_more_of_their_time_without_the_profiler() -> None:
    tape = layers([100] * LAYERS)
    sending = int(tape.sending.sum())
    assert sending == pytest.approx(LAYERS * 4_000 * tape.steps, rel=0.2)
    (fast,) = host_scaled((tape,), 0.5)
    expected = 0.5 * (int(tape.dispatch.sum()) - sending) + SENDING_SHARE * sending
    assert fast.dispatch.sum() == pytest.approx(expected, rel=0.01)
