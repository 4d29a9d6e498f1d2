"""What a collective is where its kernel does not say: NCCL makes many of them of sends and receives."""

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
def test_the_ranges_around_a_send_say_what_it_is_part_of(around: tuple[str, ...], kind: str) -> None:
    b = TraceBuilder()
    for depth, name in enumerate(around):
        b.annotation(name, depth, 100 - depth)
    b.call("cuLaunchKernelEx", 50, 52, 1).kernel("ncclDevKernel_SendRecv(ncclDevKernelArgs)", 60, 90, 1)
    calls = measure(b.build()).timed.collective_calls
    assert [KINDS[k] for k in calls.kind] == [kind]
