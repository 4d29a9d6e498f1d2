"""A kept model answers as the recording does, byte for byte; damaged, planted or foreign ones are
never believed."""

from __future__ import annotations

import errno
import io
import os
import shutil
import threading
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.recorded import EVERY_FILE, GPU, ROOT, label, recording
from traceanalyzer.base.reading import read_with, reading
from traceanalyzer.cli import cli
from traceanalyzer.ingest import load
from traceanalyzer.ingest.cache import identity, models, store
from traceanalyzer.ingest.cache.identity import identity_of
from traceanalyzer.ingest.cache.models import Packed, can_be_kept, model_of, pack, traces_in, unpack
from traceanalyzer.ingest.cache.store import MODEL, DamagedError, KeptEntry, put, write_checked
from traceanalyzer.ingest.detect import detect
from traceanalyzer.report.build import build_report
from traceanalyzer.report.json import render_json
from traceanalyzer.trace import Table, Trace

SAMPLES = sorted((ROOT / "sample_traces").glob("*/trace*.gz")) + sorted(
    (ROOT / "sample_traces").glob("*/*.sqlite*")
)
RECORDED = [path for path in (*EVERY_FILE, *GPU, *SAMPLES) if "timing" not in path.parent.name]
MANY = 10**9
KEY = "ab" * 20


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*"))


def report(path: Path) -> str:
    return render_json(build_report(load([path])))


def read_anew(path: Path) -> list[Trace]:
    return detect(path).read(path)


def no_reader(*_: Any) -> Any:
    raise AssertionError("the recording was read, not its model")


def same_trace(one: Trace, other: Trace) -> None:
    for f in fields(Trace):
        a = getattr(one, f.name)
        b = getattr(other, f.name)
        if isinstance(a, Table):
            for column in fields(a):
                x = getattr(a, column.name)
                y = getattr(b, column.name)
                assert x.dtype == y.dtype, (f.name, column.name)
                assert np.array_equal(x, y), (f.name, column.name)
        elif f.name != "kept_as":
            assert a == b, f.name


def packed(traces: list[Trace]) -> bytes:
    file = io.BytesIO()
    write_checked(file, KEY, model_of(traces))
    return file.getvalue()


def unpacked(data: bytes, path: str = "p", most_rows: int = MANY) -> list[Trace]:
    return traces_in(KeptEntry(io.BytesIO(data), len(data), KEY), path, most_rows)


@pytest.mark.parametrize("path", RECORDED, ids=label)
def test_a_model_holds_all_of_a_recording(path: Path) -> None:
    traces = read_anew(path)
    assert all(can_be_kept(trace) for trace in traces)
    again = unpacked(packed(traces), str(path))
    for one, other in zip(traces, again, strict=True):
        same_trace(one, other)


@pytest.mark.parametrize("path", RECORDED[::8], ids=label)
def test_the_second_report_is_the_first_without_reading(
    path: Path, cache: Path, monkeypatch
) -> None:
    read_with(cache=False)
    without = report(path)
    assert not cache.exists()
    read_with(cache=True)
    first = report(path)
    assert len(files_in(cache)) == 1
    monkeypatch.setattr("traceanalyzer.ingest.run.detect", no_reader)
    assert report(path) == first == without


def test_what_lies_beside_a_recording_is_read_each_time(cache: Path, tmp_path: Path) -> None:
    here = tmp_path / "capture"
    shutil.copytree(ROOT / "sample_traces" / "sync_bound", here)
    assert load([here]).traces[0].unprofiled_step_ns is not None
    (here / "unprofiled.rank0.json").unlink()
    assert load([here]).traces[0].unprofiled_step_ns is None


