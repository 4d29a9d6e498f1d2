"""A gap in which the host worked in several places is theirs by how long it was in each; one that is
partly the profiler's is cut there."""

from __future__ import annotations

import pytest

from tests.analysis.build import US, TraceBuilder
from tests.analysis.causes.test_gaps import Program
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.tables.gap_rows import OUTSIDE, gap_places, longest_gaps
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.trace import CopyKind, DeviceOpKind, OverheadKind


def calling(program: Program, name: str, us: float) -> Program:
    program.call(name, program.now, program.now + us)
    return program.spend(us)


def places(program: TraceBuilder) -> dict[tuple[str, str], float]:
    rows = gap_places(measure(program.build()).causes)
    return {(row.cause, row.name): row.idle_ms for row in rows}


def test_idle_time_is_that_of_the_calls_which_overlap_it() -> None:
    """The single longest call is none of those that take most."""
    program = Program().launch().spend(2)
    for _ in range(3):
        calling(program, "cudaMallocPitch", 400)
    calling(program, "cudaFree", 500)
    program.launch()
    found = places(program)
    assert found["host", "cudaMallocPitch"] == pytest.approx(1.2, abs=0.02)
    assert found["host", "cudaFree"] == pytest.approx(0.5, abs=0.02)
    m = measure(program.build())
    rows = gap_places(m.causes)
    assert sum(row.gaps for row in rows) == 1
    assert sum(row.share_of_idle for row in rows) == pytest.approx(1.0)
    (gap,) = longest_gaps(m.causes, None, 0.0)
    assert gap.detail.startswith("allocating or freeing memory: host in cudaMallocPitch")
    assert "with cudaFree 0.5 ms" in gap.detail
    assert m.ledger is not None
    assert m.ledger.ms("idle", "host") == pytest.approx(sum(found.values()), abs=0.01)


def test_communication_within_a_gap_is_named() -> None:
    program = Program().launch().spend(1000).within("MPI_Recv", 300).spend(700).launch()
    found = places(program)
    assert found["host", "MPI_Recv"] == pytest.approx(0.3, abs=0.01)
    assert found["host", OUTSIDE] == pytest.approx(1.7, abs=0.02)
    (gap,) = longest_gaps(measure(program.build()).causes, None, 0.0)
    assert "nothing recorded on the host" in gap.detail
    assert "with MPI_Recv 0.3 ms" in gap.detail


def test_a_short_gap_is_whole() -> None:
    program = Program().launch()
    program.call("cudaMalloc", program.now, program.now + 50).spend(50)
    program.call("cudaFree", program.now, program.now + 40).spend(40).launch()
    assert len(places(program)) == 1


def test_a_gap_is_cut_where_the_profiler_works_for_long() -> None:
    program = Program().launch()
    began = program.now
    program.overhead(OverheadKind.PROFILER, began + 500, began + 2500)
    program.spend(2500)
    calling(program, "cudaMallocManaged", 1500).launch()
    gaps = measure(program.build()).causes.gaps
    causes = [IdleCause(one).label for one in gaps.cause.tolist()]
    assert causes == ["host", "profiler", "host"]
    assert gaps.duration.tolist()[1] == 2000 * US
    assert gaps.start.tolist()[1:] == gaps.end.tolist()[:-1]
    assert len(set(gaps.next_op.tolist())) == 1


def test_moving_pages_by_a_call_is_no_work_on_managed_memory() -> None:
    def migrating(call: str) -> dict[tuple[str, str], float]:
        program = Program().launch()
        calling(program.spend(2), call, 3000)
        at = program.now + 20
        columns = {"kind": DeviceOpKind.MEMCPY, "copy_kind": CopyKind.UNIFIED_HOST_TO_DEVICE}
        program.kernel("Unified Memory HtoD", at, at + 50, **columns)
        return places(program)

    assert ("host", "cudaMemPrefetchAsync") in migrating("cudaMemPrefetchAsync")
