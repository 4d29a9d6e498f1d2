"""Remedies for kinds of programs, each built in variants: what triggers it however it is written,
and what does not."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.analysis.causes.test_gaps import Program
from tests.analyzed import measurements
from tests.diagnosis.test_remedies import ADD, GEMM, copy, program, step_us, within
from tests.recorded import ROOT
from traceanalyzer.base.figures import NS_PER_MS
from traceanalyzer.diagnosis.remedies.data import COPIED_AHEAD
from traceanalyzer.diagnosis.remedies.host import NO_SYNCS, remove_syncs
from traceanalyzer.diagnosis.remedies.loops import ENSEMBLES
from traceanalyzer.replay.changes.fusion import Reading
from traceanalyzer.replay.changes.loops.joined_calls import (
    calls_joined,
    ensembles_joined,
    ensembles_of,
    lookups_joined,
    rows_joined,
)
from traceanalyzer.replay.changes.loops.repetition import batched
from traceanalyzer.replay.changes.syncs.syncs import syncs_removed
from traceanalyzer.replay.changes.syncs.values import masks_spread
from traceanalyzer.replay.host_speed import fitted_host, host_scaled
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.simulate import step_time_ns
from traceanalyzer.replay.whatif import FASTER_HOST
from traceanalyzer.trace import CopyKind, MemoryKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.replay.tape import Tape

CALLS = 6
KERNELS = 12


def tape_of(step: Callable[[Program], object]) -> Tape:
    tape = make_tape(program(step).rated)
    assert tape is not None
    return tape


def read(p: Program) -> None:
    within(p, "aten::item", lambda p: copy(p.spend(5), 2, CopyKind.DEVICE_TO_HOST, 8).sync())


def model(p: Program, *, tokens: str = "", update: bool = False) -> None:
    if tokens:
        within(
            p,
            "aten::embedding",
            lambda p: p.spend(20).launch(ADD, 3),
            shapes=f"[[32000, 512], {tokens}]",
        )
    for _ in range(KERNELS):
        within(p, "aten::conv2d", lambda p: p.spend(20).launch(GEMM, 3))
    if update:
        within(p, "Optimizer.step#SGD.step", lambda p: p.spend(20).launch(ADD, 3))


@pytest.mark.parametrize(
    ("tokens", "update", "apart"),
    [("", False, True), ("[1, 37]", False, True), ("[1, 1]", False, False), ("", True, False)],
)
def test_calls_that_end_with_a_read_are_one_unless_each_needs_the_one_before(
    tokens: str, update: bool, apart: bool
) -> None:
    def step(p: Program) -> None:
        within(p, "aten::unbind", lambda p: p.spend(5), shapes=f"[[{CALLS}, 64], []]")
        for _ in range(CALLS):
            model(p, tokens=tokens, update=update)
            read(p)

    tape = tape_of(step)
    one = batched(tape)
    assert (one is not None) == apart
    assert one is None or step_time_ns(one) < step_time_ns(tape) / CALLS * 1.5


@pytest.mark.parametrize("tables", [5, 26])
@pytest.mark.parametrize("name", ["aten::embedding", "aten::embedding_bag"])
@pytest.mark.parametrize("before", [0, 1, 2])
def test_lookups_table_by_table_are_one(name: str, tables: int, before: int) -> None:
    def step(p: Program) -> None:
        for i in range(tables):
            for _ in range(before):
                within(p, "aten::arange", lambda p: p.spend(10).launch(ADD, 2))
            within(
                p,
                name,
                lambda p: p.spend(20).launch(ADD, 3),
                shapes=f"[[{1000 * (i + 1)}, 16], [64, 1]]",
            )
        within(p, "aten::cat", lambda p: p.spend(20).launch(ADD, 3))
        within(p, "aten::linear", lambda p: p.spend(20).launch(GEMM, 20))

    tape = tape_of(step)
    found = lookups_joined(tape)
    assert found is not None
    left = found.duration > 0
    assert int(left.sum()) == (before + 2) * tape.steps
    assert step_time_ns(found) < step_time_ns(tape) / 2


def test_words_with_their_places_are_no_tables_in_a_row() -> None:
    def step(p: Program) -> None:
        for table, ids in ((2000, [16, 40]), (64, [40]), (3000, [16, 40]), (64, [1, 40])):
            shapes = f"[[{table}, 16], {ids}]"
            within(p, "aten::embedding", lambda p: p.spend(20).launch(ADD, 3), shapes=shapes)
        within(p, "aten::linear", lambda p: p.spend(20).launch(GEMM, 20))

    assert lookups_joined(tape_of(step)) is None


def test_a_lookup_in_each_layer_stays() -> None:
    def step(p: Program) -> None:
        for _ in range(CALLS):
            within(
                p,
                "aten::embedding",
                lambda p: p.spend(20).launch(ADD, 3),
                shapes="[[32, 12], [64, 64]]",
            )
            for _ in range(4):
                within(p, "aten::linear", lambda p: p.spend(20).launch(GEMM, 20))

    assert lookups_joined(tape_of(step)) is None


def linear(p: Program, size: str, weight: str) -> None:
    within(
        p, "aten::linear", lambda p: p.spend(20).launch(GEMM, 3), shapes=f"[{size}, {weight}, []]"
    )


def one_member(p: Program, activation: str, first: int, last: int) -> None:
    linear(p, f"[256, {first}]", f"[64, {first}]")
    within(p, activation, lambda p: p.spend(10).launch(ADD, 2), shapes="[[256, 64]]")
    linear(p, "[256, 64]", f"[{last}, 64]")


@pytest.mark.parametrize("many", [4, 20])
@pytest.mark.parametrize("activation", ["aten::relu", "aten::tanh", "aten::silu"])
def test_members_of_an_ensemble_are_one_network(many: int, activation: str) -> None:
    def step(p: Program) -> None:
        for _ in range(many):
            one_member(p, activation, 17, 1)
        within(p, "aten::stack", lambda p: p.spend(20).launch(ADD, 3))
        p.spend(20).launch(GEMM, 30)

    tape = tape_of(step)
    found = ensembles_of(tape).own_weights
    joined = ensembles_joined(tape)
    assert found is not None
    assert joined is not None
    assert found.number == many
    assert int((joined.duration > 0).sum()) == 4 * tape.steps


def test_networks_that_learn_in_turn_are_one_network() -> None:
    def step(p: Program) -> None:
        for _ in range(20):
            one_member(p, "aten::silu", 17, 4)
            within(p, "aten::broadcast_tensors", lambda p: p.spend(2), shapes="[[[256, 4]]]")
            for name, shapes in (
                ("aten::mse_loss", "[[256, 4], [256, 4], []]"),
                ("aten::add", "[[], [], []]"),
            ):
                values = p.code('["", "", "1"]')
                within(
                    p,
                    name,
                    lambda p: p.spend(10).launch(ADD, 2),
                    shapes=shapes,
                    concrete=values,
                )

    tape = tape_of(step)
    joined = ensembles_joined(tape)
    assert joined is not None
    assert int((joined.duration > 0).sum()) == 5 * tape.steps
    spent_on_one = (20 + 10 + 20 + 2 + 10 + 10) * 1_000
    assert spent_on_one <= joined.dispatch.sum() / tape.steps <= 2 * spent_on_one


def of_gaussian(p: Program) -> None:
    """What follows a network: its result taken apart, and a loss of both parts."""
    for name, shapes in (
        ("split", "[[256, 4], [], []]"),
        ("clamp", "[[256, 2], [], []]"),
        ("sub", "[[256, 2], [256, 2], []]"),
        ("pow", "[[256, 2], []]"),
        ("mean", "[[256, 2], []]"),
        ("add", "[[], [], []]"),
    ):
        within(p, f"aten::{name}", lambda p: p.spend(10).launch(ADD, 2), shapes=shapes)


def joined_to_the_state(p: Program) -> None:
    within(
        p,
        "aten::cat",
        lambda p: p.spend(10).launch(ADD, 2),
        shapes="[[[256, 13], [256, 4]], []]",
    )


def added_to_the_state(p: Program) -> None:
    within(p, "aten::add", lambda p: p.spend(10).launch(ADD, 2), shapes="[[256, 17], [256, 1], []]")


WEIGHTS = ("[64, 17]", "[4, 64]")


def learned(p: Program, times: int) -> None:
    """Gradients of a network's weights, so many of each."""
    for _ in range(times):
        for weights in WEIGHTS:
            within(
                p,
                "torch::autograd::AccumulateGrad",
                lambda p: p.spend(2).launch(ADD, 2),
                shapes=f"[{weights}]",
            )


