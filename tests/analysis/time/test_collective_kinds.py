"""What a collective is where its kernel does not say: NCCL makes many of them of sends and
receives."""

from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.names.collectives import KINDS
from traceanalyzer.diagnosis.measurements import measure


@pytest.mark.parametrize(
    ("around", "kind"),
    [
        (("nccl:all_to_all", "ncclGroupEnd"), "all_to_all"),
        (("c10d::alltoall_base_", "nccl:all_to_all", "ncclSend"), "all_to_all"),
        (("nccl:send",), "send"),
        (("nccl:coalesced",), "send_recv"),
        ((), "send_recv"),
        (("AllToAll4D", "c10d::_reduce_scatter_base_"), "reduce_scatter"),
    ],
)
def test_the_ranges_around_a_send_say_what_it_is_part_of(
    around: tuple[str, ...], kind: str
) -> None:
    b = TraceBuilder()
    for depth, name in enumerate(around):
        b.annotation(name, depth, 100 - depth)
    b.call("cuLaunchKernelEx", 50, 52, 1).kernel(
        "ncclDevKernel_SendRecv(ncclDevKernelArgs)", 60, 90, 1
    )
    calls = measure(b.build()).timed.collective_calls
    assert [KINDS[k] for k in calls.kind] == [kind]


@pytest.mark.parametrize(
    ("operator", "kernel", "shapes", "types", "size"),
    [
        (
            "symm_mem::multimem_all_reduce_",
            "multimem_all_reduce_kernel",
            "[[2557440], [], []]",
            "c10::BFloat16",
            5114880,
        ),
        (
            "nccl:all_reduce",
            "ncclKernel_AllReduce_RING_LL_Sum_float",
            "[[2049000]]",
            "float",
            8196000,
        ),
        ("nccl:reduce_scatter", "ncclDevKernel_ReduceScatter_x", "[[8, 4], [4]]", "float", 128),
        ("nccl:all_gather", "ncclDevKernel_AllGather_x", "[[4], [8, 4]]", "float", 128),
        ("vllm::all_gather", "ncclDevKernel_AllGather_x", "[[4], [], []]", "float", -1),
        ("aten::sum", "ncclDevKernel_AllReduce_x", "[[4]]", "float", -1),
        ("nccl:broadcast", "ncclDevKernel_AllReduce_x", "[[4]]", "float", -1),
        ("nccl:all_reduce", "ncclDevKernel_AllReduce_x", "[[4]]", "not a type", -1),
    ],
)
def test_the_operator_around_a_collective_says_its_size(
    operator: str, kernel: str, shapes: str, types: str, size: int
) -> None:
    b = TraceBuilder().op("ddp", 0, 90)
    count = shapes.count("[") - 1
    b.op(operator, 10, 50, shapes=shapes, dtypes=b.code(str([types] * count).replace("'", '"')))
    b.call("cudaLaunchKernel", 20, 30, 1).kernel(kernel, 40, 60, 1)
    calls = measure(b.build()).timed.collective_calls
    assert calls.bytes.tolist() == [size]
