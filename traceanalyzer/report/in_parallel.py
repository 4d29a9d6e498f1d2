"""The two halves of a report of a long recording, each computed in a process of its own."""

from collections.abc import Callable
from typing import TypeVar

from traceanalyzer.analysis.roofline.rated import counted_roofline
from traceanalyzer.base.parallel import run_both, worth_a_child
from traceanalyzer.diagnosis.measurements import Measurements

A = TypeVar("A")
B = TypeVar("B")
LEAST_ROWS_OF_ROOFLINE = 1_000_000  # for the roofline alone: that of 330,000 rows takes 0.06 s


def in_halves(
    m: Measurements,
    child: Callable[[], A],
    parent: Callable[[], B],
) -> tuple[A, B]:
    """The results of both functions of these measurements. Of a long recording one is computed by
    another process, and the columns that both need are made before."""
    if not worth_a_child(_rows(m)):
        return child(), parent()
    with_roofline(
        m,
        lambda: (m.causes.gaps, m.phases, m.replay, m.launches, m.shape_rows),
        least=0,
    )
    _made_before(m.unprofiled, m.unprofiled_path_time)
    return run_both(child, parent, worth=True)


def with_roofline(m: Measurements, work: Callable[[], A], least: int = LEAST_ROWS_OF_ROOFLINE) -> A:
    """What `work` makes, while another process computes the roofline of a recording of at least so
    many rows."""
    if m.rated.has(counted_roofline) or not worth_a_child(_rows(m), least):
        return work()
    _made_before(m.linked.tree)
    roofline, result = run_both(lambda: counted_roofline(m.rated), work, worth=True)
    m.rated.keep(counted_roofline, roofline)
    return result


def _made_before(*_: object) -> None:
    """Columns that both processes need: asked for before they part, each is made in one of them."""


def _rows(m: Measurements) -> int:
    return len(m.trace.device_ops) + len(m.trace.host_ranges) + len(m.trace.api_calls)
