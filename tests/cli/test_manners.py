"""How the command line behaves in a terminal: pager, colour, quiet, names that stay whole."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from traceanalyzer.cli.io.output import with_colour
from traceanalyzer.report.terminal.drawing import LINES_OF_TEXT, wrapped

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "gpu" / "sync_bound.json.gz"
STACKS = Path(__file__).resolve().parents[2] / "sample_traces" / "sync_bound_stacks"


def in_terminal(*arguments, **environment):
    """What a person sees who runs the command in a terminal of 24 lines."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "traceanalyzer", *map(str, arguments)]
    env = {**os.environ, "COLUMNS": "80", "LINES": "24", "TERM": "xterm", **environment}
    with subprocess.Popen(command, stdout=follower, stderr=subprocess.DEVNULL, env=env) as process:
        os.close(follower)
        seen = b""
        while True:
            try:
                piece = os.read(leader, 65536)
            except OSError:
                break
            if not piece:
                break
            seen += piece
        process.wait()
    os.close(leader)
    return seen.decode()


@pytest.fixture
def pager(tmp_path):
    """A pager that says that it was there."""
    program = tmp_path / "pager"
    program.write_text("#!/bin/sh\necho PAGED; cat\n")
    program.chmod(0o755)
    return str(program)


def test_what_does_not_fit_goes_through_the_pager(pager):
    assert in_terminal("explain", "launch-bound", PAGER=pager, LINES="5").startswith("PAGED")
    assert "PAGED" not in in_terminal("explain", "launch-bound", PAGER=pager, LINES="500")
    assert "PAGED" not in in_terminal(
        "explain", "launch-bound", PAGER=pager, LINES="5", TRACEANALYZER_PAGER=""
    )
    assert "PAGED" not in in_terminal("explain", "launch-bound", PAGER="no-such-program", LINES="5")


def test_a_pipe_has_no_pager(pager):
    command = [sys.executable, "-m", "traceanalyzer", "explain", "launch-bound"]
    done = subprocess.run(
        command, capture_output=True, check=True, env={**os.environ, "PAGER": pager, "LINES": "3"}
    )
    assert b"PAGED" not in done.stdout


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "0"}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colour_can_be_forced(monkeypatch, environment, coloured, tmp_path):
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert with_colour(None) is coloured
    assert with_colour(tmp_path / "x.txt") is False


def test_a_breach_is_red(run, monkeypatch, tmp_path):
    monkeypatch.setenv("FORCE_COLOR", "1")
    status, out, _ = run(
        "check", SAMPLE, "--max", "gpu_idle_share=0.01", "--min", "gpu_idle_share=0.01"
    )
    assert status == 3
    assert "\x1b[1;31mBREACHED" in out
    assert "\x1b[32mholds" in out


def test_quiet_is_the_verdict_alone(run):
    status, out, err = run("analyze", "-q", SAMPLE)
    assert (status, err) == (0, "")
    assert len(out.splitlines()) <= 6
    assert "What to change" not in out
    assert run("analyze", "-v", SAMPLE)[1] == run("analyze", "--full", SAMPLE)[1]


def test_quiet_has_no_warnings(run, tmp_path):
    (tmp_path / "broken.rank1.json").write_text('{"traceEvents": [')
    paths = (SAMPLE, tmp_path / "broken.rank1.json")
    assert "warning" in run("analyze", *paths)[2]
    assert run("analyze", "-q", *paths)[2] == ""


@pytest.mark.parametrize("width", [80, 100, 120, 140])
def test_a_source_line_is_never_broken(run, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    assert "workloads.py(61)" in run("syncs", STACKS)[1]


@pytest.mark.parametrize("width", [80, 120])
def test_what_decides_is_shown_before_percentiles(run, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    out = run("kernels", STACKS)[1]
    for word in ("SOL", "headroom", "bound by"):
        assert word in out
    assert "p95" not in out
    assert "more columns: --format csv has all." in out


@pytest.mark.parametrize(
    "text",
    [
        "aten::convolution_backward",
        "a b c d e f g h",
        "x" * 99,
        "train.py(59): step of all",
        "",
        "漢字" * 20,
    ],
)
@pytest.mark.parametrize("width", [3, 8, 14, 28])
def test_text_is_broken_at_blanks_alone(text, width):
    lines = wrapped(text, width).split("\n")
    assert len(lines) <= LINES_OF_TEXT
    assert all(cell_len(line) <= width for line in lines)
    whole = [word for line in lines for word in line.split(" ") if "…" not in word]
    assert set(whole) <= set(text.split(" "))