@pytest.mark.parametrize("name", ["analyze", "gaps", "compare"])
def test_commands_keep_a_model_unless_told_not_to(name: str, cache: Path, trace_file: Path) -> None:
    read_with(cache=False)
    words = [name, *[str(trace_file)] * (2 if name == "compare" else 1), "--format", "json"]
    without = CliRunner().invoke(cli, [*words, "--no-cache"])
    assert without.exit_code == 0
    assert not cache.exists()
    first, second = (CliRunner().invoke(cli, words) for _ in range(2))
    # the page, what it is made from; tables, predictions, details and itself that a report left
    answers = 6 if name == "analyze" else 2
    assert sorted(path.suffix for path in files_in(cache)) == [".answer"] * answers + [".model"]
    assert first.output == second.output == without.output


def test_a_library_keeps_nothing() -> None:
    assert not type(reading())().cache


@given(
    st.sampled_from([np.uint8, np.int16, np.int32, np.int64]).flatmap(
        lambda dtype: hnp.arrays(
            dtype, st.integers(0, 20), elements=hnp.from_dtype(np.dtype(dtype))
        )
    )
)
def test_packing_loses_nothing(values: Any) -> None:
    form, data = pack(values)
    again = unpack(form, bytearray(data), len(values), values.dtype)
    assert again.dtype == values.dtype
    assert np.array_equal(again, values)


def test_columns_take_the_bytes_that_their_values_need() -> None:
    assert pack(np.full(9, -1, np.int64)) == (Packed(0, -1), b"")
    assert pack(np.array([10**15, 10**15 + 255])) == (Packed(1, 10**15), b"\x00\xff")


@pytest.mark.parametrize(
    ("form", "rows", "data"),
    [
        (Packed(0, 300), 2, b""),
        (Packed(1, 0), 2, b"a"),
        (Packed(3, 0), 1, b"aaa"),
        (Packed(1, 200), 1, b"\xff"),
    ],
)
def test_columns_that_are_none_are_refused(form: Packed, rows: int, data: bytes) -> None:
    with pytest.raises(ValueError, match="column"):
        unpack(form, bytearray(data), rows, np.dtype(np.uint8))


SMALL = packed(read_anew(recording("kineto/gemm_fp32.base")))


@given(st.integers(0, len(SMALL) - 1), st.integers(1, 255))
def test_one_wrong_byte_is_noticed(at: int, change: int) -> None:
    damaged = bytearray(SMALL)
    damaged[at] ^= change
    with pytest.raises(DamagedError):
        unpacked(bytes(damaged))


@given(st.integers(0, len(SMALL) - 1))
@settings(max_examples=30)
def test_a_model_that_is_cut_off_is_noticed(length: int) -> None:
    with pytest.raises(DamagedError):
        unpacked(SMALL[:length])


def test_more_rows_than_a_recording_can_have_are_refused_before_they_take_memory() -> None:
    with pytest.raises(DamagedError, match="more rows"):
        unpacked(SMALL, most_rows=2)


def test_codes_that_stand_for_nothing_are_refused() -> None:
    (trace,) = unpacked(SMALL)
    for broken in (replace(trace, strings=trace.strings[:1]), replace(trace, threads=())):
        with pytest.raises(DamagedError, match="stands for nothing"):
            unpacked(packed([broken]))


def test_a_model_of_another_recording_is_refused() -> None:
    with pytest.raises(DamagedError, match="something else"):
        KeptEntry(io.BytesIO(SMALL), len(SMALL), "cd" * 20)


@pytest.mark.parametrize("damage", [b"", b"junk", SMALL[:-1] + b"x"])
def test_a_damaged_model_costs_a_reading_and_is_replaced(
    damage: bytes, cache: Path, trace_file: Path
) -> None:
    first = report(trace_file)
    (model,) = files_in(cache)
    sound = model.read_bytes()
    model.write_bytes(damage)
    assert report(trace_file) == first
    assert model.read_bytes() == sound


def test_a_model_that_others_may_write_is_not_believed(
    cache: Path, trace_file: Path, monkeypatch
) -> None:
    report(trace_file)
    (model,) = files_in(cache)
    model.chmod(0o666)
    monkeypatch.setattr("traceanalyzer.ingest.run.detect", no_reader)
    with pytest.raises(AssertionError):
        report(trace_file)