@pytest.mark.parametrize(
    ("then", "found"),
    [
        ([of_gaussian], True),
        ([of_gaussian, joined_to_the_state], False),
        ([of_gaussian, added_to_the_state], False),
    ],
    ids=["a loss", "a state that is joined", "a state that is added to"],
)
def test_members_have_a_loss_of_their_own(
    then: list[Callable[[Program], None]], found: bool
) -> None:
    def step(p: Program) -> None:
        for _ in range(8):
            one_member(p, "aten::silu", 17, 4)
            for part in then:
                part(p)

    assert (ensembles_joined(tape_of(step)) is not None) == found


@pytest.mark.parametrize(("gradients", "own"), [(8, True), (1, False), (0, True)])
def test_gradients_tell_whether_members_share_their_weights(gradients: int, own: bool) -> None:
    def step(p: Program) -> None:
        for _ in range(8):
            one_member(p, "aten::silu", 17, 4)
            of_gaussian(p)
        learned(p, gradients)

    tape = tape_of(step)
    assert (ensembles_joined(tape) is not None) == own
    assert (calls_joined(tape) is not None) != own


def recurrence(p: Program) -> None:
    linear(p, "[256, 17]", "[64, 17]")
    linear(p, "[256, 64]", "[64, 64]")
    within(
        p, "aten::add", lambda p: p.spend(10).launch(ADD, 2), shapes="[[256, 64], [256, 64], []]"
    )
    within(p, "aten::tanh", lambda p: p.spend(10).launch(ADD, 2), shapes="[[256, 64]]")


