"""Several processes read a trace as one does, to the bit; where they cannot, one reads it."""

from __future__ import annotations

import gzip
import os
import sys
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.processes import noted_processes
from tests.recorded import GPU, KINETO, ROOT, label, recording
from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.base.limits import raised
from traceanalyzer.base.parallel import children
from traceanalyzer.base.reading import read_with
from traceanalyzer.ingest import stream as byte_stream
from traceanalyzer.ingest.kineto import chunks, parallel
from traceanalyzer.ingest.kineto.chunks import DamagedStretchError
from traceanalyzer.ingest.kineto.reader import read
from traceanalyzer.trace import Table, Trace

LARGE = gzip.decompress(recording("kineto/gpt_large_batch.base").read_bytes())
PIECE = 20_000
RECORDED = [*GPU, *KINETO, *sorted((ROOT / "sample_traces").glob("*/trace*.json.gz"))]


@pytest.fixture(autouse=True)
def alone() -> Any:
    yield
    read_with(jobs=1)


def read_by(path: Path, jobs: int) -> Trace:
    read_with(jobs=jobs)
    (trace,) = read(path)
    return trace


def worth_from(size: int, patch: pytest.MonkeyPatch) -> None:
    """So many bytes are worth a process."""
    for name in ("LEAST_BYTES", "LEAST_STRETCH_BYTES"):
        patch.setattr(parallel, name, size)


def same(one: Trace, other: Trace) -> None:
    for f in fields(Trace):
        a = getattr(one, f.name)
        b = getattr(other, f.name)
        if isinstance(a, Table):
            assert all(np.array_equal(getattr(a, c.name), getattr(b, c.name)) for c in fields(a)), (
                f.name
            )
        else:
            assert a == b, f.name


def same_or_refused(path: Path, jobs: int) -> None:
    try:
        alone = read_by(path, 1)
    except UnreadableInputError as error:
        refused = str(error)
    else:
        return same(read_by(path, jobs), alone)
    with pytest.raises(UnreadableInputError) as again:
        read_by(path, jobs)
    assert str(again.value) == refused
    return None


