"""What the host makes of numbers alone in every step, and copies, is made once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import GEMM, copy, program, step_us, within
from traceanalyzer.replay.changes.data.made_each_step import made_of_numbers
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.trace import CopyKind, MemoryKind

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.diagnosis.measurements import Measurements

SIDE = 256
BYTES = 4 * SIDE * SIDE
MAKING_US = 500
COPY_US = 300
WORK_US = 2000
ARANGE = ("aten::arange", "[[], [], [], [], []]", f'["{SIDE}", "", "", "", "False"]')
SUB = ("aten::sub", f"[[{SIDE}, 1], [1, {SIDE}], []]", '["", "", "1"]')
TRIU = ("aten::triu", f"[[{SIDE}, {SIDE}], []]", '["", "1"]')
FULL = ("aten::full", "[[], [], [], [], [], []]", f'["[{SIDE}, {SIDE}]", "-inf", "", "", "", ""]')
RANDOM = ("aten::rand", "[[], [], [], [], []]", f'["[{SIDE}, {SIDE}]", "", "", "", ""]')
OF_DATA = ("aten::mul", f"[[{SIDE}, {SIDE}], [{SIDE}]]", "")

Made = tuple[str, str, str]


def masked(*making: Made, numbers: bool = True, changes: bool = False) -> Measurements:
    """A network whose mask the host makes by these operators in every step."""
    begun = iter(range(100))

    def step(p: Program) -> None:
        number = next(begun)
        for name, shapes, values in making:
            said = values.replace(str(SIDE), str(SIDE + number)) if changes else values
            columns = {"shapes": shapes} | ({"concrete": p.code(said)} if numbers else {})
            within(p, name, lambda p: p.spend(MAKING_US / len(making)), **columns)
        shapes = f"[[{SIDE}, {SIDE}], [], [], []]"
        within(
            p,
            "aten::to",
            lambda p: copy(
                p.spend(5), COPY_US, CopyKind.HOST_TO_DEVICE, BYTES, MemoryKind.PAGEABLE
            ).sync(),
            shapes=shapes,
        )
        within(p, "aten::mm", lambda p: p.spend(5).launch(GEMM, WORK_US))
        p.sync()

    return program(step)


def copies(m: Measurements) -> int:
    tape = make_tape(m.rated)
    assert tape is not None
    return int(made_of_numbers(tape).copies.sum())


@pytest.mark.parametrize("making", [(ARANGE, ARANGE, SUB), (FULL, TRIU), (ARANGE, SUB, FULL, TRIU)])
@pytest.mark.parametrize("numbers", [True, False])
def test_a_mask_of_numbers_alone_is_made_once(making: tuple[Made, ...], *, numbers: bool) -> None:
    m = masked(*making, numbers=numbers)
    assert copies(m) == 6
    left = step_us(m, "keep_on_device")
    assert left == pytest.approx(WORK_US, rel=0.05)


@pytest.mark.parametrize(
    "m",
    [
        masked(RANDOM, TRIU),
        masked(FULL, OF_DATA),
        masked(TRIU),
        masked(ARANGE, SUB, changes=True),
    ],
    ids=["random numbers", "another tensor, too", "a tensor of the program's", "other numbers"],
)
def test_what_else_is_copied_may_be_another_in_each_step(m: Measurements) -> None:
    assert copies(m) == 0
