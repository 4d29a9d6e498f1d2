"""Dumps of several jobs in one folder."""

from __future__ import annotations

import pickle

import pytest

from tests.fleet.hang.test_reader import dump, entry
from traceanalyzer.fleet.hang.document import HangPage, hang_headline
from traceanalyzer.fleet.hang.several import HangPages, hang_page, hangs_in


def write(folder, kinds):
    """Two ranks that issued these operations last."""
    folder.mkdir(parents=True)
    for rank, kind in enumerate(kinds):
        entries = [entry(0), entry(1, kind, "scheduled")]
        (folder / f"rank_{rank}").write_bytes(pickle.dumps(dump(entries, "[0, 1]"), 2))


@pytest.fixture
def two_jobs(tmp_path):
    write(tmp_path / "job1", ("all_reduce", "all_reduce"))
    write(tmp_path / "job2", ("all_reduce", "all_gather"))
    return tmp_path


def test_each_job_has_its_answer(two_jobs):
    jobs = hangs_in(two_jobs)
    assert list(jobs) == ["job1", "job2"]
    assert "have all issued all_reduce" in hang_headline(jobs["job1"])
    assert "different operations" in hang_headline(jobs["job2"])
    page = hang_page(jobs)
    assert isinstance(page, HangPages)
    text = page.printed.terminal()
    assert "job1" in text
    assert "job2" in text


def test_a_folder_a_host_is_one_job(tmp_path):
    write(tmp_path / "all", ("all_reduce", "all_reduce"))
    for rank in range(2):
        (tmp_path / f"host{rank}").mkdir()
        (tmp_path / "all" / f"rank_{rank}").rename(tmp_path / f"host{rank}" / f"rank_{rank}")
    jobs = hangs_in(tmp_path)
    assert len(jobs) == 1
    assert isinstance(hang_page(jobs), HangPage)
