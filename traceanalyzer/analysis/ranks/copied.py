"""Which recordings are copies of others, whatever rank their names or a line in them say.

Clocks tell: no two processes begin every one of their events at the same time."""

from collections.abc import Iterator, Sequence

import numpy as np

from traceanalyzer.base.errors import SeveralRunsError
from traceanalyzer.trace import I64

SAME_NS = 500
"""What times differ by after a program read and wrote them as floating-point microseconds since
1970, 0.25 apart."""
LEAST_DISTINCT = 8
"""So many lengths of time tell a recording from a made one, whose ranks may all do the same."""
MOST_COMPARED = 8  # of the recordings that begin at one time


def copies(times: Sequence[I64]) -> Iterator[tuple[int, int]]:
    """Positions of recordings with the same times, the one given first before its copy. `times` are
    those of each recording, ns, in any order that a copy keeps."""

    def begin(i: int) -> tuple[int, int]:
        return len(times[i]), int(times[i][0])

    long = [i for i, one in enumerate(times) if len(one) > LEAST_DISTINCT]
    known = sorted(long, key=begin)
    for at, i in enumerate(known):
        following = at + 1
        for k in known[following : following + MOST_COMPARED]:
            if _are_the_same(times[i], times[k]):
                yield min(i, k), max(i, k)


def _are_the_same(a: I64, b: I64) -> bool:
    if len(a) != len(b) or b[0] - a[0] > SAME_NS:
        return False
    is_near = np.abs(a - b).max() <= SAME_NS
    return bool(is_near) and len(np.unique(np.diff(a))) >= LEAST_DISTINCT


def a_copy(first: str, second: str) -> SeveralRunsError:
    """What says that the second is a copy of the first."""
    return SeveralRunsError(
        f"{second} is a copy of {first}: what it recorded has the same times; give one of them"
    )