@pytest.mark.parametrize(
    "part", [partial(one_member, activation="aten::relu", first=32, last=32), recurrence]
)
def test_layers_and_time_steps_need_each_other(part: Callable[[Program], object]) -> None:
    def step(p: Program) -> None:
        for _ in range(10):
            part(p)

    assert ensembles_joined(tape_of(step)) is None


@pytest.mark.parametrize(
    ("picked", "found"), [("[24, 16, 64]", True), ("[768, 16, 64]", False), ("[24, 64]", False)]
)
@pytest.mark.parametrize("between", [True, False])
def test_rows_picked_for_one_item_after_the_other_are_picked_at_once(
    picked: str, found: bool, between: bool
) -> None:
    """As many rows as the table has may be a table again."""

    def step(p: Program) -> None:
        for i in range(CALLS):
            within(
                p,
                "aten::index",
                lambda p: p.spend(20).launch(ADD, 3),
                shapes="[[768, 16, 64], []]",
            )
            if between or i == CALLS - 1:
                within(p, "aten::flatten", lambda p: p.spend(2), shapes=f"[{picked}, [], []]")
        within(p, "aten::mm", lambda p: p.spend(20).launch(GEMM, 30))

    tape = tape_of(step)
    one = rows_joined(tape)
    assert (one is not None) == found
    assert one is None or int((one.duration > 0).sum()) == 2 * tape.steps


STATE = "[2, 64, 384], [2, 64, 384]"


def layer(p: Program, name: str, shape: str, batch_first: bool) -> None:
    values = f'["", "", "", "True", "2", "0.", "True", "False", "{batch_first}"]'
    within(p, name, kernels_of_layer, shapes=f"[{shape}, [{STATE}], []]", concrete=p.code(values))


def kernels_of_layer(p: Program) -> None:
    for _ in range(6):
        p.spend(60).launch(GEMM, 4)


