"""How properties are tried, which tests may be skipped, and which run in one process."""

from __future__ import annotations

import os
import signal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.report.snapshots", "tests.brute_force", "tests.analyzed")
"""Their assertions show what differs, as those of test modules do."""

os.environ["TRACEANALYZER_CACHE"] = ""
"""Tests leave nothing in the cache of whoever runs them; those of the cache name a folder of their
own."""

for name in ("SIGINT", "SIGQUIT", "SIGHUP"):
    number = getattr(signal, name, None)
    if number is not None and signal.getsignal(number) is signal.SIG_IGN:
        # a shell's background job ignores them, and so would every command that a test starts
        signal.signal(number, signal.SIG_DFL)

settings.register_profile("default", deadline=None, max_examples=30)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True, max_examples=30)
settings.register_profile("mutants", deadline=None, derandomize=True, max_examples=25)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default")
)

EXPECTED_SKIPS = (
    *(
        ()
        if os.environ.get("WITH_TORCH")
        else ("could not import 'torch'", "could not import 'wandb'")
    ),
    "could not import 'jax'",
    "could not import 'distributed'",
    "could not import 'moto",
    "could not import 's3fs'",
    "no Chromium is installed",
    "root may read everything",
    "no file system can be mounted here",
    "this user cannot run Python as another",
    "the rows of steps do not say which of several devices they are of",
)
"""How a reason may begin. A skip for any other is a failure: a test that never runs proves
nothing."""

_unexpected: list[str] = []


def _note(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not reason.removeprefix("Skipped: ").startswith(EXPECTED_SKIPS):
        _unexpected.append(f"{report.nodeid}: {reason}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note(report)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _unexpected and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in _unexpected:
        terminalreporter.write_line(
            f"skipped for a reason that tests/conftest.py does not expect: {line}", red=True
        )


@cache
def _group(file: str) -> str:
    """What one process runs: a file, or all those that share what is analyzed
    (`tests/analyzed.py`)."""
    shares = "from tests.analyzed import" in (Path(__file__).parents[1] / file).read_text(
        encoding="utf-8"
    )
    return "analyzed" if shares else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Groups of tests for the processes of pytest-xdist."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid.partition("::")[0])

    return Groups(config, log)
