"""What people get wrong, and what they are told: one line that says what to do."""

from __future__ import annotations

import gzip
import io
import shutil
import sys
from pathlib import Path

import pytest

from tests.nsys_builder import small_run
from tests.recorded import ROOT

GPU = Path(__file__).resolve().parents[1] / "data" / "gpu"
SAMPLE = GPU / "sync_bound.json.gz"
OTHER = GPU / "launch_bound.json.gz"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(SAMPLE, tmp_path / "trace.json.gz")
    return tmp_path


def test_a_command_that_is_spelt_differently(here, run):
    status, out, err = run("analyse", "trace.json.gz")
    assert (status, out) == (2, "")
    assert err.startswith(
        "traceanalyzer: error: there is no command 'analyse'; did you mean `traceanalyzer analyze`?"
    )


def test_a_recording_in_the_place_of_a_command_is_analyzed(here, run):
    assert run("trace.json.gz")[:2] == run("analyze", "trace.json.gz")[:2]
    status, _, err = run("no.json.gz")
    assert (status, "no such file" in err) == (2, True)


def test_usage_errors_begin_like_all_others(here, run):
    status, _, err = run("analyze", "--top", "0", "trace.json.gz")
    assert status == 2
    assert err.startswith("traceanalyzer: error: ")
    assert err.endswith("Try: traceanalyzer analyze --help\n")


def test_two_runs_are_not_answered_for_one_of_them(here, run):
    shutil.copy(OTHER, here / "other.json.gz")
    for paths in (("trace.json.gz", "other.json.gz"), (".",)):
        for command in ("analyze", "gaps", "whatif"):
            status, out, err = run(command, *paths)
            assert (status, out) == (1, ""), command
            assert "2 recordings that are not one run" in err
            assert "traceanalyzer compare" in err


def test_ranks_of_one_run_are_one_run(here, run):
    for rank in (0, 1):
        recording = ROOT / "sample_traces" / "straggler" / f"trace.rank{rank}.json.gz"
        shutil.copy(recording, here / f"job.rank{rank}.json.gz")
    assert run("analyze", "job.rank0.json.gz", "job.rank1.json.gz")[0] == 0


def test_one_recording_under_the_names_of_two_ranks_is_no_run(here, run):
    for rank in (0, 1):
        shutil.copy(SAMPLE, here / f"job.rank{rank}.json.gz")
    status, out, err = run("analyze", "job.rank0.json.gz", "job.rank1.json.gz")
    assert (status, out) == (1, "")
    assert "job.rank1.json.gz is a copy of job.rank0.json.gz" in err


def test_a_folder_of_folders_names_those_with_recordings(here, run):
    (here / "trace.json.gz").unlink()
    for name in ("exp1", "exp2"):
        folder = here / "logs" / name / "plugins" / "profile" / "2026"
        folder.mkdir(parents=True)
        shutil.copy(SAMPLE, folder / "host.pt.trace.json.gz")
    (here / "logs" / "empty").mkdir()
    status, _, err = run("analyze", "logs")
    assert status == 1
    assert "logs/exp1/plugins/profile/2026, logs/exp2/plugins/profile/2026" in err
    assert "empty" not in err
    assert "no recording in this folder or below it" in run("analyze", "logs/empty")[2]


def test_of_a_folder_of_iterations_the_newest_is_read(here, run):
    (here / "trace.json.gz").unlink()
    for number in (9, 100, 200):
        (here / "logs" / f"iteration_{number}").mkdir(parents=True)
        if number < 200:  # the last one is not yet written
            shutil.copy(SAMPLE, here / "logs" / f"iteration_{number}" / "rank0_trace.json.gz")
    out = run("analyze", "logs", "--format", "json")[1]
    assert "iteration_100 was read, of 3 iterations" in out
    assert '"path": "logs/iteration_100/rank0_trace.json.gz"' in out
    assert (
        "logs/iteration_9/rank0_trace.json.gz"
        in run("analyze", "logs", "--iteration", "9", "--format", "json")[1]
    )
    assert "no iteration 7; there are 9, 100, 200" in run("analyze", "logs", "--iteration", "7")[2]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("p.json.gz", b"<!DOCTYPE html>\n<html>", "a web page"),
        (
            "p.json",
            b'{"message": "Not Found", "documentation_url": "x"}',
            "a server's answer ('Not Found')",
        ),
        (
            "p.json",
            b'{"error": {"code": 404, "message": "No such object"}}',
            "a server's answer ('No such object')",
        ),
        ("p.json.gz", b"what is this", "named .gz, but not compressed"),
        ("perf.data", b"PERFILE2\0\0\1", "Linux perf"),
        ("p.zip", b"PK\x03\x04\0", "a ZIP archive"),
        ("p.json.zst", b"\x28\xb5\x2f\xfd\0", "zstd -d"),
        (
            "p.json.gz",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n",
            "git lfs pull",
        ),
        ("p.json.gz", gzip.compress(b"<html><head>", mtime=0), "a web page"),
    ],
)
def test_what_is_no_recording_is_named(here, run, name, content, said):
    (here / name).write_bytes(content)
    status, out, err = run("analyze", name)
    assert (status, out) == (1, "")
    assert said in err
    assert err.count("\n") == 1


