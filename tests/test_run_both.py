"""Work done by a fork gives what it gives here, whatever becomes of the fork; none is left
behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recorded import EVERY, recording
from traceanalyzer.base import parallel
from traceanalyzer.base.parallel import children as processes
from traceanalyzer.base.parallel import run_both
from traceanalyzer.base.reading import ReadingOptions, reading_as
from traceanalyzer.ingest import load
from traceanalyzer.report.build import build_report
from traceanalyzer.report.json import render_json

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="nothing is forked elsewhere")

LARGE = b"more than a pipe holds" * 50_000
WAITING = """
import os, time
from traceanalyzer.base.reading import read_with
from traceanalyzer.base.parallel import run_both
read_with(jobs=2)
source, target = os.pipe()
def work():
    os.write(target, str(os.getpid()).encode())
    time.sleep(600)
def here():
    print(os.read(source, 99).decode(), flush=True)
    time.sleep(600)
run_both(work, here, worth=True)
"""


@pytest.fixture(autouse=True)
def _none_is_left() -> Any:
    before = children()
    with reading_as(jobs=2):
        yield
    assert children() <= before


def children() -> set[int]:
    """The processes that this one started and has not waited for: other tests may have left some
    that still end."""
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
    (where, what), here = run_both(partial(where_and_what, LARGE), os.getpid, worth=True)
    assert (where == here, here == os.getpid(), what == LARGE) == (False, True, True)


@pytest.mark.parametrize("how", [raises, dies, interrupted])
def test_what_the_other_process_does_not_finish_is_done_here(how: Any) -> None:
    assert run_both(partial(fails_in, os.getpid(), how), int, worth=True) == ("done here", 0)


def test_part_of_a_result_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    send = processes._send

    def cut_off(value: object, file: BinaryIO) -> None:
        send(value, file)
        file.truncate(file.tell() - 100)

    monkeypatch.setattr(processes, "_send", cut_off)
    assert run_both(partial(where_and_what, LARGE), int, worth=True) == ((os.getpid(), LARGE), 0)


def test_an_error_is_that_of_the_work() -> None:
    with pytest.raises(ZeroDivisionError):
        run_both(raises, int, worth=True)


def test_where_this_process_fails_the_other_is_not_waited_for() -> None:
    with pytest.raises(ZeroDivisionError):
        run_both(partial(time.sleep, 3600), raises, worth=True)


@pytest.mark.parametrize(
    ("jobs", "worth", "platform"), [(1, True, "linux"), (2, False, "linux"), (2, True, "darwin")]
)
def test_where_it_may_not_be_it_is_not(
    jobs: int, worth: bool, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    with reading_as(jobs=jobs):
        assert run_both(partial(where_and_what, b""), int, worth=worth) == ((os.getpid(), b""), 0)


def test_a_system_that_gives_none_costs_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refused)
    assert run_both(partial(where_and_what, b""), int, worth=True) == ((os.getpid(), b""), 0)


def test_it_ends_with_the_process_that_started_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        other = int(started.stdout.readline())
        started.kill()
    deadline = time.monotonic() + 10
    while _runs(other) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _runs(other)


def _runs(process: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text(
            encoding="ascii", errors="replace"
        )
    except OSError:
        return False


@settings(max_examples=6, deadline=None)
@given(path=st.sampled_from(EVERY))
def test_a_report_is_the_same_with_two_processes(path: Path) -> None:
    run = load([path])
    with reading_as(jobs=1):
        alone = render_json(build_report(run))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "LEAST_ROWS", 0)
        assert render_json(build_report(run)) == alone


def test_the_diagnosis_is_made_elsewhere_only_where_there_is_memory_and_enough_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fork = Mock(side_effect=os.fork)
    monkeypatch.setattr(os, "fork", fork)
    run = load([recording("kineto/gemm_fp32.base")])
    build_report(run)
    monkeypatch.setattr(parallel, "LEAST_ROWS", 0)
    monkeypatch.setattr(parallel, "free_memory_bytes", lambda: 1000)
    build_report(run)
    assert fork.call_count == 0
    monkeypatch.setattr(parallel, "free_memory_bytes", lambda: None)
    build_report(run)
    assert fork.call_count == 2


def test_a_library_forks_nothing() -> None:
    with reading_as(**asdict(ReadingOptions())):
        assert run_both(os.getpid, int, worth=True) == (os.getpid(), 0)
