from __future__ import annotations

import gc
import json
import sys

import pytest

from tests.collect.running import SCRIPTS, collect
from traceanalyzer.collect.host import program as loader

torch = pytest.importorskip("torch")


def test_the_batch_size_of_the_loader_that_is_iterated() -> None:
    batches = iter(torch.utils.data.DataLoader(torch.zeros(10, 3), batch_size=4))
    assert loader.describe_loader(gc.get_objects()) == {"batch_size": 4}
    assert [loader.samples_in(batches, batch) for batch in batches] == [4, 4, 2]


def test_batches_in_tuples_and_dicts() -> None:
    batches = iter(
        torch.utils.data.DataLoader([{"x": torch.zeros(2), "y": i} for i in range(6)], batch_size=4)
    )
    assert [loader.samples_in(batches, batch) for batch in batches] == [4, 2]


def test_two_loaders_of_other_sizes_are_not_told_apart() -> None:
    kept = [iter(torch.utils.data.DataLoader(torch.zeros(10), batch_size=size)) for size in (2, 5)]
    assert loader.describe_loader(gc.get_objects()) is None
    assert len(kept) == 2


def test_a_loader_without_batches_of_its_own_has_no_size() -> None:
    one = iter(torch.utils.data.DataLoader(torch.zeros(4, 2), batch_size=None))
    assert loader.seen_batch_size(one) is None
    assert loader.samples_in(one, next(one)) is None


def test_the_log_and_the_environment_of_a_capture_have_it(tmp_path) -> None:
    done = collect(
        "timing", "-o", tmp_path, "--wait", 2, "--", sys.executable, SCRIPTS / "slow_loader.py"
    )
    assert done.returncode == 0, done.stderr
    lines = [
        json.loads(line) for line in (tmp_path / "timings.rank0.jsonl").read_text().splitlines()
    ]
    assert {line["samples"] for line in lines} == {1}
    assert json.loads((tmp_path / "environment.json").read_text())["loader"] == {"batch_size": 1}
