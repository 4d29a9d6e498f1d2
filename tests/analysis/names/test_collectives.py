from __future__ import annotations

import pytest

from traceanalyzer.analysis.names.collectives import (
    bus_factor,
    collective_kind,
    element_bytes,
    message_bytes,
)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("allreduce", "all_reduce"),
        ("allreduce_coalesced", "all_reduce"),
        ("_allgather_base", "all_gather"),
        ("all_gather_into_tensor_coalesced", "all_gather"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("all_to_allv", "all_to_all"),
        ("alltoall_base", "all_to_all"),
        ("broadcast_oop", "broadcast"),
        ("_reduce_oop", "reduce"),
        ("barrier", "barrier"),
        ("send", "send"),
        ("recvAnySource", "recv"),
        ("wait", "other"),
        ("ncclAllReduce", "all_reduce"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_reduce"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "send_recv"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "reduce_scatter"),
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL", "reduce"),
        ("ncclDevKernel_Generic", "other"),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(...)", "all_reduce"),
        ("multimem_one_shot_all_reduce_kernel", "all_reduce"),
        ("deep_ep::intranode::dispatch<8, 768>", "all_to_all"),
    ],
)
def test_kind_of_a_name(name, kind):
    assert collective_kind(name) == kind


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("Float", 4),
        ("BFloat16", 2),
        ("c10::Half", 2),
        ("torch.int64", 8),
        ("Float8_e4m3fn", 1),
        ("?", None),
    ],
)
def test_element_size(dtype, size):
    assert element_bytes(dtype) == size


@pytest.mark.parametrize(
    ("kind", "ranks", "factor"),
    [
        ("all_reduce", 8, 1.75),
        ("all_gather", 4, 0.75),
        ("reduce_scatter", 4, 0.75),
        ("all_to_all", 4, 0.75),
        ("broadcast", 8, 1.0),
        ("reduce", 8, 1.0),
        ("send_recv", 2, 1.0),
        ("all_reduce", 1, None),
        ("all_reduce", -1, None),
        ("barrier", 8, None),
    ],
)
def test_bus_factor_is_that_of_nccl_tests(kind, ranks, factor):
    assert bus_factor(kind, ranks) == factor


@pytest.mark.parametrize(
    ("kind", "into", "out", "ranks", "expected"),
    [
        ("all_reduce", 100, 100, 4, 400),
        ("all_gather", 100, 400, 4, 1600),
        ("all_gather", 100, -1, 4, 1600),
        ("all_gather", 100, -1, -1, -1),
        ("reduce_scatter", 400, 100, 4, 1600),
        ("reduce_scatter", -1, 100, 4, 1600),
        ("broadcast", -1, 100, 4, 400),
        ("barrier", 1, 1, 4, -1),
        ("all_reduce", -1, -1, 4, -1),
    ],
)
def test_message_bytes_are_the_whole_buffer(kind, into, out, ranks, expected):
    assert message_bytes(kind, into, out, ranks, 4) == expected


def test_message_of_an_unknown_type_has_no_size():
    assert message_bytes("all_reduce", 100, 100, 4, None) == -1
