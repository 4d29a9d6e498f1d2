"""What NCCL itself says about the ranks of a job: the text of its RAS client, the JSON of its
Inspector plug-in.

https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html,
https://github.com/NVIDIA/nccl/tree/master/ext-profiler/inspector"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from traceanalyzer.base import dataclass, regex
from traceanalyzer.trace.flight import Clues

RAS_TABLE = regex(r"^ *(\d{1,18}) +\d+ +\d+ +\d+ +(\d{1,18}) +\d+ +[A-Z]+", re.MULTILINE)
"""Of a row of communicators: their number, and how many ranks each has."""
RAS_PART = regex(r"^#(\d{1,18})-\d+ \(\w+\) (\w+)|^(DEAD|INCOMPLETE)\b", re.MULTILINE)
RAS_COUNT = regex(r"ranks have (?:launched up to operation (\d{1,18})|not launched any)")
RAS_RANK = regex(
    r"^(?>.*?Rank (\d{1,9})\b)(?: has launched up to operation (\d{1,18}))?"
    r".*?-- GPU \S+ managed by process \d+ on node (\S+)"
)
RAS_PROCESS = regex(r"Process \d+ on node \S+ managing GPUs? \S+")
INSPECTED = regex(r'"id": ?"(\w+)",\s*"rank": ?(\d{1,9}),\s*"n_ranks": ?(\d{1,9})\b')
"""The beginning of what the Inspector says of a rank."""
INSPECTED_HOST = regex(r'"hostname": ?"([^"]*)"')
INSPECTED_NUMBER = regex(r'"coll_sn": ?(\d{1,9})')
LONGEST_LINE = 2_000
"""Characters of a line of the RAS client that are looked at: it prints some hundred."""


def is_ras(head: bytes) -> bool:
    """Whether a file begins as the RAS client prints."""
    return b"NCCL version" in head and b"Job summary" in head


def is_inspector(head: bytes) -> bool:
    """Whether a file begins as the Inspector writes."""
    return b'"header"' in head and b'"n_ranks"' in head


def clues_of(texts: Iterable[tuple[str, bytes]], world: int) -> Clues:
    """What files of either kind add, by name and content. A rank of a communicator is one of the
    job where the communicator has all `world` ranks."""
    clues = Clues()
    last: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for name, data in texts:
        text = data.decode("utf-8", "replace")
        clues = replace(clues, sources=(*clues.sources, name))
        if is_ras(data[:4096]):
            clues = _ras(clues, text, world)
        for record in _inspected(text):
            if record.ranks == world:
                clues.hosts[record.rank] = record.host
                numbers = last[record.communicator]
                numbers[record.rank] = max(numbers[record.rank], record.number)
    # the last collective of a rank in a communicator is before that of most
    fewer = {
        rank
        for ranks in last.values()
        for rank, number in ranks.items()
        if number < max(ranks.values())
    }
    return replace(clues, behind=tuple(sorted({*clues.behind, *fewer})))


@dataclass(frozen=True)
class _Inspected:
    """The last collective of a rank in a communicator of so many ranks."""

    communicator: str
    rank: int
    ranks: int
    host: str
    number: int


def _inspected(text: str) -> Iterator[_Inspected]:
    """What the Inspector says, record by record; one without a host or a number is left out."""
    begins = list(INSPECTED.finditer(text))
    ends = [*(begin.start() for begin in begins[1:]), len(text)]
    for begin, end in zip(begins, ends, strict=False):
        host = INSPECTED_HOST.search(text, begin.end(), end)
        number = INSPECTED_NUMBER.search(text, host.end(), end) if host else None
        if host and number:
            last = int(number[1])
            yield _Inspected(begin[1], int(begin[2]), int(begin[3]), host[1], last)


def _ras(clues: Clues, text: str, world: int) -> Clues:
    sizes = {number: int(ranks) for number, ranks in RAS_TABLE.findall(text)}
    dead = dict.fromkeys(clues.dead)  # in the order in which they are named
    dead_ranks = set(clues.dead_ranks)
    behind = set(clues.behind)
    for part in _ras_parts(text):
        if part.is_gone:
            processes = filter(None, map(RAS_PROCESS.search, part.lines))
            dead.update(dict.fromkeys(found[0] for found in processes))
        if sizes.get(part.communicator) != world:
            continue
        counts = _launched(part.lines, clues.hosts)
        if part.is_gone:
            dead_ranks |= counts.keys()
        elif part.state == "MISMATCH":
            behind |= _behind(part.lines, counts)
    return replace(
        clues, dead=tuple(dead), dead_ranks=tuple(sorted(dead_ranks)), behind=tuple(sorted(behind))
    )


@dataclass(frozen=True)
class _RasPart:
    """What the RAS client says of ranks of a communicator that are in one state."""

    communicator: str  # its number in the table above
    state: str
    lines: list[str]

    @property
    def is_gone(self) -> bool:
        """Whether the ranks do not answer."""
        return self.state in ("DEAD", "INCOMPLETE")


def _ras_parts(text: str) -> Iterator[_RasPart]:
    starts = list(RAS_PART.finditer(text))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    for start, end in zip(starts, ends, strict=False):
        lines = [line[:LONGEST_LINE] for line in text[start.end() : end].splitlines()]
        yield _RasPart(start[1], start[2] or start[3], lines)


def _behind(lines: Iterable[str], counts: dict[int, int]) -> set[int]:
    launched = [int(found[1] or 0) for found in filter(None, map(RAS_COUNT.search, lines))]
    most = max([*counts.values(), *launched], default=0)
    return {rank for rank, count in counts.items() if count < most}


def _launched(lines: Iterable[str], hosts: dict[int, str]) -> dict[int, int]:
    """Operations that the ranks named have launched; their hosts are added. Ranks follow the line
    of their count."""
    found: dict[int, int] = {}
    current = 0
    for line in lines:
        count = RAS_COUNT.search(line)
        if count:
            current = int(count[1] or 0)
        elif rank := RAS_RANK.search(line):
            found[int(rank[1])] = int(rank[2] or current)
            hosts[int(rank[1])] = rank[3]
    return found
