"""Groups told by operands: channel counts of convolutions, operands in different orders, small
copies, concurrency."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.build import TraceBuilder
from tests.analysis.roofline.test_roofline import TABLE
from traceanalyzer.analysis.groups.input_loading import MANY, small_copies
from traceanalyzer.analysis.groups.layout import LARGE_BYTES, SECTOR_BYTES, crosses, strided_work
from traceanalyzer.analysis.groups.products import odd_convolutions
from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.analysis.roofline.op_models.tensors import DTYPES, Tensor
from traceanalyzer.analysis.time.coverage import concurrent_kernel_share
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.diagnosis.remedies.launches import cuda_graph
from traceanalyzer.diagnosis.remedies.loops import SENT, batch_calls
from traceanalyzer.diagnosis.rules.device import odd_channels
from traceanalyzer.diagnosis.rules.passes import uncoalesced
from traceanalyzer.trace import CopyKind, Device, DeviceOpKind

HALF = "c10::Half"
CONV = "sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x64x64_warpgroupsize1x1x1_g1_cudnn"


def measured(b: TraceBuilder) -> Measurements:
    return measure(b.build(devices=(Device(0, "round"),)), Knowledge(hardware=TABLE))


def operator(
    b: TraceBuilder,
    name: str,
    kernel: str,
    shapes: list[object],
    dtype: str,
    strides: object = None,
    lists: int = 0,
    groups: int = 1,
) -> None:
    """One operator with one kernel of 100 us; its last `lists` inputs are a convolution's padding,
    stride, dilation and groups."""
    types = [*[dtype] * (len(shapes) - lists), *["ScalarList"] * lists]
    columns = {"shapes": json.dumps(shapes), "dtypes": b.code(json.dumps(types))}
    if lists:
        columns["concrete"] = b.code(
            json.dumps(["", "", "[1, 1]", "[1, 1]", "[1, 1]", str(groups)])
        )
    if strides is not None:
        columns["strides"] = b.code(json.dumps(strides))
    b.op(name, 0, 10, **columns)
    b.call("cudaLaunchKernel", 1, 2, 1).kernel(kernel, 20, 120, 1, blocks=100, threads=256)


def odd(x: list[int], weight: list[int], dtype: str = HALF, kernel: str = CONV) -> list[str] | None:
    b = TraceBuilder()
    operator(
        b,
        "aten::cudnn_convolution",
        kernel,
        [x, weight, [], [], [], []],
        dtype,
        lists=4,
        groups=x[1] // weight[1],
    )
    m = measured(b)
    found = odd_convolutions(m.rated, np.ones(1, bool))
    assert [draft.id for draft in odd_channels(m, np.ones(1, bool))] == (
        ["odd-channels"] if found else []
    )
    return found.shapes if found else None


def test_channels_that_are_no_multiples_of_16_bytes() -> None:
    assert odd([8, 60, 32, 32], [64, 60, 3, 3]) == ["64x60x3x3"]
    assert odd([8, 64, 32, 32], [60, 64, 3, 3]) == ["60x64x3x3"]
    assert odd([8, 64, 32, 32], [64, 64, 3, 3]) is None


def test_images_groups_and_ordinary_cores_are_left_out() -> None:
    assert odd([8, 3, 224, 224], [64, 3, 7, 7]) is None
    assert odd([8, 60, 32, 32], [60, 1, 3, 3]) is None  # depthwise
    assert odd([8, 60, 32, 32], [60, 20, 3, 3]) is None  # three groups
    assert odd([8, 60, 32, 32], [64, 60, 3, 3], "float", "implicit_convolve_sgemm") is None


def test_in_tf32_four_channels_are_enough() -> None:
    tf32 = "sm90_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x64x32"
    assert odd([8, 60, 32, 32], [64, 60, 3, 3], "float", tf32) is None
    assert odd([8, 61, 32, 32], [64, 61, 3, 3], "float", tf32) == ["64x61x3x3"]


def strided(name: str, shape: list[int], *strides: list[int], dtype: str = "float") -> bool:
    b = TraceBuilder()
    kernel = "void at::native::elementwise_kernel<128, 4, add>"
    operator(b, name, kernel, [shape] * len(strides), dtype, list(strides))
    m = measured(b)
    found = strided_work(m.rated) is not None
    assert [draft.id for draft in uncoalesced(m, np.ones(1, bool))] == (
        ["uncoalesced-access"] if found else []
    )
    return found


def test_a_transposed_and_a_contiguous_operand() -> None:
    assert strided("aten::copy_", [4096, 1024], [1024, 1], [1, 4096])
    assert strided("aten::add", [16, 64, 64, 64], [262144, 1, 4096, 64], [262144, 4096, 64, 1])
    assert not strided("aten::copy_", [4096, 1024], [1024, 1], [1024, 1])
    assert not strided("aten::copy_", [4096, 1024], [1, 4096], [1, 4096])
    assert not strided("aten::mm", [4096, 1024], [1024, 1], [1, 4096])


def test_small_operands_narrow_ones_and_broadcast_ones_are_no_matter() -> None:
    assert not strided("aten::copy_", [64, 64], [64, 1], [1, 64])
    assert not strided(
        "aten::copy_", [1 << 22, 2], [2, 1], [1, 1 << 22]
    )  # two floats share a sector
    assert not strided("aten::add", [4096, 1024], [1024, 1], [0, 1])
    assert not strided("aten::add", [4096, 1024], [1024, 1])


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(2, 9), min_size=2, max_size=3),
    order=st.permutations(range(3)),
    element=st.sampled_from(["float", HALF, "double"]),
)
def test_crossing_operands_against_a_walk(shape: list[int], order: list[int], element: str) -> None:
    """The slow way: walk one operand in its own order, and count how often the other stays in its
    sector."""
    dims = [d for d in order if d < len(shape)]
    dtype = DTYPES[element]

    def strides_of(order: list[int]) -> tuple[int, ...]:
        result = [0] * len(shape)
        step = 1
        for d in order:
            result[d] = step
            step *= shape[d]
        return tuple(result)

    a = Tensor(tuple(shape), dtype, strides_of(list(range(len(shape)))[::-1]))
    b = Tensor(tuple(shape), dtype, strides_of(dims))

    def at(tensor: Tensor, place: tuple[int, ...]) -> int:
        assert tensor.strides is not None
        return sum(i * s for i, s in zip(place, tensor.strides, strict=True))

    def jumps(walked: Tensor, other: Tensor) -> bool:
        """Whether neighbours of the walked one are never neighbours within a sector of the
        other."""
        assert walked.strides is not None
        fast = walked.strides.index(1)
        places = [p for p in product(*map(range, shape)) if p[fast] + 1 < shape[fast]]
        steps = {
            abs(at(other, (*p[:fast], p[fast] + 1, *p[fast + 1 :])) - at(other, p)) for p in places
        }
        return all(step * dtype.bytes >= SECTOR_BYTES for step in steps)

    assert crosses(a, b) == (jumps(a, b) and jumps(b, a))


def test_operands_have_to_be_large() -> None:
    side = int((LARGE_BYTES / 4) ** 0.5)
    assert strided("aten::copy_", [side, side], [side, 1], [1, side])
    assert not strided("aten::copy_", [side // 2, side], [side, 1], [1, side // 2])


def sending(copies: int, size: int = 1024, inside: str | None = None) -> Measurements:
    """Three steps that send so many tensors, each in 20 us, and then compute for 100 us."""
    b = TraceBuilder()
    now = 1000.0
    number = 0
    for i in range(3):
        start = now
        if inside:
            b.op(inside, now, now + 20 * copies)
        for _ in range(copies):
            number += 1
            b.op("aten::to", now, now + 18).op("aten::copy_", now + 2, now + 16)
            b.call("cudaMemcpyAsync", now + 5, now + 12, number)
            b.kernel("Memcpy HtoD", now + 8, now + 9, number, stream=7, **copied(size))
            now += 20
        number += 1
        b.call("cudaLaunchKernel", now, now + 5, number).kernel(
            "at::native::k", now + 6, now + 106, number, stream=7
        )
        now += 110
        b.annotation(f"ProfilerStep#{i}", start, now)
    return measured(b)


def copied(size: int) -> dict[str, int]:
    return {"kind": DeviceOpKind.MEMCPY, "copy_kind": CopyKind.HOST_TO_DEVICE, "bytes": size}


def test_many_small_copies() -> None:
    found = small_copies(sending(50).timed)
    assert found is not None
    assert (found.a_step, found.median_bytes, found.operator) == (50, 1024, "aten::to")
    assert found.host_ms == pytest.approx(50 * 0.018)
    assert found.device_ms == pytest.approx(50 * 0.001)


@pytest.mark.parametrize(
    "m", [sending(MANY - 1), sending(50, 1_000_000), sending(50, inside="aten::index")]
)
def test_few_or_large_ones_or_an_operators_own_are_none(m: Measurements) -> None:
    assert small_copies(m.timed) is None


def test_the_finding_says_what_one_copy_would_bring() -> None:
    m = sending(50)
    diagnosis = diagnose(m)
    (finding,) = [f for f in diagnosis.findings if f.id == "small-copies"]
    assert finding.headroom_ms is None
    assert finding.evidence[0].value == pytest.approx(50 * 18 / m.mean_step_ms / 1e3)
    (advice,) = [r for r in diagnosis.recommendations if r.id == "small-copies"]
    assert advice.predicted_step_ms is not None
    # Without 49 of the 50 copies, each of which costs the host 20 us, the device sets the pace: its
    # kernel of 100 us, the copy of 1 us that waits for it, and the host until the next launch, which
    # takes less without the profiler than the 20 us of a copy. A share of the recorded host's time,
    # whatever the profiler costs, is no measure of that.
    assert 0.101 < advice.predicted_step_ms < 0.101 + 0.020


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), min_size=1, max_size=8))
def test_kernels_side_by_side_by_counting(kernels: list[tuple[int, int]]) -> None:
    b = TraceBuilder()
    for i, (start, length) in enumerate(sorted(kernels)):
        b.kernel(f"k{i}", start, start + length, stream=i)
    depth = [sum(start <= t < start + length for start, length in kernels) for t in range(100)]
    expected = sum(d > 1 for d in depth) / sum(d > 0 for d in depth)
    assert concurrent_kernel_share(measure(b.build()).timed) == pytest.approx(expected)


def test_graphs_recorded_as_one_hide_their_kernels() -> None:
    b = TraceBuilder().kernel("graph", 0, 10, kind=DeviceOpKind.GRAPH).kernel("k", 20, 30)
    assert concurrent_kernel_share(measure(b.build()).timed) is None
    assert (
        concurrent_kernel_share(measure(TraceBuilder().op("aten::add", 0, 10).build()).timed)
        is None
    )


def test_sending_them_together_is_a_remedy() -> None:
    m = sending(50)
    assert batch_calls.offer(m).scenario is SENT


def test_no_graph_takes_the_sending_from_the_host() -> None:
    """50 copies of 20 us beside a kernel of 100 us, and one copy."""
    assert cuda_graph.offer(sending(50)) is None
    assert cuda_graph.offer(sending(1)) is not None
