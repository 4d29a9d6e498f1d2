"""What a program is seen to do."""

from __future__ import annotations

import time

import pytest

from traceanalyzer.trials.seen.loading import LoadingClock
from traceanalyzer.trials.seen.probe import COLLATING, Probe


def test_a_stream_that_asks_for_its_worker_is_seen_and_collating_is_not(monkeypatch):
    torch = pytest.importorskip("torch")
    from torch.utils import data

    for owner, name in ((data, "get_worker_info"), (data.DataLoader, "__init__")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    probe = Probe()
    probe._see_loaders()

    class Stream(data.IterableDataset):
        asks = False

        def __iter__(self):
            if self.asks:
                data.get_worker_info()
            yield from torch.ones(4)

    loader = data.DataLoader(Stream(), batch_size=2)
    list(loader)
    assert probe.loaders[0]["streams"]
    assert probe.counts["get_worker_info"] == 0, COLLATING
    Stream.asks = True
    list(loader)
    assert probe.counts["get_worker_info"] == 1


def test_batches_that_are_waited_for_are_timed(monkeypatch):
    pytest.importorskip("torch")
    from torch.utils.data import DataLoader, dataloader

    owner = dataloader._BaseDataLoaderIter
    monkeypatch.setattr(owner, "__next__", owner.__next__)
    clock = LoadingClock()
    clock.install()
    clock.start()
    assert clock.measured(1) == {}, "no batch was seen"

    class Waits:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            time.sleep(0.005)
            return index

    for _ in DataLoader(Waits(), batch_size=2):
        time.sleep(0.002)
    found = clock.measured(2)
    assert 10.0 <= found["loading_ms"] <= found["step_ms"] - 2.0
    assert found["loading_cpu_ms"] <= found["cpu_ms"]
    assert found["loading_cpu_ms"] < found["loading_ms"]
