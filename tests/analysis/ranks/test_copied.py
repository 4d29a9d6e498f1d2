"""A recording that is given twice is refused whatever rank its copy claims to be, and ranks of one
run never are."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.analysis.ranks.test_compare import rank_trace
from tests.fleet.build import digest
from tests.recorded import NSYS, RANKS, RECORDINGS, recording
from traceanalyzer.analysis.ranks.copied import copies
from traceanalyzer.analysis.ranks.one_run import refuse_several_runs
from traceanalyzer.base.errors import SeveralRunsError
from traceanalyzer.fleet.digests.make import digests_of
from traceanalyzer.fleet.job.select import chosen
from traceanalyzer.ingest import load

if TYPE_CHECKING:
    from pathlib import Path

RUNS = sorted({path.name.partition(".rank")[0] for path in RANKS.glob("*.rank0.json.gz")})
RANK_0 = recording("ranks2/straggler.base.rank0")
SEED = 7


def content(path: Path) -> dict:
    return json.loads(gzip.decompress(path.read_bytes()))


def claiming(path: Path, rank: int, **values) -> bytes:
    """The recording with the number of another rank, written again."""
    found = content(path)
    found["distributedInfo"]["rank"] = rank
    return json.dumps(found | values, indent=1).encode()


def since_1970(path: Path, rank: int) -> bytes:
    """The same with all times as a floating-point number of microseconds since 1970."""
    found = content(path)
    base = found.pop("baseTimeNanoseconds")
    found["distributedInfo"]["rank"] = rank
    for event in found["traceEvents"]:
        if "ts" in event:
            event["ts"] = float(event["ts"]) + base / 1000
    return json.dumps(found).encode()


@pytest.mark.parametrize(
    ("name", "copy"),
    [
        ("x.rank1.json.gz", RANK_0.read_bytes),
        ("x.rank1.json", lambda: gzip.decompress(RANK_0.read_bytes())),
        ("x.rank1.json.gz", lambda: gzip.compress(gzip.decompress(RANK_0.read_bytes()), 1)),
        ("x.rank1.json", lambda: claiming(RANK_0, 1)),
        ("x.rank1.json", lambda: claiming(RANK_0, 1, deviceProperties=[])),
        ("x.rank1.json", lambda: since_1970(RANK_0, 1)),
    ],
)
def test_a_copy_with_the_name_of_another_rank_is_refused(tmp_path, name, copy):
    first = tmp_path / "x.rank0.json.gz"
    shutil.copy(RANK_0, first)
    (tmp_path / name).write_bytes(copy())
    with pytest.raises(SeveralRunsError) as refused:
        refuse_several_runs(load([first, tmp_path / name]).traces)
    assert str(refused.value) == (
        f"{tmp_path / name} is a copy of {first}: what it recorded has the same times; "
        "give one of them"
    )


@pytest.mark.parametrize("path", NSYS[:2], ids=lambda path: path.name)
def test_a_copy_of_an_export_of_nsys_is_refused(tmp_path, path):
    (tmp_path / "x.rank0.sqlite").write_bytes(gzip.decompress(path.read_bytes()))
    shutil.copy(path, tmp_path / "x.rank1.sqlite.gz")
    with pytest.raises(SeveralRunsError, match="is a copy of"):
        refuse_several_runs(load(sorted(tmp_path.iterdir())).traces)


def test_a_copy_in_a_fleet_is_refused(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "x.rank1.json").write_bytes(claiming(RANK_0, 1))
    ranks = [
        *digests_of(RANK_0, RANK_0.name),
        *digests_of(tmp_path / "x.rank1.json", "x.rank1.json"),
    ]
    with pytest.raises(SeveralRunsError, match=r"x\.rank1\.json is a copy of .*rank0"):
        chosen(ranks)


@pytest.mark.parametrize("run", RUNS)
def test_ranks_of_a_recorded_run_are_no_copies(run):
    refuse_several_runs(load(sorted(RANKS.glob(f"{run}.rank*.json.gz"))).traces)


def test_no_two_recordings_of_the_repository_are_copies():
    paths = sorted(RECORDINGS.glob("ranks2/*.json.gz")) + sorted(RANKS.glob("*.rank0.json.gz"))
    times = [trace.device_ops.start + trace.epoch_ns for trace in load(paths).traces]
    assert list(copies(times)) == []


def test_ranks_that_were_made_may_do_the_same_at_the_same_times():
    traces = [replace(rank_trace(rank, compute=300), path=f"rank{rank}.json") for rank in range(2)]
    refuse_several_runs(traces)
    assert len(chosen([digest(rank, [(0, 1, 2, "all")]) for rank in range(4)]).ranks) == 4


def clocks(count: int, length: int = 20) -> list:
    random = np.random.default_rng(SEED)
    return [np.cumsum(random.integers(1_000, 1_000_000, length)) for _ in range(count)]


def test_a_copy_among_ten_thousand_is_found():
    times = clocks(10_000)
    times.append(times[4_321] + 100)
    assert list(copies(times)) == [(4_321, 10_000)]


def test_ten_thousand_of_one_time_are_compared_in_time():
    same = clocks(1)[0]
    times = [np.append(same, i * 10_000) for i in range(10_000)]
    assert list(copies(times)) == []


def test_a_copy_is_a_copy_to_the_microsecond():
    (times,) = clocks(1)
    late = times + np.append(np.zeros(len(times) - 1, np.int64), 1_000)
    assert list(copies([times, late])) == []
    assert list(copies([times, times - 200])) == [(0, 1)]
    assert list(copies([times[:16], times[:16]])) == []


def test_times_in_whole_microseconds_need_more_of_them():
    """As older profilers wrote, and as made ones have."""
    few, many = (clocks(1, length)[0] // 1_000 * 1_000 for length in (60, 80))
    assert list(copies([few, few])) == []
    assert list(copies([many, many])) == [(0, 1)]


def test_one_recording_for_every_rank_of_a_job_is_no_mistake():
    same, other = clocks(2)
    assert list(copies([same, same, other, same])) == [(0, 1), (0, 3)]
    assert list(copies([same, same, other, same, same])) == []
