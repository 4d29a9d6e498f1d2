"""Which kind of host work filled a gap, and that little of it does not own one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.causes.details import IdleDetail, host_details
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.trace import OverheadKind

US = 1000


def detail(builder: TraceBuilder, start: float, end: float) -> IdleDetail:
    """The detail of the stretch, on a host that launches a kernel before it and one after it."""
    builder.call("cudaLaunchKernel", 0, 4, 1).kernel("k", 5, 10, 1)
    builder.call("cudaLaunchKernel", 1000, 1004, 2).kernel("k", 1006, 1010, 2)
    found = host_details(
        measure(builder.build()).timed, np.array([start * US]), np.array([end * US])
    )
    return IdleDetail(int(found[0]))


@pytest.mark.parametrize(
    ("us", "expected"), [(600, IdleDetail.COMPILATION), (400, IdleDetail.NONE)]
)
def test_a_range_that_compiles_for_half_of_a_gap_owns_it(us: float, expected: IdleDetail) -> None:
    assert (
        detail(TraceBuilder().op("TorchDynamo Cache Lookup: compile", 100, 100 + us), 10, 1006)
        == expected
    )


def test_a_look_up_of_what_is_compiled_compiles_nothing() -> None:
    looked_up = TraceBuilder().op("TorchDynamo Cache Lookup", 100, 1000)
    assert detail(looked_up, 10, 1006) == IdleDetail.NONE


def test_only_what_lies_within_the_gap_counts() -> None:
    assert detail(TraceBuilder().op("torchdynamo", 100, 300), 400, 900) == IdleDetail.NONE
    assert detail(TraceBuilder().op("torchdynamo", 100, 300), 150, 500) == IdleDetail.NONE
    assert detail(TraceBuilder().op("torchdynamo", 100, 300), 150, 400) == IdleDetail.COMPILATION


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (OverheadKind.DRIVER, IdleDetail.LOADING),
        (OverheadKind.PROFILER, IdleDetail.NONE),
    ],
)
def test_what_the_driver_does_of_its_own_is_loading(
    kind: OverheadKind, expected: IdleDetail
) -> None:
    assert detail(TraceBuilder().overhead(kind, 100, 800), 10, 1006) == expected
