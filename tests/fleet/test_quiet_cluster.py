"""A cluster that lost workers and finishes nothing: what is missing is done here, once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from traceanalyzer.fleet.digests import cluster
from traceanalyzer.fleet.digests.cluster import WINDOW, over_cluster
from traceanalyzer.fleet.digests.files import Made
from traceanalyzer.fleet.digests.map import done_here
from traceanalyzer.ingest.places import RecordingPlace

TWO = {"tcp://a": 1, "tcp://b": 1}
ONE = {"tcp://b": 1}
RESTARTED = {"tcp://b": 1, "tcp://c": 1}
MANY = 2 * WINDOW + 3
"""More than two workers are given at first."""


class Task:
    """A future of a stand-in."""

    def __init__(self, ends: bool, place: RecordingPlace, status: str) -> None:
        self.ends = ends
        self.place = place
        self.status = status
        self.callbacks: list[Any] = []
        self.is_released = False

    def add_done_callback(self, call: Any) -> None:
        self.callbacks.append(call)
        if self.ends:
            call(self)

    def result(self, timeout: float) -> Made:
        if self.status == "finished":
            return Made(self.place.url, ("there",))
        raise TimeoutError(f"after {timeout} s") if self.status == "lost" else ValueError("bad")

    def release(self) -> None:
        """As Dask does, tell those that wait for a task which nobody wants any more."""
        if not self.is_released and not self.ends:
            for call in self.callbacks:
                call(self)
        self.is_released = True


class Client:
    """A stand-in: the recordings at `stuck` places never end; a look at the workers finds the next
    of `workers`, the last one again and again."""

    def __init__(self, stuck: set[int], *workers: Any, status: str = "finished") -> None:
        self.stuck = stuck
        self.workers = list(workers)
        self.status = status
        self.tasks: list[Task] = []

    def ncores(self) -> dict[str, int]:
        found = self.workers.pop(0) if len(self.workers) > 1 else self.workers[0]
        if isinstance(found, Exception):
            raise found
        return dict(found)

    def submit(self, _make: Any, place: RecordingPlace, *_args: Any, **_options: Any) -> Task:
        self.tasks.append(Task(len(self.tasks) not in self.stuck, place, self.status))
        return self.tasks[-1]


@pytest.fixture
def digested(monkeypatch):
    """How often this process digested each recording."""
    counts: Counter[str] = Counter()

    def make(place, _folder):
        counts[place.url] += 1
        return Made(place.url, ("here",))

    monkeypatch.setattr(cluster, "QUIET_S", 0.01)
    monkeypatch.setattr(cluster, "make", make)
    return counts


def places(count):
    return [RecordingPlace(f"rank{i}.json", f"rank{i}.json", False, 1, "s") for i in range(count)]


def run(client, count=MANY):
    reported: list[int] = []
    outcomes = over_cluster(client, places(count), "digests", reported.append)
    assert [one.url for one in outcomes] == [place.url for place in places(count)]
    assert reported == list(range(1, count + 1))
    return outcomes


@pytest.mark.parametrize(
    "later", [ONE, {}, RESTARTED, OSError("no scheduler")], ids=["one", "none", "again", "silent"]
)
def test_what_a_cluster_without_a_worker_does_not_finish_is_done_here(digested, later):
    outcomes = run(Client({1, 4}, TWO, later))
    assert digested == {"rank1.json": 1, "rank4.json": 1}
    assert [one.in_place for one in outcomes] == [i in (1, 4) for i in range(MANY)]
    assert done_here(outcomes) == [
        "2 recordings digested by this process: workers of the cluster were gone, "
        "and it finished nothing"
    ]


def test_a_cluster_that_stands_still_loses_no_recording(digested):
    """Also those that it was not given yet."""
    client = Client(set(range(MANY)), TWO, {})
    run(client)
    assert digested == dict.fromkeys([place.url for place in places(MANY)], 1)
    assert len(client.tasks) == 2 * WINDOW
    assert all(task.is_released for task in client.tasks)


def test_a_slow_cluster_that_lost_nobody_is_waited_for(digested):
    """The third look finds that a worker is gone."""
    client = Client({0}, TWO, TWO, TWO, ONE)
    run(client)
    assert digested == {"rank0.json": 1}
    assert client.workers == [ONE]


def test_a_worker_that_came_later_is_known(digested):
    run(Client({0}, ONE, TWO, ONE))
    assert digested == {"rank0.json": 1}


def test_a_result_that_went_with_its_worker_is_made_here(digested):
    outcomes = run(Client(set(), TWO, status="lost"), 3)
    assert digested == dict.fromkeys(["rank0.json", "rank1.json", "rank2.json"], 1)
    assert all(one.in_place for one in outcomes)


def test_a_task_that_fails_is_a_failure(digested):
    outcomes = run(Client(set(), TWO, status="error"), 2)
    assert [one.failure for one in outcomes] == [f"rank{i}.json: ValueError: bad" for i in range(2)]
    assert (digested, done_here(outcomes)) == ({}, [])


def test_one_that_finishes_while_this_process_helps_is_taken(digested, monkeypatch):
    """What the cluster finishes is not done again, and it is waited for again."""
    client = Client({0, 1}, TWO, TWO, ONE)
    make = cluster.make

    def helped(place, folder):
        first = client.tasks[0]
        first.ends = True
        for call in first.callbacks:
            call(first)
        return make(place, folder)

    monkeypatch.setattr(cluster, "make", helped)
    outcomes = run(client)
    assert [outcomes[i].digests for i in (0, 1)] == [("there",), ("here",)]
    assert digested == {"rank1.json": 1}
