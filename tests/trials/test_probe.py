"""What a program is seen to do."""

from __future__ import annotations

import pytest

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
