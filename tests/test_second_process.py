"""Work done by a fork gives what it gives here, whatever becomes of the fork; none is left behind."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recorded import EVERY, recording
from traceanalyzer.ingest import load
from traceanalyzer.reading import Reading, reading_as
from traceanalyzer.report import at_once
from traceanalyzer.report.build import build_report
from traceanalyzer.report.json import render_json
from traceanalyzer.second_process import meanwhile

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="nothing is forked elsewhere")

LARGE = b"more than a pipe holds" * 50_000
WAITING = """
import os, sys, time
from traceanalyzer.reading import read_with
from traceanalyzer.second_process import meanwhile
read_with(jobs=2)
def work():
    os.write(1, f"{os.getpid()}\\n".encode())
    time.sleep(600)
with meanwhile(work, worth=True):
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _none_is_left() -> Any:
    before = children()
    with reading_as(jobs=2):
        yield
    assert children() <= before


def children() -> set[int]:
    """The processes that this one started and has not waited for: other tests may have left some that still end."""
    found: set[int] = set()
    for one in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread that has just ended
            found |= set(map(int, one.read_text().split()))
    return found


def where_and_what(value: bytes) -> tuple[int, bytes]:
    return os.getpid(), value


def fails_in(here: int, how: Any) -> str:
    """Fails anywhere but in the process `here`."""
    if os.getpid() != here:
        how()
    return "done here"


def raises() -> None:
    raise ZeroDivisionError("in the other process")


def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def interrupted() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(10)


def test_another_process_works_while_this_one_does() -> None:
    with meanwhile(partial(where_and_what, LARGE), worth=True) as result:
        where, what = result()
    assert (where == os.getpid(), what == LARGE) == (False, True)


@pytest.mark.parametrize("how", [raises, dies, interrupted])
def test_what_the_other_process_does_not_finish_is_done_here(how: Any) -> None:
    with meanwhile(partial(fails_in, os.getpid(), how), worth=True) as result:
        assert result() == "done here"


def test_part_of_a_result_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    dumps = pickle.dumps
    monkeypatch.setattr(pickle, "dumps", lambda value: dumps(value)[:-100])
    with meanwhile(partial(where_and_what, LARGE), worth=True) as result:
        assert result() == (os.getpid(), LARGE)


def test_an_error_is_that_of_the_work() -> None:
    with pytest.raises(ZeroDivisionError), meanwhile(raises, worth=True) as result:
        result()


def test_a_block_that_fails_waits_for_nothing() -> None:
    begun = time.monotonic()
    with pytest.raises(KeyError), meanwhile(partial(time.sleep, 60), worth=True):
        raise KeyError
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize(("jobs", "worth", "platform"), [(1, True, "linux"), (2, False, "linux"), (2, True, "darwin")])
def test_where_it_may_not_be_it_is_not(jobs: int, worth: bool, platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    with reading_as(jobs=jobs), meanwhile(partial(where_and_what, b""), worth=worth) as result:
        assert result() == (os.getpid(), b"")


def test_a_system_that_gives_none_costs_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refused)
    before = set(os.listdir("/proc/self/fd"))
    with meanwhile(partial(where_and_what, b""), worth=True) as result:
        assert result() == (os.getpid(), b"")
    assert set(os.listdir("/proc/self/fd")) == before


def test_it_ends_with_the_process_that_started_it() -> None:
    with subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        other = int(started.stdout.readline())
        started.kill()
    deadline = time.monotonic() + 10
    while _runs(other) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _runs(other)


def _runs(process: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False


@settings(max_examples=12, deadline=None)
@given(path=st.sampled_from(EVERY))
def test_a_report_is_the_same_with_two_processes(path: Path) -> None:
    run = load([path])
    with reading_as(jobs=1):
        alone = render_json(build_report(run))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(at_once, "LEAST_ROWS", 0)
        assert render_json(build_report(run)) == alone


def test_the_diagnosis_is_made_elsewhere_only_where_there_is_memory_and_enough_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fork = Mock(side_effect=os.fork)
    monkeypatch.setattr(os, "fork", fork)
    run = load([recording("kineto/gemm_fp32.base")])
    build_report(run)
    monkeypatch.setattr(at_once, "LEAST_ROWS", 0)
    monkeypatch.setattr(at_once, "free_bytes", lambda: 1000)
    build_report(run)
    assert fork.call_count == 0
    monkeypatch.setattr(at_once, "free_bytes", lambda: None)
    build_report(run)
    assert fork.call_count == 2


def test_a_library_forks_nothing() -> None:
    with reading_as(**asdict(Reading())), meanwhile(partial(where_and_what, b""), worth=True) as result:
        assert result()[0] == os.getpid()
