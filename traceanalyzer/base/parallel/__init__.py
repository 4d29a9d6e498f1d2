"""What is computed at the same time, and in which process: every decision of it is in this file.

Only commands compute in parallel (`--jobs`): a program that uses this library gets neither
processes nor threads that it did not ask for."""

import ctypes
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from contextvars import copy_context
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

from traceanalyzer.base.reading import reading

_GROUPS = {
    "": ("sys/fs/cgroup", "memory.max", "memory.current"),
    "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
}
"""By the controller that a line of /proc/self/cgroup names (version 2 names none): where groups of
processes have their limit, and what they use of it
(https://docs.kernel.org/admin-guide/cgroup-v2.html)."""
_CACHED = ("inactive_file", "total_inactive_file")
"""Pages of files among what a group uses, which the system gives up as soon as memory is asked
for."""


A = TypeVar("A")
B = TypeVar("B")
LEAST_ROWS = 250_000
"""Rows of a recording (device ops, host ranges, API calls) that are worth a second process. Measured: a process costs a
tenth of a second, since both copy what they write to; 330,000 rows take 0.3 s less for it on quiet cores, 80,000 rows
0.1 s more."""
BYTES_A_ROW = 150
"""What a row costs in the memory of the second process that the first does not have as well.
Measured: 40."""
LEAST_BYTES = 32 << 20
"""What a process that reads should have to read: less takes as long with one more process as
without."""
LEAST_THREADED_ROWS = 500_000
"""Columns of fewer rows take about as long as it takes to start threads."""
MOST_THREADS = 4
"""More threads than that wait for memory. Each holds what it makes meanwhile, so that memory grows
with them, too."""
AHEAD = 4  # items that may wait for the thread which works on them


def most_at_once(needed: Iterable[int], free: int | None) -> int:
    """How many of several pieces of work, each of which needs so many bytes, fit into the memory at
    the same time, whichever they are; at least one. `free`: None where it is not known."""
    totals = list(accumulate(sorted(needed, reverse=True)))
    return max(len(totals) if free is None else sum(total <= free for total in totals), 1)


def free_memory_bytes(root: Path = Path("/")) -> int | None:
    """The memory that may be taken before the machine, or a limit of a container, has none left;
    None where neither says."""
    named = (line.partition(":") for line in _lines(root / "proc/meminfo"))
    available = [value for name, _, value in named if name == "MemAvailable"][:1]
    known = [int(value.split()[0]) * 1024 for value in available]
    if not known:
        with suppress(ValueError, OSError, AttributeError):  # macOS says how much it has in all
            known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min((*known, *_of_groups(root)), default=None)


def _of_groups(root: Path) -> Iterator[int]:
    """What each group that this process is in has left, where it has a limit."""
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        own = Path(path.lstrip("/"))
        for folder, limit, used in filter(None, map(_GROUPS.get, controllers.split(","))):
            for group in (own, *own.parents):
                with suppress(OSError, ValueError):  # `max`: it has no limit
                    yield _left_in(root / folder / group, limit, used)


def _left_in(group: Path, limit: str, used: str) -> int:
    """What a group has left: the cache of files is given up when memory is needed. Raises OSError,
    ValueError."""
    most = int((group / limit).read_text())
    taken = int((group / used).read_text())
    stat = dict(line.split() for line in _lines(group / "memory.stat"))
    cached = max((int(stat[name]) for name in _CACHED if name in stat), default=0)
    return most - taken + cached


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except (OSError, ValueError):
        return []


def worth_a_child(rows: int, least: int | None = None) -> bool:
    """Whether so many rows are worth a second process (`least`, else `LEAST_ROWS`), and there is
    memory for it."""
    enough = rows >= (LEAST_ROWS if least is None else least)
    if not enough:
        return False
    free = free_memory_bytes()
    return free is None or rows * BYTES_A_ROW < free


def run_both(
    child: Callable[[], A],
    parent: Callable[[], B],
    *,
    worth: bool,
) -> tuple[A, B]:
    """The results of both functions: `child` is computed by a fork, at the same time as `parent` by
    this process. `child` computes and nothing else (see `children.py`), and its result can be
    pickled. Where a process is not worth it (`worth`), not allowed or cannot be had, this process
    computes `child`, then `parent`. Raises what they raise."""
    if not worth or sys.platform != "linux" or reading().jobs < 2:
        return child(), parent()
    from traceanalyzer.base.parallel.children import children

    release_free_memory()
    with children(lambda: [child()], 1) as started:
        release_free_memory()
        own = parent()
        results = [value for one in started for value in one.values()]
    release_free_memory()
    return (results[0] if results else child()), own


def release_free_memory() -> None:
    """Hand free memory to the system. What is free before a fork would be copied where either
    process uses it again; and between two parts of the work of one that has large arrays, free
    pieces that are too small for the next part's would add to these. The system clears what it
    hands out, so not for little memory, and seldom."""
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def parallel_map(
    work: Callable[[A], B],
    items: Iterable[A],
    rows: int,
) -> list[B]:
    """What `work` makes of each item, which has columns of so many rows, in order: by several
    threads, as numpy does without the interpreter while it goes through long ones. Raises what
    `work` does."""
    every = list(items)
    count = min(reading().jobs, MOST_THREADS, len(every)) if rows >= LEAST_THREADED_ROWS else 1
    if count < 2:
        return list(map(work, every))
    from concurrent.futures import ThreadPoolExecutor

    todo = iter(range(len(every)))
    results = dict[int, B]()

    def take_part() -> None:
        for number in todo:
            results[number] = work(every[number])

    with ThreadPoolExecutor(
        count - 1
    ) as pool:  # this one works, too: each thread keeps memory of its own
        others = [pool.submit(copy_context().run, take_part) for _ in range(count - 1)]
        take_part()
        for other in others:
            other.result()
    return [results[number] for number in range(len(every))]


def both_threaded(
    first: Callable[[], A],
    second: Callable[[], B],
    rows: int,
) -> tuple[A, B]:
    """What two functions make of columns of so many rows, as `parallel_map` does."""
    results: list[object] = parallel_map(lambda work: work(), [first, second], rows)
    return results[0], results[1]  # type: ignore[return-value]


def pipelined(work: Callable[[A], B], items: Iterable[A]) -> Iterator[B]:
    """What `work`, which does without the interpreter, makes of each item, in order, while the next
    items are made. Raises what `work` does, and what `items` do."""
    if reading().jobs < 2:
        yield from map(work, items)
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    pending: deque[Future[B]] = deque()
    with ThreadPoolExecutor(1) as pool:
        try:
            for item in items:
                pending.append(pool.submit(copy_context().run, work, item))
                if len(pending) > AHEAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
