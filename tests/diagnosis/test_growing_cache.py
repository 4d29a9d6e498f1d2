"""Decoding with a cache that grows from step to step: what a graph of it needs and promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kineto_builder import KinetoTrace
from traceanalyzer.diagnosis.measurements import Measurements, measure_ranks
from traceanalyzer.diagnosis.remedies.advice import advise
from traceanalyzer.diagnosis.remedies.launches import _Kernels, _repeats, grows, same_every_step
from traceanalyzer.ingest import load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STEPS = 8
STEP_US = 2000
LAYERS = 20


def decode(folder: Path, blocks: Callable[[int], int], name: str = "cat") -> Measurements:
    """Steps whose host launches twenty pairs of small kernels, those that join the cache with so
    many blocks in each step, and then reads a token."""
    t = KinetoTrace()
    for s in range(STEPS):
        begin = s * STEP_US
        t.step(s, begin, STEP_US)
        for layer in range(LAYERS):
            at = begin + 20 + 90 * layer
            t.op("aten::cat", at, 30)
            t.launched(
                f"{name}{s}" if name == "odd" else name,
                at + 5,
                at + 15,
                4,
                grid=[blocks(s), 1, 1],
                block=[128, 1, 1],
            )
            t.op("aten::mm", at + 40, 30)
            t.launched("gemm", at + 45, at + 55, 6, grid=[64, 1, 1], block=[128, 1, 1])
        t.op("aten::item", begin + 1900, 60)
        t.api("cudaStreamSynchronize", begin + 1910, 40)
    (trace,) = load([t.write(folder / "trace.json")]).traces
    (m,) = measure_ranks([trace])
    return m


def test_a_cache_that_grows_is_promised_a_graph_with_a_figure(tmp_path: Path) -> None:
    m = decode(tmp_path, lambda step: 10 + step)
    assert m.replay is not None
    tape = m.replay.typical[0]
    assert grows(tape)
    assert not same_every_step(tape)
    offered = {one.remedy.id: one for one in advise(m)}
    step = offered["cuda_graph"].prediction.step_ms
    assert offered["cuda_graph"].offer.single
    assert step is not None
    assert LAYERS * 0.010 <= step < 0.25 * m.replay.base_ms


@pytest.mark.parametrize(
    ("blocks", "name"),
    [
        (lambda _: 10, "cat"),
        (lambda step: 10 - step % 2, "cat"),
        (lambda step: 10 + step, "odd"),
    ],
)
def test_what_stays_shrinks_or_is_another_kernel_does_not_grow(
    tmp_path: Path, blocks: Callable[[int], int], name: str
) -> None:
    m = decode(tmp_path, blocks, name)
    assert m.replay is not None
    assert not grows(m.replay.typical[0])


def test_the_last_step_may_lack_its_end() -> None:
    """Where a recording stops within a step, what is left of it is no other step."""
    whole = _Kernels([1, 2, 3, 4], [8, 8, 8, 8])
    cut = _Kernels([1, 2, 3], [8, 8, 8])
    assert _repeats([whole, whole, cut], 1)
    assert not _repeats([whole, cut], 1), "one whole step does not tell which is usual"
    assert not _repeats([whole, cut, whole], 1)
    assert not _repeats([whole, whole, _Kernels([1], [8])], 1)
    assert not _repeats([whole, whole, _Kernels([2, 3, 4], [8, 8, 8])], 1)
    assert not _repeats([whole, whole, _Kernels([1, 2, 3], [8, 8, 9])], 1)