@pytest.mark.parametrize("name", ["aten::lstm", "aten::gru", "aten::rnn_tanh"])
@pytest.mark.parametrize(
    ("shape", "batch_first", "one_step"),
    [("[64, 1, 192]", True, True), ("[1, 64, 192]", False, True), ("[1, 64, 192]", True, False)],
)
def test_a_recurrent_layer_called_time_step_by_time_step(
    name: str, shape: str, batch_first: bool, one_step: bool
) -> None:
    def step(p: Program) -> None:
        for _ in range(20):
            layer(p, name, shape, batch_first)

    found = step_us(program(step), "fused_rnn")
    assert (found is not None) == one_step
    assert found is None or found < 20 * 6 * 60 / 3


@pytest.mark.parametrize(
    ("shape", "state", "one_step"),
    [
        ("[64, 1, 192]", STATE, True),
        ("[1, 64, 192]", STATE, True),
        ("[64, 30, 192]", STATE, False),
        ("[1, 64, 192]", "[2, 1, 384], [2, 1, 384]", False),
        ("[64, 1, 192]", "[2, 64, 384]", True),
        ("[64, 1, 192]", "[1536, 192]", False),
    ],
    ids=["rows first", "rows last", "a sequence", "a sequence of one", "one state", "no state"],
)
def test_a_time_step_is_told_by_the_state_where_values_were_not_recorded(
    shape: str, state: str, one_step: bool
) -> None:
    """PyTorch's NVTX ranges have the tensors of a list one after the other."""

    def step(p: Program) -> None:
        for _ in range(20):
            within(p, "aten::lstm", kernels_of_layer, shapes=f"[{shape}, {state}, []]")

    found = step_us(program(step), "fused_rnn")
    assert (found is not None) == one_step
    two_layers_us = 20 * 2 * 12
    assert found is None or found > two_layers_us


@pytest.mark.parametrize(
    ("bias", "queries", "kept"),
    [
        ("[1, 12, 512, 512]", "[4, 12, 512, 64]", True),
        ("[12, 512, 512]", "[4, 12, 512, 64]", True),
        ("[4, 12, 512, 512]", "[4, 12, 512, 64]", False),
        ("[1, 12, 512, 512]", "[1, 12, 512, 64]", False),
    ],
)
def test_a_bias_of_attention_that_all_texts_share_stays_on_the_device(
    bias: str, queries: str, kept: bool
) -> None:
    def bring(p: Program) -> None:
        copy(p, 900, CopyKind.HOST_TO_DEVICE, 1 << 24, MemoryKind.PAGEABLE).sync()

    def step(p: Program) -> None:
        within(p, "aten::to", bring, shapes=f"[{bias}, []]")
        within(p, "aten::to", lambda p: p.spend(10).launch(ADD, 40), shapes=f"[{bias}, []]")
        within(
            p,
            "aten::linear",
            lambda p: p.spend(10).launch(GEMM, 40),
            shapes="[[4, 512, 768], [2304, 768]]",
        )
        shapes = f"[{queries}, {queries}, {queries}, {bias}]"
        within(
            p,
            "aten::scaled_dot_product_attention",
            lambda p: p.spend(10).launch(GEMM, 40),
            shapes=shapes,
        )

    m = program(step)
    found = step_us(m, "keep_on_device")
    tape = make_tape(m.rated)
    assert tape is not None
    assert (found is not None) == kept
    assert (COPIED_AHEAD.change(tape) is None) == kept