def test_an_address_without_what_fetches_it_is_no_file(here, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert "download it first" in run("analyze", "https://example.org/trace.json.gz")[2]


def test_standard_input_is_read(here, run, monkeypatch):
    def piped(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    piped(SAMPLE.read_bytes())
    status, out, err = run("analyze", "-")
    assert (status, err) == (0, "")
    assert "Next: traceanalyzer show syncs PATH\n" in out
    piped(b"")
    assert (
        run("analyze", "-")[2]
        == "traceanalyzer: error: -: standard input is empty; did the command before it fail?\n"
    )
    piped(b"hello")
    assert run("gaps", "-")[2].startswith(
        "traceanalyzer: error: -: not a recording of any known kind"
    )
    assert (
        "only once"
        in run("compare", "trace.json.gz", "trace.json.gz", "-")[2] + run("analyze", "-", "-")[2]
    )


def test_a_trace_that_is_cut_off_says_so(here, run):
    whole = gzip.decompress(SAMPLE.read_bytes())
    at = whole.index(b'"cat": "kernel"') if b'"cat": "kernel"' in whole else len(whole) // 3
    (here / "cut.json").write_bytes(whole[:at])
    status, out, _ = run("analyze", "cut.json", "--full")
    assert status == 0
    why = "the file is cut off, and no GPU event is in what is left: copy or export it again"
    assert why in " ".join(out.split())
    assert "The file is cut off after" in out


def test_a_database_that_is_cut_off_says_where(here, run):
    small_run("3.24.0").write(here / "run.sqlite")
    data = (here / "run.sqlite").read_bytes()
    (here / "run.sqlite").write_bytes(data[: len(data) * 6 // 10])
    _, out, err = run("analyze", "run.sqlite", "--full")
    assert "cut off at 60%" in out + err


def test_compare_says_what_it_writes(here, run):
    status, _, err = run("compare", "trace.json.gz", "trace.json.gz", "-o", "x.xml")
    assert status == 2
    assert (
        "`compare` does not write junit (x.xml); it writes terminal, markdown, json, csv, html, svg"
        in err
    )


def test_a_speedup_of_nothing_is_a_mistake_with_names(here, run):
    status, out, err = run("whatif", "trace.json.gz", "--speedup", "adm=2", "--format", "json")
    assert (status, out) == (2, "")
    assert "--speedup: no device work is named 'adm'; did you mean" in err
    assert "aten::addmm" in err
    assert "'adm' is not NAME=N" in run("whatif", "trace.json.gz", "--speedup", "adm")[2]
    assert run("whatif", "trace.json.gz", "--speedup", "aten::addmm=2")[2] == ""


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "train.py",
            b"import torch\n",
            "record it: traceanalyzer collect torch -- python train.py",
        ),
        (
            "model.pt",
            b"PK\x03\x04" + bytes(26) + b"archive/data.pkl" + bytes(40),
            "weights saved by torch.save",
        ),
        ("old.pt", b"\x80\x02}q\x00.", "traceanalyzer analyze FILE"),
        (
            "cut.json.gz",
            gzip.compress(b"{}", mtime=0)[:10],
            "damaged or empty; copy or record it again",
        ),
        ("run.nsys-rep", b"some text\n", "named .nsys-rep, but not a report of Nsight Systems"),
        ("run.ncu-rep", bytes(64), "named .ncu-rep, but not a report of Nsight Compute"),
        (
            "numbers.json",
            b'{"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":%s,"dur":1}]}'
            % (b"1" * 5000),
            "not one event could be read",
        ),
    ],
)
def test_other_files_of_a_project_are_told_what_they_are(here, run, name, content, said):
    (here / name).write_bytes(content)
    status, out, err = run("analyze", name)
    assert (status, out) == (1, "")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("memory", "trace.json.gz"), "JSON, not a CUDA memory snapshot"),
        (("memory", "dump_0"), "a Flight Recorder dump, not a CUDA memory snapshot"),
        (("fleet", "empty"), "no rank could be read: there is no recording and no digest"),
        (("gaps", "trace.json.gz", "--min-us", "abc"), "'abc' is not a number"),
        (
            ("analyze", "trace.json.gz", "--hardware", "no.toml"),
            "no.toml: the hardware table cannot be opened (no",
        ),
    ],
)
def test_the_wrong_file_or_value_for_an_option(here, run, arguments, said):
    (here / "empty").mkdir()
    (here / "dump_0").write_bytes(b"\x80\x02}(X\x09\x00\x00\x00pg_config}u.")
    status, _, err = run(*arguments)
    assert status in (1, 2)
    assert said in err


def test_what_a_capture_says_of_itself_is_no_unreadable_input(here, run):
    (here / "environment.json").write_text("{}")
    (here / "unprofiled.rank0.json").write_text("{}")
    status, out, err = run(
        "analyze", "environment.json", "trace.json.gz", "unprofiled.rank0.json", "--format", "json"
    )
    assert (status, err) == (0, "")
    assert "could not be read" not in out
    status, _, err = run("analyze", "environment.json")
    assert status == 1
    assert "no `traceEvents`" in err


def test_a_table_that_is_not_there_is_told_with_those_that_are(run):
    status, _, err = run("show", "foo", "trace.json")
    assert status == 2
    assert "there is no table 'foo'; tables: steps, iterations" in err
    assert "did you mean kernels?" in run("show", "kernel", "trace.json")[2]


def test_an_old_name_is_suggested_by_what_to_type_now(run):
    assert "did you mean `traceanalyzer doctor cache`?" in run("cach")[2]


def test_what_is_no_table_is_said_to_be_elsewhere(run):
    err = run("show", "memory", "trace.json.gz")[2]
    assert "analyze SNAPSHOT" in err
    assert "copies" not in err