def damaged_gzip(text: bytes) -> bytes:
    """Two members, of which the second is damaged and says that it is as long as both."""
    half = len(text) // 2
    first, second = (bytearray(gzip.compress(part, mtime=0)) for part in (text[:half], text[half:]))
    second[len(second) // 2] ^= 0x55
    second[-4:] = len(text).to_bytes(4, "little")
    return bytes(first + second)


@contextmanager
def in_this_process(work: Any, count: int) -> Any:
    """What the helpers do, without their processes: one stretch each in turn, and the rest is left
    to this one."""
    helpers = [work() for _ in range(count)]
    files = [children._memory_file() for _ in helpers]
    for turn in range(len(work.args[1]) // 2 if count else 0):
        with suppress(DamagedStretchError, StopIteration):
            children._send(next(helpers[turn % count]), files[turn % count])
    yield [
        SimpleNamespace(values=lambda file=file: list(children._received(file))) for file in files
    ]
    for file in files:
        file.close()


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Files of any size are read in many pieces; the list has a 1 for each that was read by
    several, else 0."""
    together: list[int] = []
    read_in_parallel = parallel.read_in_parallel

    def noted(*given: Any) -> Any:
        found = read_in_parallel(*given)
        together.append(found is not None)
        return found

    for module in (parallel, byte_stream):
        monkeypatch.setattr(module, "PIECE_BYTES", PIECE)
    worth_from(PIECE, monkeypatch)
    monkeypatch.setattr(parallel, "children", in_this_process)
    monkeypatch.setattr("traceanalyzer.ingest.kineto.reader.read_in_parallel", noted)
    return together


@pytest.mark.parametrize("method", sorted({children.METHOD, "spawn"}))
def test_processes_read_what_one_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(children, "METHOD", method)
    worth_from(1 << 20, monkeypatch)
    path = tmp_path / "trace.json"
    path.write_bytes(LARGE.replace(b'"ts"', b" " * 400 + b'"ts"'))  # long enough for three
    started = noted_processes(monkeypatch)
    alone = read_by(path, 1)
    assert not started
    same(read_by(path, 3), alone)
    assert [process.exitcode for process in started] == [0, 0]


@pytest.mark.parametrize(
    ("path", "packed"),
    [pytest.param(p, bool(i % 2), id=label(p)) for i, p in enumerate(RECORDED[::2])],
)
def test_every_recording(path: Path, packed: bool, tmp_path: Path, small_pieces: list[int]) -> None:
    text = gzip.decompress(path.read_bytes())
    file = tmp_path / "trace.json"
    file.write_bytes(gzip.compress(text, 1) if packed else text)
    alone = read_by(file, 1)
    for jobs in (2, 7):
        same(read_by(file, jobs), alone)
    if len(text) > 20 * PIECE:
        assert any(small_pieces)


def test_a_gzip_file_that_says_the_length_of_its_end(
    tmp_path: Path, small_pieces: list[int]
) -> None:
    """Members one after the other: only the length of the last is known."""
    file = tmp_path / "trace.json.gz"
    file.write_bytes(gzip.compress(LARGE[: -12 * PIECE]) + gzip.compress(LARGE[-12 * PIECE :]))
    assert byte_stream.text_bytes(file) == 12 * PIECE
    same(read_by(file, 3), read_by(file, 1))
    assert any(small_pieces)


@pytest.mark.parametrize("says", [0, 7 * PIECE, 1 << 31])
def test_a_gzip_file_that_says_a_wrong_length(
    says: int, tmp_path: Path, small_pieces: list[int]
) -> None:
    file = tmp_path / "trace.json.gz"
    file.write_bytes(gzip.compress(LARGE)[:-4] + says.to_bytes(4, "little"))
    same(read_by(file, 3), read_by(file, 1))
    assert not any(small_pieces)


@pytest.mark.parametrize(
    ("text", "packed"), [(4_100_000_000, 300_000_000), (200_000, 150_000), (9_000_000_000, 10**9)]
)
def test_how_much_text_a_large_gzip_file_holds(text: int, packed: int, tmp_path: Path) -> None:
    file = tmp_path / "trace.json.gz"
    with file.open("wb") as out:
        out.write(byte_stream.GZIP_MAGIC)
        out.seek(packed - 4)
        out.write((text % (1 << 32)).to_bytes(4, "little"))
    assert byte_stream.text_bytes(file) == text


def test_a_bomb_is_refused_as_by_one(tmp_path: Path, small_pieces: list[int]) -> None:
    file = tmp_path / "trace.json.gz"
    file.write_bytes(gzip.compress(LARGE[: 20 * PIECE] + b" " * 100 * PIECE))
    with raised(size=50 * PIECE, ratio=1):
        same_or_refused(file, 3)


def test_a_name_that_is_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worth_from(1 << 20, monkeypatch)
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff.json.gz"))
    path.write_bytes(gzip.compress(LARGE))
    same(read_by(path, 2), read_by(path, 1))


@given(st.data())
@settings(max_examples=40)
def test_damage_anywhere(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Bytes replaced, text cut off, two recordings in one file."""
    text = bytearray(LARGE[: 30 * PIECE])
    for at in data.draw(st.lists(st.integers(0, len(text) - 9), max_size=2)):
        text[at : at + 4] = data.draw(
            st.sampled_from([b"}]}\n", b'"":,', b"NaN ", b"\xff\xfe{[", b"\x00" * 4])
        )
    if data.draw(st.booleans()):
        text += LARGE[-9000:] + LARGE[: 5 * PIECE]
    path = tmp_path_factory.mktemp("damaged") / "trace.json"
    path.write_bytes(data.draw(st.sampled_from([bytes, damaged_gzip, gzip.compress]))(bytes(text)))
    with pytest.MonkeyPatch.context() as patch:
        for module in (parallel, byte_stream):
            patch.setattr(module, "PIECE_BYTES", PIECE)
        worth_from(PIECE, patch)
        patch.setattr(parallel, "children", in_this_process)
        same_or_refused(path, data.draw(st.integers(2, 6)))


def exit_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Of the processes that read a large file, which come out at what one process reads."""
    worth_from(1 << 20, monkeypatch)
    path = tmp_path / "trace.json"
    path.write_bytes(LARGE)
    started = noted_processes(monkeypatch)
    same(read_by(path, 2), read_by(path, 1))
    return [process.exitcode for process in started]


def test_a_process_that_dies_costs_nothing_but_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: Any) -> None:
        raise SystemExit(3)

    monkeypatch.setattr(parallel, "_read_apart", dies)
    assert exit_codes(tmp_path, monkeypatch) == [1]


def test_without_files_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> int:
        raise PermissionError("not in this sandbox")

    monkeypatch.setattr(os, "memfd_create", refused, raising=False)
    assert exit_codes(tmp_path, monkeypatch) == [0]


def test_no_process_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    started = noted_processes(monkeypatch)

    worth_from(1 << 20, monkeypatch)
    monkeypatch.setattr(parallel, "_together", interrupted)
    path = tmp_path / "trace.json"
    path.write_bytes(LARGE)
    with pytest.raises(KeyboardInterrupt):
        read_by(path, 2)
    assert [process.exitcode is not None for process in started] == [True]


@pytest.mark.parametrize("method", sorted({children.METHOD, "spawn"}))
def test_modules_in_the_folder_of_a_recording_are_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(children, "METHOD", method)
    worth_from(1 << 20, monkeypatch)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry] + [str(ROOT)])
    for name in ("json.py", "msgspec.py", "pickle.py"):
        (tmp_path / name).write_text("open('run', 'w')")
    (tmp_path / "trace.json").write_bytes(LARGE)
    monkeypatch.chdir(tmp_path)
    read_by(Path("trace.json"), 2)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("size", [100, chunks.TAIL_BYTES])
def test_text_without_a_boundary_is_not_cut(size: int) -> None:
    assert chunks.boundary_in_tail(b" " * size) is None


def test_small_files_are_read_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_process(*_: Any, **__: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(children, "_started", no_process)
    (tmp_path / "trace.json").write_bytes(LARGE)
    read_by(tmp_path / "trace.json", 8)
    read_by(recording("kineto/gpt_large_batch.base"), 8)