@pytest.mark.parametrize(
    "loader", ["", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"]
)
def test_what_the_program_prepares_itself_can_be_made_elsewhere(loader: str) -> None:
    def prepare(p: Program) -> None:
        p.spend(2000)

    def step(p: Program) -> None:
        start = p.now
        prepare(p)
        if loader:
            p.annotation(loader, start, p.now)
        copy(p, 50, CopyKind.HOST_TO_DEVICE, 1 << 22).sync()
        p.spend(20).launch(GEMM, 300).sync()

    found = step_us(program(step), "move_host_work")
    assert (found is not None) == (not loader)
    assert found is None or found < 600


@pytest.mark.parametrize(("types", "us"), [('["unsigned char", ""]', 920), ('["float", ""]', 3600)])
def test_bytes_that_the_host_widens_are_copied_as_bytes(types: str, us: float) -> None:
    """32 MB of fp32 numbers take 3.6 ms to copy; as bytes a quarter of that, and the GPU widens
    them in 20 us."""
    shape = f"[[32, {1 << 18}], []]"

    def step(p: Program) -> None:
        start = p.now
        p.spend(2000)
        p.op("aten::to", start, p.now, shapes=shape, dtypes=p.code(types))
        floats = {"shapes": shape, "dtypes": p.code('["float", ""]')}
        copied = partial(copy, us=3600, kind=CopyKind.HOST_TO_DEVICE, size=1 << 25)
        within(p, "aten::to", lambda p: copied(p).sync(), **floats)
        p.spend(20).launch(GEMM, 300).sync()

    found = step_us(program(step), "move_host_work")
    assert found == pytest.approx(us + 330, rel=0.05)


def picked(p: Program, kernels: int) -> None:
    def count(p: Program) -> None:
        p.spend(10).launch(ADD, 2)
        copy(p.spend(5), 2, CopyKind.DEVICE_TO_HOST, 8).sync()

    within(p, "aten::nonzero", count)
    for _ in range(kernels):
        p.spend(20).launch(ADD, 2)


@pytest.mark.parametrize("kernels", [1, 8])
@pytest.mark.parametrize(("user", "spread"), [("aten::mean", True), ("aten::linear", False)])
def test_what_a_mask_picks_is_all_there_unless_a_product_needs_it_small(
    kernels: int, user: str, spread: bool
) -> None:
    def step(p: Program) -> None:
        for _ in range(4):
            within(
                p, "aten::index", partial(picked, kernels=kernels), shapes="[[32, 80, 80, 24], []]"
            )
            within(p, user, lambda p: p.spend(20).launch(ADD, 3))

    tape = tape_of(step)
    found = masks_spread(tape)
    assert (found is not None) == spread
    if found is not None:
        assert not found.waits.any()
        assert int((found.duration > 0).sum()) == 8 * tape.steps
        assert step_time_ns(found) < step_time_ns(tape)
        for change in map(
            syncs_removed, (Reading.TYPICAL, Reading.OPTIMISTIC)
        ):  # no read is left, which is the point
            left = change(tape)
            assert left is not None
            assert step_time_ns(left) <= step_time_ns(found)
    assert (
        "torch.where or a weighted sum" in remove_syncs.offer(program(step)).action.pytorch
    ) == spread


def test_the_host_is_not_made_slower_by_loading_that_took_another_time() -> None:
    def step(p: Program) -> None:
        start = p.now
        p.spend(20_000)
        p.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", start, p.now)
        for _ in range(40):
            p.spend(40).launch(GEMM, 3)
        p.sync()

    tape = tape_of(step)
    recorded_ms = step_time_ns(tape) / NS_PER_MS
    shares = [fitted_host((tape,), recorded_ms * off)[0] for off in (0.95, 1.0, 1.05)]
    assert max(shares) - min(shares) < 0.2


def test_a_step_issued_ahead_of_the_device_says_how_fast_the_host_is() -> None:
    def step(p: Program) -> None:
        for _ in range(40):
            within(p, "aten::mm", lambda p: p.spend(20).launch(GEMM, 100))
        p.sync()

    tape = tape_of(step)
    step_ms = step_time_ns(tape) / NS_PER_MS
    issued_ms = float(tape.dispatch.sum()) / tape.steps / NS_PER_MS
    assert issued_ms < step_ms / 2, "the GPU bounds it"
    usual = fitted_host((tape,), step_ms)[0]
    shares = [fitted_host((tape,), step_ms, issued_ms * share)[0] for share in (0.4, 0.8)]
    assert shares == [pytest.approx(0.4, abs=0.1), pytest.approx(0.8, abs=0.1)]
    assert fitted_host((tape,), step_ms, step_ms)[0] == usual, "it waited for the device"


def test_a_device_slower_in_the_timed_steps_does_not_make_the_host_slow() -> None:
    """Clocks that were lower by a twentieth: no host makes a step longer that the GPU bounds."""

    def step(p: Program) -> None:
        for _ in range(40):
            within(p, "aten::mm", lambda p: p.spend(90).launch(GEMM, 100))
        p.sync()

    tape = tape_of(step)
    step_ms = step_time_ns(tape) / NS_PER_MS
    usual = fitted_host((tape,), step_ms)[0]
    assert fitted_host((tape,), 1.05 * step_ms)[0] == pytest.approx(usual, abs=0.05)


def test_a_host_that_ran_ahead_does_not_explain_a_step_that_is_longer_than_the_devices() -> None:
    """Nor one that is a little shorter than a replay with it: the device set the pace."""

    def step(p: Program) -> None:
        for _ in range(40):
            within(p, "aten::mm", lambda p: p.spend(20).launch(GEMM, 22))
        p.sync()

    tape = tape_of(step)
    device_ms = step_time_ns(host_scaled((tape,), 0.0, 0.0)[0]) / NS_PER_MS
    issued_ms = float(tape.dispatch.sum()) / tape.steps / NS_PER_MS
    for timed_ms in (1.05 * device_ms, 0.98 * device_ms):
        share, own = fitted_host((tape,), timed_ms, 0.4 * issued_ms)
        assert (share, own) == (pytest.approx(0.4, abs=0.1), 1.0)


def test_a_host_faster_than_any_leaves_the_device_as_fast_as_recorded() -> None:
    """Launches of 100 us a kernel, of which the stopwatch leaves 20."""
    tape = tape_of(lambda p: [p.spend(96).launch(ADD, 2) for _ in range(50)] and None)
    timed_ms = 50 * 20 / 1e3
    shares = fitted_host((tape,), timed_ms)
    found = step_time_ns(host_scaled((tape,), *shares)[0]) / 1e6
    assert found == pytest.approx(timed_ms, rel=0.03)
    assert shares[0] < 0.3


def test_a_short_step_that_waits_for_no_device_says_nothing_of_the_host() -> None:
    def step(p: Program) -> None:
        start = p.now
        p.spend(20_000)
        p.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", start, p.now)
        for _ in range(10):
            within(p, "aten::mm", lambda p: p.spend(20).launch(GEMM, 30))
        p.sync()

    tape = tape_of(step)
    step_ms = step_time_ns(tape) / NS_PER_MS
    usual = fitted_host((tape,), step_ms)
    assert fitted_host((tape,), step_ms, 0.8 * step_ms) == usual, "loading was shorter in one"


def test_a_stopwatch_shorter_than_any_usual_host_is_met_by_the_host_and_not_by_the_device() -> None:
    def step(p: Program) -> None:
        for _ in range(40):
            p.spend(3_000)
            within(p, "aten::mm", lambda p: p.spend(20).launch(GEMM, 100))
        p.sync()

    tape = tape_of(step)
    step_ms = step_time_ns(tape) / NS_PER_MS
    share, own = fitted_host((tape,), step_ms / 3)
    (left,) = host_scaled((tape,), share, own)
    assert step_time_ns(left) / NS_PER_MS == pytest.approx(step_ms / 3, rel=0.03)


def test_one_call_for_all_takes_no_less_than_a_call_for_one() -> None:
    def step(p: Program, many: int) -> None:
        for _ in range(many):
            one_member(p, "aten::relu", 17, 1)

    all_members = program(partial(step, many=20)).replay
    one = program(partial(step, many=1)).replay
    assert all_members is not None
    assert one is not None
    promise = all_members.predict(ENSEMBLES)
    assert promise.step_ms is not None
    assert promise.low_ms == pytest.approx(one.base_ms / FASTER_HOST, rel=0.15)
    assert one.base_ms / FASTER_HOST < promise.step_ms


@pytest.mark.parametrize(
    "path", ["sample_traces/changing_shapes", "tests/data/nsys/sampled.sqlite.gz"]
)
def test_cpu_work_that_would_run_meanwhile_is_not_gained_by_removing_syncs(path: str) -> None:
    """The GPU idles for CPU work, not because of waits: other remedies are against that."""
    m = measurements(ROOT / path).critical
    assert m.replay is not None
    assert m.replay.gain_ms(NO_SYNCS) > 0.2 * m.replay.base_ms
    assert remove_syncs.offer(m) is None


def test_syncs_that_the_gpu_idles_after_are_removed() -> None:
    assert (
        remove_syncs.offer(measurements(ROOT / "sample_traces" / "sync_bound").critical) is not None
    )
