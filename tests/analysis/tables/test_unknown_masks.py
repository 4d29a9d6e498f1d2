"""The least that attention does is said to be that."""

from types import SimpleNamespace

import numpy as np
import pytest

from traceanalyzer.analysis.tables.throughput import masks_are_unknown

ATTENTION = 1
NAMES = ["gemm", "attention"]


def rated(attention_flops: float, values: int, row: int = 0) -> SimpleNamespace:
    """A product of 100 operations and an attention whose operator has these values of arguments."""
    return SimpleNamespace(
        timed=SimpleNamespace(steady_ops=np.array([True, True])),
        roofline=SimpleNamespace(flops=np.array([100.0, attention_flops]), row=np.array([0, row])),
        linked=SimpleNamespace(
            op_class=np.array([0, ATTENTION]),
            classes=SimpleNamespace(names=NAMES, index=NAMES.index),
        ),
        trace=SimpleNamespace(host_ranges=SimpleNamespace(concrete=np.array([values]))),
    )


@pytest.mark.parametrize(
    ("case", "unknown"),
    [
        (rated(50.0, -1), True),
        (rated(0.5, -1), False),  # hardly any of the operations
        (rated(50.0, 3), False),  # the recording has the values
        (rated(50.0, -1, row=-1), False),  # no operator that counts
    ],
)
def test_attention_without_values_of_arguments_is_the_least(case, unknown):
    assert masks_are_unknown(case) is unknown
