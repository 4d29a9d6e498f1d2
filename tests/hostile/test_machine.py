"""Full disks, other users, kills: nothing is half written, nothing of others is read, and it is
said in one line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import traceanalyzer
from tests.hostile.kills import RECORDING, killed

NOBODY = 65534
PACKAGES = [
    str(Path(traceanalyzer.__file__).parents[1]),
    *(path for path in sys.path if path.endswith("-packages")),
]


def test_kills_leave_every_file_whole():
    fell, wrong = killed(5)
    assert wrong == []
    assert fell["killed"] >= 4


FULL = """
set -e
mount -t tmpfs -o size=400k tmpfs "$FOLDER"
cd "$FOLDER"
"$PYTHON" -m tests.hostile.asked "$FIRST" > "$ANSWERS"
cp old.json "$KEPT"
cat /dev/zero > filler 2> /dev/null || true
"$PYTHON" -m tests.hostile.asked "$WRITING" > "$ANSWERS"
cmp old.json "$KEPT"
ls -A
"""
LOG = str(Path(__file__).parents[1] / "data" / "timing" / "own.jsonl")
SAMPLE = str(RECORDING)
WRITING = [
    *(
        ["analyze", SAMPLE, "-q", "-o", file]
        for file in ("new.html", "old.json", "new.md", "new.svg")
    ),
    *(["analyze", SAMPLE, "-q", "--store", file] for file in ("old.db", "new.db")),
    *(["overlay", SAMPLE, *merged, "-o", "new.json"] for merged in ([], ["--merge"])),
    ["compare", SAMPLE, "old.json", "-o", "new.html"],
    ["attach", SAMPLE, "--issue", "a/b#1", "--picture", "new.svg"],
    *(["export", SAMPLE, "-o", file] for file in ("new.sqlite", "new.parquet")),
    ["digest", SAMPLE, "-o", "."],
    ["fleet", LOG, "--timing", ".", "--run", "a"],
    ["history", "old.db", "-o", "new.html"],
]


def test_a_full_disk_leaves_what_there_was_and_nothing_else(tmp_path):
    space = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--user", "--map-root-user"])]
    if (
        not shutil.which("unshare")
        or subprocess.run([*space, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("no file system can be mounted here")
    (tmp_path / "full").mkdir()
    given = {
        "FOLDER": tmp_path / "full",
        "KEPT": tmp_path / "kept",
        "ANSWERS": tmp_path / "answers",
    }
    given |= {
        "FIRST": json.dumps([["analyze", SAMPLE, "-q", "-o", "old.json", "--store", "old.db"]])
    }
    given |= {"WRITING": json.dumps([*WRITING, ["history", "old.db"]]), "PYTHON": sys.executable}
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(PACKAGES),
        **{k: str(v) for k, v in given.items()},
    }
    done = subprocess.run(
        [*space, "sh", "-c", FULL], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done  # what there was is the same
    assert sorted(done.stdout.split()) == ["filler", "old.db", "old.json", "run=a"]
    *refused, read = json.loads((tmp_path / "answers").read_text())
    assert [status for status, _, _ in refused] == [1] * len(WRITING)
    assert read[0] == 0
    errors = [
        [line for line in lines if not line.startswith("traceanalyzer: stored")]
        for _, _, lines in refused
    ]
    assert all(len(lines) == 1 for lines in errors), errors
    assert all("No space left on device" in line or "disk is full" in line for (line,) in errors)
    assert not any("Errno" in line for (line,) in errors)  # each names its file instead


@pytest.fixture(scope="module")
def as_nobody():
    """Runs commands as another user than the one whose files they are: (exit status, output, lines
    of errors) each."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield _runner(Path(name))


def _runner(folder):
    mine = (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")

    def run(*commands, python=None, **variables):
        """Commands of one process: exit status, output and lines of errors of each."""
        environment = {
            "PYTHONPATH": os.pathsep.join(PACKAGES),
            "HOME": "/nonexistent",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        done = subprocess.run(
            [python or run.python, "-m", "tests.hostile.asked", json.dumps(commands)],
            cwd=folder,
            env=environment | variables,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
        )
        return json.loads(done.stdout) if done.returncode == 0 else []

    for python in mine if os.getuid() == 0 else ():
        try:
            if run(["schema"], python=python):
                run.python = python
                run.folder = folder
                return run
        except OSError:
            continue
    pytest.skip("this user cannot run Python as another")


@pytest.fixture(scope="module")
def others(as_nobody):
    """The folder in which the other user asks."""
    folder = as_nobody.folder
    for name in ("readable.json.gz", "secret.json.gz"):
        shutil.copy(RECORDING, folder / name)
        (folder / name).chmod(0o644 if name.startswith("readable") else 0o600)
    for name, mode in (("closed", 0o700), ("listed", 0o744), ("kept", 0o700), ("home", 0o555)):
        (folder / name).mkdir()
        shutil.copy(RECORDING, folder / name / "trace.json.gz")
        (folder / name).chmod(mode)
    return folder


SECRET = [
    *(
        [name, "secret.json.gz"]
        for name in ("analyze", "gaps", "overlay", "memory", "compile", "hang", "history")
    ),
    *(
        ["analyze", name]
        for name in ("closed", "closed/trace.json.gz", "listed", "listed/trace.json.gz")
    ),
    ["compare", "readable.json.gz", "secret.json.gz"],
    ["check", "secret.json.gz", "--max", "gpu_idle_share=1"],
    *(
        ["analyze", "readable.json.gz", option, "secret.json.gz"]
        for option in ("--hardware", "--ncu")
    ),
    *(
        ["analyze", "readable.json.gz", "-o", name]
        for name in ("new.json", "closed/new.json", "readable.json.gz")
    ),
    ["analyze", "readable.json.gz", "-q", "--store", "new.db"],
    *([name, "secret.json.gz", "-o", "new.sqlite"] for name in ("export", "digest")),
    *(
        ["export", "readable.json.gz", "-o", name]
        for name in ("new.sqlite", "new.parquet", "closed/new.db")
    ),
    *(["digest", "readable.json.gz", "-o", name] for name in ("new", "closed")),
    *(["fleet", name] for name in ("secret.json.gz", "closed", "listed")),
    ["fleet", "readable.json.gz", "--digests", "closed"],
    ["fleet", "--timing", "closed"],
    ["hang", "closed"],
]


def test_what_another_user_may_not_read_or_write_is_one_line(others, as_nobody):
    before = sorted(others.iterdir())
    for command, (status, _, errors) in zip(SECRET, as_nobody(*SECRET), strict=True):
        assert status in (1, 2), command
        assert errors[0].startswith("traceanalyzer: error: "), command
        assert all(line.startswith("Try: ") for line in errors[1:]), command
    assert sorted(others.iterdir()) == before


@pytest.mark.parametrize(
    "variables",
    [{}, {"HOME": "home"}, {"TRACEANALYZER_CACHE": "kept"}, {"TMPDIR": "closed"}],
    ids=str,
)
def test_a_home_that_cannot_be_written_costs_nothing(others, as_nobody, variables):
    placed = {name: str(others / value) for name, value in variables.items()}
    commands = [["analyze", "readable.json.gz"], ["fleet", "readable.json.gz"]]
    (status, printed, said), of_fleet = as_nobody(*commands, **placed)
    assert (status, said) == (0, [])
    assert "SYNC" in printed
    assert sorted(path.name for path in (others / "kept").iterdir()) == ["trace.json.gz"]
    assert (of_fleet[0], of_fleet[2]) == (0, [])
