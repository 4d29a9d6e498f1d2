"""Numbers that have not come yet behave as Python's own, and wait no sooner than they must."""

from __future__ import annotations

import math
import numbers

import numpy as np
import pytest

from traceanalyzer.trials.apply.reads import MOST_PENDING, DeferredNumber


class Device:
    """A device whose values come when it is told so."""

    def __init__(self):
        self.has_come = False
        self.waits = 0

    def number(self, value):
        def make():
            self.waits += not self.has_come
            return value

        return DeferredNumber(lambda: self.has_come, make, 1)


def test_arithmetic_does_not_wait():
    device = Device()
    total = 0.0
    for value in (1.5, 2.5):
        total += device.number(value) * 2
    mean = abs(-total / 2 - 1)
    assert device.waits == 0
    assert mean == 5.0
    assert device.waits == 2


def test_what_has_come_is_a_number_of_its_own():
    device = Device()
    device.has_come = True
    assert type(device.number(2.0) + 1) is float
    assert type(1 + device.number(2)) is int


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (lambda number: f"{number:.2f}", "2.50"),
        (str, "2.5"),
        (repr, "2.5"),
        (float, 2.5),
        (int, 2),
        (lambda number: round(number), 2),
        (lambda number: number > 2, True),
        (lambda number: number == 2.5, True),
        (lambda number: max(number, 1.0) + 0, 2.5),
        (math.isnan, False),
        (lambda number: number.is_integer(), False),
        (lambda number: "yes" if number else "no", "yes"),
        (lambda number: isinstance(number, numbers.Real), True),
        (lambda number: np.std([number, number + 2]), 1.0),
        (lambda number: np.float64(1.0) + number, 3.5),
        (lambda number: (number - 1, 4 - number, 2**number % 3)[1], 1.5),
        (lambda number: number**2 // 2, 3.0),
    ],
)
def test_a_use_gives_what_the_number_would(use, expected):
    assert use(Device().number(2.5)) == expected


def test_an_index_is_a_whole_number():
    assert list(range(Device().number(3))) == [0, 1, 2]
    with pytest.raises(TypeError):
        range(Device().number(3.0))


def test_a_sum_over_an_epoch_is_not_put_off_for_ever():
    device = Device()
    total = 0.0
    for value in range(20 * MOST_PENDING):
        total += device.number(value)
    assert device.waits > 0
    assert total == sum(range(20 * MOST_PENDING))


def test_a_tensor_meets_the_number_itself():
    torch = pytest.importorskip("torch")
    doubled = torch.ones(2) * Device().number(2.0)
    assert doubled.tolist() == [2.0, 2.0]


def test_a_tensor_on_the_cpu_is_read_at_once(monkeypatch):
    torch = pytest.importorskip("torch")
    from traceanalyzer.trials.apply import reads

    monkeypatch.setattr(torch.Tensor, "item", torch.Tensor.item)
    reads.deferred(True)
    assert type(torch.tensor(1.5).item()) is float
