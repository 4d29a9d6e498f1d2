"""`collect rocprofv3` with a program that stands in for rocprofv3, and the scrubbing of what it
stores."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.collect.running import collect, standing_in
from tests.collect.stand_in_rocprofv3 import SECRET, secret_run
from tests.rocpd_builder import SCHEMAS
from traceanalyzer import load
from traceanalyzer.collect.profilers.rocprofv3 import scrub

ROOT = Path(__file__).parents[3]


@pytest.fixture
def stand_in(tmp_path: Path) -> dict[str, str]:
    """Environment in which `rocprofv3` is the stand-in."""
    return standing_in("rocprofv3", tmp_path)[0]


def test_a_run_is_recorded_scrubbed_and_keeps_its_status(
    tmp_path: Path, stand_in: dict[str, str]
) -> None:
    folder = tmp_path / "capture"
    command = [sys.executable, "-c", "print('out'); raise SystemExit(5)"]
    done = collect("rocprofv3", "-o", folder, "--", *command, **stand_in)
    assert (done.returncode, done.stdout) == (5, "out\n"), done.stderr
    assert {file.name for file in folder.iterdir()} == {"rocprofv3.77.db", "environment.json"}
    assert SECRET.encode() not in (folder / "rocprofv3.77.db").read_bytes()
    words = json.loads(Path(stand_in["STAND_IN_LOG"]).read_text())
    assert {"--hip-trace", "--kernel-trace", "--memory-copy-trace", "--marker-trace"} <= set(words)
    assert words[words.index("--") + 1 :] == command
    (trace,) = load(folder).traces
    assert len(trace.device_ops) == 6


def test_without_a_database_it_says_so(tmp_path: Path, stand_in: dict[str, str]) -> None:
    folder = tmp_path / "capture"
    done = collect(
        "rocprofv3",
        "-o",
        folder,
        "--",
        sys.executable,
        "-c",
        "",
        STAND_IN_SAYS="nothing",
        **stand_in,
    )
    assert done.returncode == 0
    assert "rocprofv3 left no database" in done.stderr
    assert {file.name for file in folder.iterdir()} == {"environment.json"}


def test_without_rocprofv3_it_says_where_to_get_it(tmp_path: Path) -> None:
    done = collect(
        "rocprofv3", "-o", tmp_path / "capture", "--", sys.executable, "x", PATH="/nonexistent"
    )
    assert done.returncode == 1
    assert "rocprofv3 is not installed" in done.stderr
    assert not (tmp_path / "capture").exists()


@pytest.mark.parametrize("schema", SCHEMAS)
def test_scrubbing_keeps_what_is_analysed(tmp_path: Path, schema: str) -> None:
    path = secret_run(tmp_path / "run.db", schema)
    (before,) = load(path).traces
    assert scrub(path)
    assert SECRET.encode() not in path.read_bytes()
    (after,) = load(path).traces
    for table in ("device_ops", "api_calls"):
        left = getattr(before, table)
        right = getattr(after, table)
        assert left.to_frame(before.strings).equals(right.to_frame(after.strings)), table
    assert {"step 0", "load set.bin"} <= {after.text(code) for code in after.host_ranges.name}
    assert after.process.name == "python"
