"""No more is read at the same time than there is memory for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recorded import ranks
from traceanalyzer.base.parallel import free_memory_bytes, most_at_once
from traceanalyzer.base.reading import reading_as
from traceanalyzer.cli.io import sides
from traceanalyzer.ingest import folders
from traceanalyzer.ingest.folders import ANALYZED, needed_bytes

RANKS = ranks("ranks2/straggler.base")
MB = 10**6
KIB = 1024
FIRST = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
SECOND = ("memory.max", "memory.current", "inactive_file")
"""Files of a group in both versions of cgroups, and what its `memory.stat` calls pages that are
given up at once."""


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("needed", "free", "most"),
    [
        ([], None, 1),
        ([], 0, 1),
        ([5, 5, 5], None, 3),
        ([5, 5, 5], 15, 3),
        ([5, 5, 5], 14, 2),
        ([5, 5, 5], 4, 1),
        ([1, 9, 1], 10, 2),
        ([1, 9, 1], 9, 1),
        ([9, 1, 1], -3, 1),
    ],
)
def test_the_largest_have_to_fit(needed: list[int], free: int | None, most: int) -> None:
    assert most_at_once(needed, free) == most


@given(st.lists(st.integers(0, 100)), st.integers(0, 1000), st.data())
def test_whichever_are_read_together_they_fit(
    needed: list[int], free: int, data: st.DataObject
) -> None:
    most = most_at_once(needed, free)
    together = data.draw(st.permutations(needed))[:most]
    assert sum(together) <= free or most == 1
    assert most == max(len(needed), 1) or sum(sorted(needed)[-most - 1 :]) > free


def test_an_export_needs_more_than_text_and_its_analysis_more_still(tmp_path: Path) -> None:
    text = tmp_path / "trace.json"
    export = tmp_path / "run.sqlite"
    text.write_bytes(b"{}")
    export.write_bytes(b"SQLite format 3\0")
    assert [needed_bytes(path, 100 * MB) for path in (text, export)] == [120 * MB, 260 * MB]
    assert [needed_bytes(path, 100 * MB, ANALYZED) for path in (text, export)] == [
        160 * MB,
        860 * MB,
    ]
    assert needed_bytes(tmp_path / "none", MB) == 0


def test_the_machine_says_what_it_has(tmp_path: Path) -> None:
    assert (
        free_memory_bytes(
            written(tmp_path, {"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:  7 kB\n"})
        )
        == 7 * KIB
    )
    here = free_memory_bytes()
    assert here is not None
    assert here > MB


def test_a_machine_that_says_nothing_has_what_it_has_in_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "os.sysconf", {"SC_PHYS_PAGES": 3, "SC_PAGE_SIZE": 4096}.__getitem__, raising=False
    )
    assert free_memory_bytes(tmp_path) == 3 * 4096
    monkeypatch.delattr("os.sysconf")
    assert free_memory_bytes(tmp_path) is None


@pytest.mark.parametrize(
    ("line", "group", "limit", "used", "cached"),
    [
        ("0::/", "sys/fs/cgroup", *SECOND),
        ("0::/a/b", "sys/fs/cgroup/a/b", *SECOND),
        ("0::/a/b", "sys/fs/cgroup/a", *SECOND),
        ("0::/not/seen/in/here", "sys/fs/cgroup", *SECOND),
        ("4:memory:/a", "sys/fs/cgroup/memory/a", *FIRST),
        ("4:cpu,memory:/a", "sys/fs/cgroup/memory", *FIRST),
    ],
)
def test_a_container_may_leave_less(
    line: str, group: str, limit: str, used: str, cached: str, tmp_path: Path
) -> None:
    files = {
        "proc/meminfo": "MemAvailable: 7 kB\n",
        "proc/self/cgroup": f"3:cpuset:/\n{line}\n",
        f"{group}/{limit}": "5000\n",
        f"{group}/{used}": "3000\n",
        f"{group}/memory.stat": f"anon 4\n{cached} 500\n",
    }
    assert free_memory_bytes(written(tmp_path, files)) == 2500
    assert free_memory_bytes(written(tmp_path, {f"{group}/{limit}": "max\n"})) == 7 * KIB


def test_files_wait_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "text_bytes", lambda _: 100 * MB)
    for free, readers in ((None, 2), (241 * MB, 2), (239 * MB, 1), (0, 1)):
        monkeypatch.setattr(folders, "free_memory_bytes", lambda free=free: free)
        with reading_as(jobs=16):
            assert folders.readers_of(RANKS) == readers


def test_two_sides_are_done_one_after_the_other_where_memory_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sides, "text_bytes", lambda _: 100 * MB)
    alone: dict[int, Any] = {}
    for free in (321 * MB, 319 * MB):
        monkeypatch.setattr(sides, "free_memory_bytes", lambda free=free: free)
        with reading_as(jobs=2):
            alone[free] = sides._worth_a_process(*map(str, RANKS))
    assert alone == {321 * MB: True, 319 * MB: False}
