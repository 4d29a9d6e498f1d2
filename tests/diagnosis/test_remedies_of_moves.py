"""Remedies for data and work that leave the device: what could stay there, and what the host works
on instead of it."""

from __future__ import annotations

import pytest

from tests.analysis.causes.test_gaps import Program
from tests.diagnosis.test_remedies import ADD, GEMM, copy, program, step_us, within
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.diagnosis.remedies.data import COPIED_AHEAD, data_loader_workers, keep_on_device
from traceanalyzer.diagnosis.remedies.host import move_host_work
from traceanalyzer.diagnosis.remedies.launches import cuda_graph
from traceanalyzer.diagnosis.remedies.program import tape_of
from traceanalyzer.diagnosis.remedies.remedy import words
from traceanalyzer.replay.simulate import step_time_ns
from traceanalyzer.trace import CopyKind, Device, MemoryKind

WIDTH = 1024


def bring(p: Program, shape: str, size: int, us: float) -> None:
    """A copy from pageable memory inside the operator that moves a tensor."""

    def moved(p: Program) -> None:
        copy(p, us, CopyKind.HOST_TO_DEVICE, size, MemoryKind.PAGEABLE).sync()

    within(p, "aten::to", moved, shapes=f"[{shape}, [], []]")


def use(p: Program, name: str, shapes: str) -> None:
    within(p, name, lambda p: p.spend(10).launch(GEMM, 20), shapes=shapes)


def weights_of_block(p: Program) -> None:
    """Two weights come with small parameters; the second is used by the block's last operator."""
    wide = f"[4096, {WIDTH}]"
    for shape, size in (
        (f"[{WIDTH}, {WIDTH}]", 1 << 21),
        (wide, 1 << 23),
        ("[4096]", 8192),
        (f"[{WIDTH}]", 2048),
    ):
        bring(p, shape, size, size / 8192)
    use(p, "aten::layer_norm", f"[[8, {WIDTH}], [], [{WIDTH}], []]")
    use(p, "aten::linear", f"[[8, {WIDTH}], [{WIDTH}, {WIDTH}]]")
    for _ in range(12):
        use(p, "aten::relu", f"[[8, {WIDTH}]]")
    use(p, "aten::linear", f"[[8, {WIDTH}], {wide}, [4096]]")


def test_blocks_whose_weights_come_in_each_step_can_stay() -> None:
    def step(p: Program) -> None:
        weights_of_block(p)
        weights_of_block(p)

    m = program(step)
    tape = tape_of(m)
    assert tape is not None
    assert COPIED_AHEAD.change(tape) is None, "no input is copied"
    left = step_us(m, "keep_on_device")
    assert left is not None
    assert left < 2 * 16 * 35, "none of the copies is left, and no wait for them"
    offer = keep_on_device.offer(m)
    assert offer is not None
    assert f"{2 * ((1 << 21) + (1 << 23) + 8192 + 2048) / 1e6:.3g} MB" in offer.action.pytorch


def test_weights_that_are_put_in_their_place_can_stay() -> None:
    """`weight.data = copied` asks whether both are of a kind, and calculates nothing."""

    def step(p: Program) -> None:
        for _ in range(8):
            bring(p, f"[{WIDTH}, {WIDTH}]", 1 << 21, 256)
            asked = f"[[{WIDTH}, {WIDTH}], [{WIDTH}, {WIDTH}]]"
            within(p, "aten::_has_compatible_shallow_copy_type", lambda p: p.spend(1), shapes=asked)
        for _ in range(8):
            use(p, "aten::linear", f"[[8, {WIDTH}], [{WIDTH}, {WIDTH}]]")

    assert keep_on_device.offer(program(step)) is not None


def test_weights_that_the_gpu_has_no_room_for_are_not_kept() -> None:
    p = Program()
    for i in range(6):
        start = p.now
        weights_of_block(p)
        p.annotation(f"ProfilerStep#{i}", start, p.now)
    small = Device(0, "NVIDIA H200", memory_bytes=1 << 22)
    assert keep_on_device.offer(measure(p.build(devices=(small,)))) is None


def test_labels_of_as_many_items_as_a_layer_is_wide_are_input() -> None:
    def step(p: Program) -> None:
        bring(p, f"[{WIDTH}, 512]", 1 << 21, 300)
        bring(p, f"[{WIDTH}]", 8192, 5)
        use(p, "aten::linear", f"[[{WIDTH}, 512], [{WIDTH}, 512], [{WIDTH}]]")
        use(p, "aten::batch_norm", f"[[{WIDTH}, {WIDTH}], [{WIDTH}], [{WIDTH}]]")

    m = program(step)
    assert step_us(m, "keep_on_device") is None
    assert step_us(m, "copy_ahead") is not None


