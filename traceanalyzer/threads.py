"""Work on long columns that several threads do at once: numpy lets go of the interpreter while it goes through one."""

from __future__ import annotations

import threading
from contextvars import copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar, cast

from traceanalyzer.reading import reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Item = TypeVar("Item")
Made = TypeVar("Made")
Other = TypeVar("Other")

LEAST_ROWS = 500_000
"""Columns of fewer rows take about as long as it takes to start threads."""
MOST = 4
"""More threads than that wait for memory. Each holds what it makes meanwhile, so that memory grows with them, too."""
AHEAD = 4
"""Items that may wait for the thread which works on them."""


def at_once(work: Callable[[Item], Made], items: Iterable[Item], rows: int) -> list[Made]:
    """What `work` makes of each item, which has columns of so many rows, in order. Threads are used only by commands
    that may use several processes (`--jobs`), under the same limits. Raises what `work` does."""
    every = list(items)
    count = min(reading().jobs, MOST, len(every)) if rows >= LEAST_ROWS else 1
    todo, made = iter(range(len(every))), dict[int, Made]()
    failed: list[Exception] = []

    def take_part() -> None:
        try:
            for number in todo:
                made[number] = work(every[number])
        except Exception as error:
            failed.append(error)

    others = [threading.Thread(target=copy_context().run, args=(take_part,)) for _ in range(count - 1)]
    for thread in others:
        thread.start()
    take_part()
    for thread in others:
        thread.join()
    if failed:
        raise failed[0]
    return [made[number] for number in range(len(every))]


def both(first: Callable[[], Made], second: Callable[[], Other], rows: int) -> tuple[Made, Other]:
    """What two functions make, as `at_once` does."""
    works: list[Callable[[], Any]] = [first, second]
    one, other = at_once(lambda work: work(), works, rows)
    return one, other


def beside(work: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[Made]:
    """What `work`, which lets go of the interpreter, makes of each item, in order, while the next items are made. A
    thread is used only by commands that may use several processes. Raises what `work` does, and what `items` do."""
    if reading().jobs < 2:
        yield from map(work, items)
        return
    todo, made, waiting = SimpleQueue[tuple[Item] | None](), SimpleQueue[tuple[Made | None, Exception | None]](), 0

    def work_off() -> None:
        for (item,) in iter(todo.get, None):
            try:
                made.put((work(item), None))
            except Exception as error:
                made.put((None, error))

    def next_one() -> Made:
        result, error = made.get()
        if error is not None:
            raise error
        return cast("Made", result)

    thread = threading.Thread(target=copy_context().run, args=(work_off,))
    thread.start()
    try:
        for item in items:
            todo.put((item,))
            waiting += 1
            if waiting > AHEAD:
                yield next_one()
                waiting -= 1
        for _ in range(waiting):
            yield next_one()
    finally:
        todo.put(None)
        thread.join()
