"""`collect nsys` with a program that stands in for nsys, and the scrubbing of what nsys stores."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.collect.running import SCRIPTS, SMALL, collect, standing_in
from tests.collect.stand_in_nsys import SECRET, secret_export
from tests.nsys_builder import SCHEMAS, global_tid, small_run
from traceanalyzer import load
from traceanalyzer.collect.profilers.nsys import NsysOptions, finish, scrub, without_paths

ROOT = Path(__file__).parents[3]
NUMBERS = ("first", "second", "third")


@pytest.fixture
def stand_in(tmp_path):
    """Environment in which `nsys` is the stand-in, and the file of its calls."""
    return standing_in("nsys", tmp_path)


def _calls(log):
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_a_whole_run_is_exported_scrubbed_and_keeps_its_status(tmp_path, stand_in):
    environment, log = stand_in
    folder = tmp_path / "capture"
    command = (sys.executable, "-c", "print('out'); raise SystemExit(5)")
    done = collect("nsys", "-o", folder, "--whole-run", "--", *command, **environment)
    assert (done.returncode, done.stdout) == (5, "out\n"), done.stderr
    assert {file.name for file in folder.iterdir()} == {"nsys.sqlite", "environment.json"}
    assert SECRET.encode() not in (folder / "nsys.sqlite").read_bytes()
    profile, export = _calls(log)
    assert profile[0] == "profile"
    assert {"--trace=cuda,nvtx,cublas,cudnn", "--cuda-graph-trace=node", "--sample=none"} <= set(
        profile
    )
    assert not any(
        part in word for word in profile for part in ("osrt", "capture-range", "pytorch")
    )
    assert profile[-len(command) :] == list(command)
    assert "--include-blobs=true" in export


@pytest.mark.parametrize(("options", "asked"), [((), True), (("--no-operators",), False)])
def test_an_nsys_that_can_names_the_operators_of_a_whole_run(tmp_path, stand_in, options, asked):
    environment, log = stand_in
    words = ("nsys", "-o", tmp_path / "capture", "--whole-run", *options)
    newer = "--pytorch=  autograd-nvtx, autograd-shapes-nvtx, functions-trace, none"
    collect(*words, "--", sys.executable, "-c", "", STAND_IN_HELP=newer, **environment)
    assert ("--pytorch=autograd-shapes-nvtx" in _calls(log)[0]) == asked


@pytest.mark.parametrize(
    ("says", "options", "left"),
    [
        ("", ("--keep-report",), {"nsys.sqlite", "nsys.nsys-rep", "environment.json"}),
        ("error", (), {"environment.json"}),
        ("error", ("--keep-report",), {"nsys.nsys-rep", "environment.json"}),
    ],
)
def test_nothing_that_nsys_wrote_stays_unless_asked_for(tmp_path, stand_in, says, options, left):
    environment, _ = stand_in
    folder = tmp_path / "capture"
    command = (sys.executable, "-c", "")
    done = collect(
        "nsys",
        "-o",
        folder,
        "--whole-run",
        *options,
        "--",
        *command,
        STAND_IN_SAYS=says,
        **environment,
    )
    assert done.returncode == 0
    assert ("nsys export failed" in done.stderr) == (says == "error")
    assert {file.name for file in folder.iterdir()} == left


def test_of_several_captures_the_last_with_as_many_steps_is_kept(tmp_path, stand_in):
    environment, _ = stand_in
    nsys = environment["PATH"].split(":")[0] + "/nsys"
    for marked, kept in (((6, 6), "second"), ((6, 2), "first"), ((2, 6, 6), "third")):
        work = tmp_path / f"work{kept}"
        folder = tmp_path / f"capture{kept}"
        work.mkdir()
        folder.mkdir()
        for number, (steps, name) in enumerate(zip(marked, NUMBERS, strict=False), 1):
            report = work / f"nsys.{number}.nsys-rep"
            report.write_text(f"{steps} {name}")
            os.utime(report, (number, number))
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("STAND_IN_LOG", environment["STAND_IN_LOG"])
            assert finish(nsys, work, NsysOptions(keep_report=True), folder) is None
        assert (folder / "nsys.nsys-rep").read_text().endswith(kept)
        with closing(sqlite3.connect(folder / "nsys.sqlite")) as database:
            marks = database.execute("SELECT count(*) FROM NVTX_EVENTS WHERE text GLOB 'step *'")
            assert marks.fetchone() == (6,)


def test_nsys_is_cleaned_up_after_where_the_folder_is_refused(tmp_path, stand_in):
    environment, _ = stand_in
    (tmp_path / "capture").mkdir()
    (tmp_path / "capture" / "nsys.sqlite").touch()
    done = collect(
        "nsys",
        "-o",
        tmp_path / "capture",
        "--whole-run",
        "--",
        sys.executable,
        "-c",
        "",
        **environment,
    )
    assert done.returncode == 1
    assert "holds a capture already" in done.stderr
    assert [file.name for file in (tmp_path / "capture").iterdir()] == ["nsys.sqlite"]


def test_chosen_steps_need_a_script_on_a_gpu(tmp_path, stand_in):
    pytest.importorskip("torch")
    environment, log = stand_in
    folder = tmp_path / "capture"
    done = collect("nsys", "-o", folder, *SMALL, "--", SCRIPTS / "train.py", 40, **environment)
    assert done.returncode == 0
    assert "the script does not use CUDA" in done.stderr
    assert "nsys left no report" in done.stderr
    assert {"--capture-range=cudaProfilerApi", "--capture-range-end=repeat"} <= set(_calls(log)[0])


def test_without_nsys_it_says_where_to_get_it(tmp_path):
    done = collect(
        "nsys", "-o", tmp_path / "capture", "--", sys.executable, "x", PATH="/nonexistent"
    )
    assert done.returncode == 1
    assert "nsys is not installed" in done.stderr
    assert not (tmp_path / "capture").exists()


@pytest.mark.parametrize("schema", SCHEMAS)
def test_scrubbing_keeps_what_is_analysed(tmp_path, schema):
    path = secret_export(tmp_path / "run.sqlite", schema)
    (before,) = load(path).traces
    scrub(path)
    assert SECRET.encode() not in path.read_bytes()
    (after,) = load(path).traces
    for table in ("device_ops", "api_calls", "waits"):
        left = getattr(before, table)
        right = getattr(after, table)
        assert left.to_frame(before.strings).equals(right.to_frame(after.strings)), table
    assert len(after.host_ranges) == len(before.host_ranges)
    names = {after.text(code) for code in after.host_ranges.name}
    assert {"step_0", "load set.bin", "save model.pt"} <= names
    assert after.collected == before.collected


def test_threads_of_other_programs_have_no_name(tmp_path):
    export = small_run("3.24.0")
    someone_elses = global_tid(pid=77)
    export.add("ThreadNames", nameId=export.text("backup of alice"), globalTid=someone_elses)
    path = export.write(tmp_path / "run.sqlite")
    scrub(path)
    with closing(sqlite3.connect(path)) as database:
        names = "SELECT value FROM StringIds JOIN ThreadNames ON id = nameId"
        assert list(database.execute(names)) == [("worker",)]
    assert b"alice" not in path.read_bytes()


def test_unknown_tables_are_dropped_and_empty_files_stay_readable(tmp_path):
    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE NEW_SECRETS(v TEXT); INSERT INTO NEW_SECRETS VALUES ('x'); CREATE VIEW v AS SELECT 1"
        )
    scrub(path)
    with closing(sqlite3.connect(path)) as database:
        assert not list(database.execute("SELECT name FROM sqlite_master"))


@pytest.mark.parametrize(
    ("text", "shorter"),
    [
        ("void at::native::f<int, 4/2>(a, b)", "void at::native::f<int, 4/2>(a, b)"),
        ("/usr/lib/python3.11/site.py(12): main", "site.py(12): main"),
        ("tokens/s", "tokens/s"),
        ("open ~/keys/id", "open id"),
        ("x=/a/b/ y", "x=b y"),
        ("from /home/Ann Lee/x.bin and /mnt/a/b", "from x.bin and b"),
        (12, 12),
    ],
)
def test_paths_are_cut_to_their_last_component(text, shorter):
    assert without_paths(text) == shorter