@pytest.mark.parametrize(("begun", "kept"), [(True, True), (False, False)])
def test_a_queue_that_is_turned_for_a_product_stays_where_the_step_has_begun(
    begun: bool, kept: bool
) -> None:
    def step(p: Program) -> None:
        if begun:
            use(p, "aten::linear", "[[256, 64], [128, 64]]")
        bring(p, "[65536, 128]", 1 << 25, 900)
        within(p, "aten::numpy_T", lambda p: p.spend(2), shapes="[[65536, 128]]")
        use(p, "aten::matmul", "[[256, 128], [128, 65536]]")
        p.launch(ADD, 30)

    assert (step_us(program(step), "keep_on_device") is not None) == kept


@pytest.mark.parametrize(
    ("taken", "kept"),
    [("aten::expand", True), ("aten::unsqueeze", False)],
    ids=["for each item of the batch", "as one item"],
)
def test_maps_that_are_joined_with_each_item_stay(taken: str, *, kept: bool) -> None:
    def step(p: Program) -> None:
        bring(p, "[40, 512, 1024]", 40 << 21, 2000)
        within(p, taken, lambda p: p.spend(2), shapes="[[40, 512, 1024], [], []]")
        use(p, "aten::cat", "[[[2, 16, 512, 1024], [2, 40, 512, 1024]], []]")

    assert (step_us(program(step), "keep_on_device") is not None) is kept


def test_parts_of_a_table_that_are_searched_one_by_one_are_copied_ahead() -> None:
    """The step begins with a part: of as many bytes are the others, and none of them stays."""

    def step(p: Program) -> None:
        for _ in range(4):
            bring(p, "[65536, 128]", 1 << 25, 900)
            within(p, "aten::t", lambda p: p.spend(2), shapes="[[65536, 128]]")
            use(p, "aten::matmul", "[[256, 128], [128, 65536]]")
            p.launch(ADD, 500)

    m = program(step)
    assert step_us(m, "keep_on_device") is None
    copies_at_the_link_us = 4 * 617
    assert step_us(m, "copy_ahead") == pytest.approx(copies_at_the_link_us, rel=0.02)


def results_worked_on_by_host(p: Program) -> None:
    """The host works on results, and copies a little back."""
    p.launch(GEMM, 50)
    copy(p, 100, CopyKind.DEVICE_TO_HOST, 1 << 21, MemoryKind.PAGEABLE).sync()
    copy(p.spend(4000), 5, CopyKind.HOST_TO_DEVICE, 256, MemoryKind.PAGEABLE).sync()
    p.launch(GEMM, 50)


def test_what_the_host_does_with_results_can_be_done_on_the_device() -> None:
    def step(p: Program) -> None:
        within(p, "aten::zero_", lambda p: p.launch(GEMM, 1))
        results_worked_on_by_host(p)

    m = program(step)
    offer = move_host_work.offer(m)
    tape = tape_of(m)
    assert offer is not None
    assert tape is not None
    assert offer.action == words("move_host_work", "on_device")
    left = step_us(m, "move_host_work")
    assert left is not None
    assert left < 150


def test_results_may_be_needed_on_the_host_where_no_operators_say_what_for() -> None:
    """As where they go to another process (MPI): the copies stay."""
    m = program(results_worked_on_by_host)
    offer = move_host_work.offer(m)
    assert offer is not None
    assert offer.action == words("move_host_work", "elsewhere")
    left = step_us(m, "move_host_work")
    assert left is not None
    assert left > 200


def test_work_of_the_host_on_nothing_of_the_device_is_only_moved() -> None:
    def step(p: Program) -> None:
        p.launch(GEMM, 50)
        p.spend(4000).launch(GEMM, 50)

    offer = move_host_work.offer(program(step))
    assert offer is not None
    assert offer.action == words("move_host_work", "elsewhere")


@pytest.mark.parametrize(("hooks", "offered"), [("", True), ("torch::distributed::reducer", False)])
def test_a_step_whose_hooks_reduce_gradients_is_not_captured_by_a_few_lines(
    hooks: str, offered: bool
) -> None:
    def step(p: Program) -> None:
        start = p.now
        for _ in range(20):
            p.spend(40).launch(GEMM, 3)
        p.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20)
        p.annotation(hooks or "forward", start, p.now)

    assert (cuda_graph.offer(program(step)) is not None) == offered


