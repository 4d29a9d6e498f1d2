"""Work of operators whose values were not recorded: the next operators say how large a result
is."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.roofline.op_models import model_ops
from traceanalyzer.diagnosis.measurements import measure

X = [2, 8, 16, 16]
FLOAT_BYTES = 4


def figures(*operators: tuple[str, list[list[int]]]) -> tuple[float, float]:
    """FLOPs and bytes of the first of these operators, which follow one another, in floats."""
    b = TraceBuilder()
    for i, (name, shapes) in enumerate(operators):
        types = json.dumps(["float" if shape else "" for shape in shapes])
        b.op(f"aten::{name}", 10 * i, 10 * i + 9, shapes=json.dumps(shapes), dtypes=b.code(types))
        b.call("cudaLaunchKernel", 10 * i + 1, 10 * i + 2, correlation=i + 1)
        b.kernel("kernel", 10 * i + 3, 10 * i + 8, correlation=i + 1)
    m = measure(b.build())
    work = model_ops(m.joined)
    (row,) = np.flatnonzero(m.trace.host_ranges.start == 0)
    return float(work.flops[row]), float(work.bytes[row])


def test_a_convolution_has_the_result_to_which_its_bias_is_added() -> None:
    weight = [32, 8, 3, 3]
    result = [2, 32, 8, 8]  # stride 2: neither that nor the padding is recorded
    flops, traffic = figures(
        ("cudnn_convolution", [X, weight, [], [], [], []]),
        ("reshape", [[32], []]),
        ("view", [[32], []]),
        ("add_", [result, [1, 32, 1, 1], []]),
    )
    taps = 8 * 3 * 3
    assert flops == 2 * 2 * 32 * 8 * 8 * taps
    assert traffic == FLOAT_BYTES * (2 * 8 * 256 + 32 * taps + 2 * 32 * 64)


def test_pooling_and_resampling_have_the_result_that_is_read_next() -> None:
    read = 2 * 8 * 256
    pooled = ("relu", [[2, 8, 8, 8]])
    flops, traffic = figures(("max_pool2d_with_indices", [X, [], [], [], [], []]), pooled)
    assert flops == read
    assert traffic == FLOAT_BYTES * read + (FLOAT_BYTES + 8) * 2 * 8 * 64
    _, traffic = figures(("upsample_nearest2d", [X, [], []]), ("relu", [[2, 8, 32, 32]]))
    assert traffic == FLOAT_BYTES * (read + 2 * 8 * 32 * 32)


@pytest.mark.parametrize("reader", [[2, 16, 8, 8], [4, 32, 8, 8], [2, 32, 64]])
def test_what_does_not_fit_the_result_says_nothing(reader: list[int]) -> None:
    flops, _ = figures(
        ("cudnn_convolution", [X, [32, 8, 3, 3], [], [], [], []]), ("relu", [reader])
    )
    assert np.isnan(flops)
