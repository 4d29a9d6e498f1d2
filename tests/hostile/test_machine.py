"""Full disks, other users, kills: nothing is half written, nothing of others is read, and it is said in one line."""

from __future__ import annotations

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
PACKAGES = [str(Path(traceanalyzer.__file__).parents[1]), *(path for path in sys.path if path.endswith("-packages"))]


def test_kills_leave_every_file_whole():
    fell, wrong = killed(5)
    assert wrong == []
    assert fell["killed"] >= 4


FULL = """
set -e
mount -t tmpfs -o size=400k tmpfs "$FOLDER"
cd "$FOLDER"
ask() { "$PYTHON" -m traceanalyzer "$@" > /dev/null; }
ask analyze "$RECORDING" -q -o old.json --store old.db
cp old.json "$KEPT"
cat /dev/zero > filler 2> /dev/null || true
set +e
for file in new.html old.json new.md new.svg; do ask analyze "$RECORDING" -q -o $file; echo $?; done
for file in old.db new.db; do ask analyze "$RECORDING" -q --store $file; echo $?; done
for merged in "" --merge; do ask overlay "$RECORDING" $merged -o new.json; echo $?; done
ask compare "$RECORDING" old.json -o new.html; echo $?
ask attach "$RECORDING" --issue a/b#1 --picture new.svg; echo $?
for file in new.sqlite new.parquet; do ask export "$RECORDING" -o $file; echo $?; done
ask digest "$RECORDING" -o .; echo $?
ask fleet "$LOG" --timing . --run a; echo $?
ask history old.db -o new.html; echo $?
cmp old.json "$KEPT" && echo "same"
ask history old.db && echo "read"
ls -A
"""


def test_a_full_disk_leaves_what_there_was_and_nothing_else(tmp_path):
    space = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--user", "--map-root-user"])]
    if not shutil.which("unshare") or subprocess.run([*space, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    (tmp_path / "full").mkdir()
    given = {"FOLDER": tmp_path / "full", "RECORDING": RECORDING, "KEPT": tmp_path / "kept", "PYTHON": sys.executable}
    given["LOG"] = Path(__file__).parents[1] / "data" / "timing" / "own.jsonl"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(PACKAGES), **{k: str(v) for k, v in given.items()}}
    done = subprocess.run([*space, "sh", "-c", FULL], env=environment, capture_output=True, text=True, check=False)
    *statuses, same, read = done.stdout.split()[:17]
    assert (set(statuses), same, read) == ({"1"}, "same", "read"), done
    assert sorted(done.stdout.split()[17:]) == ["filler", "old.db", "old.json", "run=a"]
    said = [line for line in done.stderr.splitlines() if not line.startswith("traceanalyzer: stored")]
    assert len(said) == len(statuses)
    assert all("No space left on device" in line or "disk is full" in line for line in said)
    assert not any("Errno" in line for line in said)  # each names its file instead


@pytest.fixture(scope="module")
def as_nobody():
    """Runs a command as another user than the one whose files they are: (exit status, output, lines of errors)."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield _runner(Path(name))


def _runner(folder):
    mine = (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")

    def run(*command, python=None, **variables):
        environment = {"PYTHONPATH": os.pathsep.join(PACKAGES), "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [python or run.python, *command], cwd=folder, env=environment | variables, user=NOBODY, group=NOBODY,
            extra_groups=[], capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr.splitlines()

    for python in mine if os.getuid() == 0 else ():
        try:
            if run("-c", "import traceanalyzer, numpy", python=python)[0] == 0:
                run.python, run.folder = python, folder
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


@pytest.mark.parametrize(
    "command",
    [
        *((name, "secret.json.gz") for name in ("analyze", "gaps", "overlay", "memory", "compile", "hang", "history")),
        *(("analyze", name) for name in ("closed", "closed/trace.json.gz", "listed", "listed/trace.json.gz")),
        ("compare", "readable.json.gz", "secret.json.gz"),
        ("check", "secret.json.gz", "--max", "gpu_idle_share=1"),
        *(("analyze", "readable.json.gz", option, "secret.json.gz") for option in ("--hardware", "--ncu")),
        *(("analyze", "readable.json.gz", "-o", name) for name in ("new.json", "closed/new.json", "readable.json.gz")),
        ("analyze", "readable.json.gz", "-q", "--store", "new.db"),
        *((name, "secret.json.gz", "-o", "new.sqlite") for name in ("export", "digest")),
        *(("export", "readable.json.gz", "-o", name) for name in ("new.sqlite", "new.parquet", "closed/new.db")),
        *(("digest", "readable.json.gz", "-o", name) for name in ("new", "closed")),
        *(("fleet", name) for name in ("secret.json.gz", "closed", "listed")),
        ("fleet", "readable.json.gz", "--digests", "closed"),
        ("fleet", "--timing", "closed"),
        ("hang", "closed"),
    ],
    ids=" ".join,
)
def test_what_another_user_may_not_read_or_write_is_one_line(others, as_nobody, command):
    before = sorted(others.iterdir())
    status, _, said = as_nobody("-m", "traceanalyzer", *command)
    assert status in (1, 2)
    assert said[0].startswith("traceanalyzer: error: ")
    assert all(line.startswith("Try: ") for line in said[1:])
    assert sorted(others.iterdir()) == before


@pytest.mark.parametrize(
    "variables", [{}, {"HOME": "home"}, {"TRACEANALYZER_CACHE": "kept"}, {"TMPDIR": "closed"}], ids=str
)
def test_a_home_that_cannot_be_written_costs_nothing(others, as_nobody, variables):
    placed = {name: str(others / value) for name, value in variables.items()}
    status, printed, said = as_nobody("-m", "traceanalyzer", "analyze", "readable.json.gz", **placed)
    assert (status, said) == (0, [])
    assert "SYNC" in printed
    assert sorted(path.name for path in (others / "kept").iterdir()) == ["trace.json.gz"]
    status, printed, said = as_nobody("-m", "traceanalyzer", "fleet", "readable.json.gz", **placed)
    assert (status, said) == (0, [])
