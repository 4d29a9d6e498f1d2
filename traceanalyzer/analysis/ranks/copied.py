"""Which recordings are copies of others, whatever rank their names or a line in them say.

Clocks tell: no two processes begin every one of their events at the same time."""

from collections.abc import Iterator, Sequence

import numpy as np

from traceanalyzer.base import NS_PER_US
from traceanalyzer.base.errors import SeveralRunsError
from traceanalyzer.trace import I64

SAME_NS = 500
"""What times differ by after a program read and wrote them as floating-point microseconds since
1970, 0.25 apart."""
LEAST_FINE = 16
LEAST_COARSE = 64
"""So many lengths of time, or whole microseconds of older profilers, tell a recording from one that
was made up, whose ranks may all do the same."""
MOST_COMPARED = 8  # of the recordings that begin at one time
REPLICATED = 4
"""So many recordings with the same times are no mistake: somebody tries what a job of many ranks
costs."""


def copies(times: Sequence[I64]) -> Iterator[tuple[int, int]]:
    """Positions of recordings with the same times, the one given first before its copy. `times` are
    those of each recording, ns, in any order that a copy keeps. Of `REPLICATED` ones nothing is
    said."""

    def begin(i: int) -> tuple[int, int]:
        return len(times[i]), int(times[i][0])

    groups: list[list[int]] = []
    for i in sorted((i for i, one in enumerate(times) if len(one) > LEAST_FINE), key=begin):
        recent = groups[-MOST_COMPARED:]
        same = (group for group in recent if _are_the_same(times[group[0]], times[i]))
        group = next(same, None)
        if group is None:
            groups.append([i])
        else:
            group.append(i)
    for group in groups:
        if len(group) < REPLICATED:
            first, *others = sorted(group)
            yield from ((first, other) for other in others)


def _are_the_same(a: I64, b: I64) -> bool:
    if len(a) != len(b) or b[0] - a[0] > SAME_NS:
        return False
    is_near = np.abs(a - b).max() <= SAME_NS
    return bool(is_near) and _was_recorded(a)


def _was_recorded(times: I64) -> bool:
    lengths = np.unique(np.diff(times))
    fine = int((lengths % NS_PER_US != 0).sum())
    return fine >= LEAST_FINE or len(lengths) >= LEAST_COARSE


def a_copy(first: str, second: str) -> SeveralRunsError:
    """What says that the second is a copy of the first."""
    return SeveralRunsError(
        f"{second} is a copy of {first}: what it recorded has the same times; give one of them"
    )