def test_a_link_is_not_believed(cache: Path, trace_file: Path, tmp_path: Path, monkeypatch) -> None:
    report(trace_file)
    (model,) = files_in(cache)
    model.rename(tmp_path / "elsewhere")
    model.symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr("traceanalyzer.ingest.run.detect", no_reader)
    with pytest.raises(AssertionError):
        report(trace_file)


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o707])
def test_a_folder_that_others_see_is_not_used(mode: int, cache: Path, trace_file: Path) -> None:
    cache.mkdir()
    cache.chmod(mode)
    report(trace_file)
    assert files_in(cache) == []
    shown = CliRunner().invoke(cli, ["doctor", "cache", "show"])
    assert shown.exit_code == 1
    assert "others may look into it" in shown.output


def test_a_link_for_a_folder_is_not_used(cache: Path, trace_file: Path, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir(mode=0o700)
    cache.symlink_to(tmp_path / "target")
    report(trace_file)
    assert files_in(tmp_path / "target") == []


def test_what_is_kept_is_the_users_alone(cache: Path, trace_file: Path) -> None:
    report(trace_file)
    assert [path.stat().st_mode & 0o777 for path in (cache, *files_in(cache))] == [0o700, 0o600]


def test_a_recording_that_changed_is_read_again(cache: Path, trace_file: Path) -> None:
    """Also where its length and the time of its last write stay as they were."""
    report(trace_file)
    before = identity_of(trace_file)
    about = trace_file.stat()
    data = bytearray(trace_file.read_bytes())
    data[len(data) // 2] ^= 1
    trace_file.write_bytes(bytes(data))
    os.utime(trace_file, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert identity_of(trace_file) != before


def test_what_a_reader_depends_on_is_part_of_the_identity(
    cache: Path, trace_file: Path, monkeypatch
) -> None:
    from traceanalyzer.base.limits import raised

    before = identity_of(trace_file)
    with raised(text=100):
        assert identity_of(trace_file) != before
    assert identity_of(trace_file) == before
    monkeypatch.setattr(identity, "program_state", lambda *_: "another version")
    assert identity_of(trace_file) != before


def test_a_recording_that_is_still_written_is_not_kept(
    cache: Path, trace_file: Path, monkeypatch
) -> None:
    monkeypatch.setattr(identity, "SETTLED_S", 3600.0)
    report(trace_file)
    assert not cache.exists()


def test_a_recording_that_changes_while_it_is_read_is_not_kept(
    cache: Path, trace_file: Path
) -> None:
    traces = read_anew(trace_file)

    def read() -> list[Trace]:
        with trace_file.open("ab") as file:
            file.write(b"more")
        return traces

    assert models.read_once(trace_file, read) == traces
    assert not cache.exists()


def test_small_recordings_and_parts_of_others_are_not_kept(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(identity, "SETTLED_S", -1)
    small = tmp_path / "small.json"
    large = tmp_path / "large.sqlite"
    small.write_bytes(b"x" * (identity.LEAST_PACKED_BYTES + 1))
    assert identity_of(small) is None
    large.write_bytes(b"x" * identity.LEAST_BYTES)
    assert identity_of(large) is not None
    small.write_bytes(b"\x1f\x8b" * identity.LEAST_PACKED_BYTES)
    assert identity_of(small) is not None
    (tmp_path / "large.sqlite-wal").touch()
    assert identity_of(large) is None
    assert identity_of(large.rename(tmp_path / "large.nsys-rep")) is None


def test_a_full_disk_costs_nothing(cache: Path, trace_file: Path, monkeypatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    without = report(trace_file)
    CliRunner().invoke(cli, ["doctor", "cache", "clear"])
    monkeypatch.setattr(store, "write_checked", full)
    assert report(trace_file) == without
    assert files_in(cache) == []


def test_a_disk_that_is_nearly_full_is_left_alone(
    cache: Path, trace_file: Path, monkeypatch
) -> None:
    monkeypatch.setattr(models, "_SHARE_OF_DISK", 10**15)
    report(trace_file)
    assert files_in(cache) == []


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_folder_that_cannot_be_written_costs_nothing(cache: Path, trace_file: Path) -> None:
    cache.mkdir(mode=0o500)
    report(trace_file)
    assert files_in(cache) == []


def test_a_cache_that_is_a_file_costs_nothing(cache: Path, trace_file: Path) -> None:
    cache.write_text("mine")
    report(trace_file)
    assert cache.read_text() == "mine"


def test_two_at_once(cache: Path, trace_file: Path) -> None:
    """Both write; whoever is last, the model is whole."""
    traces = read_anew(trace_file)
    gate = threading.Barrier(2)

    def ask() -> None:
        about = identity_of(trace_file)
        assert about is not None
        gate.wait()
        models.keep(about, traces)

    both = [threading.Thread(target=ask) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert len(files_in(cache)) == 1
    same_trace(models.read_once(trace_file, no_reader)[0], traces[0])


def test_the_model_used_longest_ago_goes_first(cache: Path) -> None:
    old, middle, new = (letter * 40 for letter in "abc")
    for i, key in enumerate((old, middle, new)):
        put(key, MODEL, [b"x" * 100], 0)
        os.utime(cache / f"{key}.model", (i, i))
    with store.opened_entry(old, MODEL):
        pass  # reading counts as using
    store.make_room(cache, 280)
    assert [path.stem for path in files_in(cache)] == [old, new]


def test_what_was_left_unfinished_goes_too(cache: Path) -> None:
    cache.mkdir(mode=0o700)
    left = f"{'a' * 40}_0left_0.part"
    now = f"{'b' * 40}_0now__0.part"
    another = "download.part"
    for name, age in ((left, 2 * 3600), (now, 0), (another, 2 * 3600)):
        (cache / name).touch()
        os.utime(cache / name, (cache.stat().st_mtime - age,) * 2)
    store.make_room(cache)
    assert [path.name for path in files_in(cache)] == [now, another]


def test_show_and_clear(cache: Path, trace_file: Path) -> None:
    def told(action: str) -> str:
        result = CliRunner().invoke(cli, ["doctor", "cache", action])
        assert result.exit_code == 0
        return result.output

    assert told("show") == f"{cache}: empty\n"
    report(trace_file)
    mine = ["checkpoint.model", "download.part", "mine.txt", "one.answer"]
    for name in mine:
        (cache / name).write_text("of the user's own")
    (cache / f"{'0' * 40}.answer").write_text("an answer")
    assert told("show").startswith(f"{cache}: 1 model, 1 answer, 0.0 MB")
    assert told("clear") == told("show").replace(
        "0 models, 0 answers, 0.0 MB", "1 model, 1 answer, 0.0 MB removed"
    )
    store.make_room(cache, 0)
    assert [path.name for path in files_in(cache)] == mine


def test_an_empty_variable_switches_it_off(cache: Path, trace_file: Path, monkeypatch) -> None:
    monkeypatch.setenv("TRACEANALYZER_CACHE", "")
    report(trace_file)
    assert not cache.exists()
    assert "The cache is off" in CliRunner().invoke(cli, ["doctor", "cache", "show"]).output


def test_without_a_home_nothing_is_kept(monkeypatch, trace_file: Path) -> None:
    monkeypatch.setenv("TRACEANALYZER_CACHE", "~nobody-of-this-name/x")
    assert store.place() is None
    assert CliRunner().invoke(cli, ["analyze", str(trace_file)]).exit_code == 0
    monkeypatch.delenv("TRACEANALYZER_CACHE")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert store.place() is None or "XDG_CACHE_HOME" in os.environ
    assert "The cache is off" in CliRunner().invoke(cli, ["doctor", "cache", "show"]).output


def test_the_folder_is_the_users_cache(monkeypatch) -> None:
    monkeypatch.delenv("TRACEANALYZER_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert store.place() == Path("/elsewhere/traceanalyzer")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert store.place() == Path("~/.cache/traceanalyzer").expanduser()
    monkeypatch.setattr("sys.platform", "darwin")
    assert store.place() == Path("~/Library/Caches/traceanalyzer").expanduser()