def test_how_far_more_workers_get_is_a_wide_range() -> None:
    def step(p: Program) -> None:
        p.within("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 20_000)
        p.launch(GEMM, 500)

    m = program(step)
    offer = data_loader_workers.offer(m)
    replay = m.replay
    assert offer is not None
    assert replay is not None
    found = replay.predict(offer.scenario)
    assert found.step_ms is not None
    assert 0.5 < found.step_ms < 0.7
    assert found.high_ms is not None
    assert replay.base_ms / 2 < found.high_ms < replay.base_ms


def picked(p: Program, table: str, rows: str) -> None:
    """Rows that the host picks out of a tensor, and copies."""
    p.op("aten::index", p.now, p.now + 900, shapes=f"[{table}, []]")
    p.spend(900)
    bring(p, rows, 1 << 24, 800)
    use(p, "aten::linear", f"[{rows}, [512, 4096], [512]]")


@pytest.mark.parametrize(
    ("table", "rows", "kept"),
    [
        ("[65536, 4096]", "[1024, 4096]", True),
        ("[65536, 4096]", "[4, 256, 4096]", True),
        ("[1024, 4096]", "[1024, 4096]", False),
        ("[65536, 512]", "[1024, 4096]", False),
        ("[65536000, 4096]", "[1024, 4096]", False),
    ],
    ids=[
        "rows of it",
        "rows of it by ids in two dimensions",
        "all of it",
        "of another width",
        "no room",
    ],
)
def test_a_table_that_the_host_picks_rows_from_can_stay(
    table: str, rows: str, *, kept: bool
) -> None:
    p = Program()
    for i in range(6):
        start = p.now
        picked(p, table, rows)
        p.annotation(f"ProfilerStep#{i}", start, p.now)
    m = measure(p.build(devices=(Device(0, "NVIDIA H200", memory_bytes=140 << 30),)))
    offer = keep_on_device.offer(m)
    tape = tape_of(m)
    assert tape is not None
    assert (offer is not None) is kept
    if offer is not None:
        left = offer.scenario.change(tape)
        assert "1,074 MB" in offer.action.pytorch
        assert left is not None
        assert step_time_ns(left) < 0.2 * step_time_ns(tape)


def test_what_autograd_saves_on_the_host_stays_with_its_small_parts() -> None:
    """A large tensor is put in order before it goes; a small one goes with it; the loss is read."""

    def saved(p: Program, size: int, us: float) -> None:
        within(
            p, "aten::copy_", lambda p: copy(p.spend(20), us, CopyKind.DEVICE_TO_HOST, size).sync()
        )

    def ordered(p: Program) -> None:
        def copied(p: Program) -> None:
            p.spend(10).launch(ADD, 30)
            copy(p.spend(20), 300, CopyKind.DEVICE_TO_HOST, 1 << 22).sync()

        within(p, "aten::copy_", copied)

    def step(p: Program) -> None:
        within(p, "aten::mm", lambda p: p.spend(10).launch(GEMM, 100))
        ordered(p)
        saved(p, 2048, 2)
        within(p, "aten::item", lambda p: copy(p.spend(10), 2, CopyKind.DEVICE_TO_HOST, 4).sync())
        for size, us in ((2048, 2), (1 << 22, 300)):
            copy(p.spend(20), us, CopyKind.HOST_TO_DEVICE, size).sync()
        within(p, "aten::mm", lambda p: p.spend(10).launch(GEMM, 100))
        copy(p.spend(20), 2, CopyKind.HOST_TO_DEVICE, 4)

    m = program(step)
    tape = tape_of(m)
    offer = keep_on_device.offer(m)
    assert tape is not None
    assert offer is not None
    left = offer.scenario.change(tape)
    assert left is not None
    assert left.duration.sum() / tape.steps == (100 + 100 + 2 + 2) * 1000, (
        "products, the loss and a number"
    )
    assert left.waits.sum() == tape.steps, "one, for the loss"


@pytest.mark.parametrize(("us", "offered"), [(4000, True), (200, True), (50, False)])
def test_results_that_take_much_of_the_step_to_copy_can_stay(us: float, offered: bool) -> None:
    def step(p: Program) -> None:
        p.spend(20).launch(GEMM, 300)
        within(p, "aten::to", lambda p: copy(p, us, CopyKind.DEVICE_TO_HOST, 1 << 26).sync())

    left = step_us(program(step), "copy_less")
    assert (left is not None) == offered
    if left is not None:
        assert 300 < left < 420
