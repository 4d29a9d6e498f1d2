"""Host work with a name has a remedy of its own, and no other remedy promises to take it out."""

from __future__ import annotations

import pytest

from tests.analysis.causes.test_gaps import Program
from tests.analysis.replay.test_replay import GEMM, steps
from traceanalyzer.analysis.replay.changes.loading import no_allocations
from traceanalyzer.analysis.replay.changes.warmup import graphs_kept, no_work_of_its_own, warmed_up
from traceanalyzer.analysis.replay.simulate import step_time_ns
from traceanalyzer.analysis.replay.tape import make_tape


def working(p: Program) -> None:
    """A millisecond of Python, two in hipFree, four in loading a module, three in a graph; then a kernel of a tenth."""
    p.spend(1000)
    for call, us in (("hipFree", 2000), ("cuModuleLoadData", 4000), ("cudaGraphInstantiate", 3000)):
        p.call(call, p.now, p.now + us).spend(us)
    p.launch(GEMM, 100).sync()


@pytest.mark.parametrize(
    ("change", "gone_ms"), [(no_work_of_its_own, 1), (no_allocations, 2), (warmed_up, 4), (graphs_kept, 3)]
)
def test_each_remedy_takes_out_its_own_part(change: object, gone_ms: float) -> None:
    tape = make_tape(steps(working))
    assert tape is not None
    changed = change(tape)
    assert changed is not None
    assert (step_time_ns(tape) - step_time_ns(changed)) / 1e6 == pytest.approx(gone_ms, rel=0.02)
