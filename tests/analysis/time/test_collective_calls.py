"""Collectives as calls, each with its kernels."""

from __future__ import annotations

from tests.analysis.collectives import ALL_REDUCE, Ranked
from traceanalyzer.diagnosis.measurements import measure


def test_a_collective_of_several_kernels_lasts_until_the_last_of_them_ends() -> None:
    builder = Ranked()
    builder.op("record_param_comms", 1, 9, collective=builder.described("allreduce", 1000))
    builder.launched(ALL_REDUCE, 20, 30, 2).launched(ALL_REDUCE, 30, 80, 4).launched(
        ALL_REDUCE, 31, 60, 6, stream=8
    )
    calls = measure(builder.trace()).timed.collective_calls
    assert (calls.start.tolist(), calls.end.tolist()) == ([20_000], [80_000])
    assert (calls.kernels.tolist(), calls.of_kernel.tolist()) == ([0, 1, 2], [0, 0, 0])
