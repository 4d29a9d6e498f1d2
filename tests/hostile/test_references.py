"""Files that name one large thing many times: what is made of them stays in bounds."""

from __future__ import annotations

import io
import json
import sqlite3
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fleet.build import digest
from tests.ingest import test_xplane
from tests.ingest.test_pftrace import small as small_pftrace
from tests.xplane_builder import space
from traceanalyzer.base.errors import TraceAnalyzerError, UnreadableInputError
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.export.database import write_parquet, write_sqlite
from traceanalyzer.export.perfetto.chrome_trace import LONGEST_NAME, overlay_pieces
from traceanalyzer.export.perfetto.overlay import build_overlay
from traceanalyzer.fleet.digests import files
from traceanalyzer.fleet.digests.files import LeftOut, encoded, read_digests
from traceanalyzer.fleet.parquet_pages import (
    CHUNK_BYTES,
    CHUNK_VALUES,
    DATA_AT,
    DICTIONARY_AT,
    chunks,
)
from traceanalyzer.fleet.pipeline.log_file import read_operations
from traceanalyzer.ingest import load, produced
from traceanalyzer.ingest.flight_recorder.digest import _elements
from traceanalyzer.ingest.flight_recorder.nccl_logs import clues_of
from traceanalyzer.ingest.memory import _by_device
from traceanalyzer.ingest.places import places_in
from traceanalyzer.ingest.produced import Produced
from traceanalyzer.ingest.proton import _nodes, _sums
from traceanalyzer.ingest.sqlite.database import open_database
from traceanalyzer.ingest.xplane.space import LONGEST_MODULE, LONGEST_OPERATOR

LONG = "aten::" + "x" * 200_000


def test_a_long_name_of_steps_of_an_xplane_is_cut_before_its_number(tmp_path: Path) -> None:
    """Thousands of steps have one name in the file, and each a name with its number here."""
    host = test_xplane.Plane("/host:CPU")
    ms = test_xplane.MS
    steps: list[Any] = [(LONG, i * ms, ms // 2, {"_r": 1, "step_num": i}) for i in range(300)]
    host.line(1, "python", steps)
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(space(test_xplane.small()[0], host))
    (trace,) = load([str(path)]).traces
    numbered = [text for text in trace.strings if "step_num=" in text]
    assert len(numbered) == 300
    assert max(map(len, numbered)) <= LONGEST_OPERATOR + len(" step_num=299")


def test_a_long_name_of_a_pftrace_is_written_once(tmp_path: Path) -> None:
    made = small_pftrace()
    for i in range(300):
        made.host(("cpu_op", LONG, 1_000_000 + 200 * i, 1_000_100 + 200 * i, {}))
    path = tmp_path / "a.pftrace"
    path.write_bytes(bytes(made))
    load([path])  # modules are imported
    tracemalloc.start()
    (trace,) = load([path]).traces
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * len(LONG)  # 300 in the text alone, otherwise
    names = [trace.strings[code] for code in trace.host_ranges.name.tolist()]
    assert names.count(LONG) == 300


def test_a_name_in_every_row_of_an_export_is_refused_before_it_fills_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = small_pftrace()
    for i in range(300):
        made.stage(1, LONG, 2_000_000 + 200 * i, 2_000_100 + 200 * i, device_id=0, stream_id=7)
    path = tmp_path / "a.pftrace"
    path.write_bytes(bytes(made))
    run = load([path])
    ranks = measured(run)
    monkeypatch.setattr(produced, "LEAST_BYTES", 0)
    out = tmp_path / "out.sqlite"
    with pytest.raises(TraceAnalyzerError, match="Parquet has each once"):
        write_sqlite(ranks, out)
    assert list(tmp_path.iterdir()) == [path]
    write_parquet(ranks, tmp_path / "out.parquet")
    assert sum(file.stat().st_size for file in (tmp_path / "out.parquet").iterdir()) < len(LONG)
    slices = json.loads(b"".join(overlay_pieces(build_overlay(run))))["traceEvents"]
    assert max(len(event["name"]) for event in slices) == LONGEST_NAME


def test_a_long_module_of_an_xplane_is_shortened_before_its_operators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "jit_" + "m" * 50_000
    monkeypatch.setattr(
        test_xplane, "hlo", lambda op: {"hlo_op": op, "hlo_module": module, "program_id": 3}
    )
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(space(*test_xplane.small()))
    strings = load([path]).traces[0].strings
    assert module in strings
    assert [text for text in strings if text.endswith("/dot.1")] == [
        f"{module[:LONGEST_MODULE]}/dot.1"
    ]


def test_sizes_of_a_dump_are_numbers() -> None:
    assert _elements([3, 4, 0]) == 0
    assert _elements([]) == 1
    for shape in ([300_000_000, [0]], ["ab", 3], [True], [2**62, 2**62], [[1], [2]]):
        with pytest.raises(ValueError, match="number"):
            _elements(shape)


def test_what_the_inspector_says_is_read_record_by_record() -> None:
    record = {
        "header": {"id": "0x7f", "rank": 1, "n_ranks": 2, "nnodes": 1},
        "metadata": {"hostname": "node-7"},
        "coll_perf": {"coll_sn": 64},
    }
    other = record | {"header": record["header"] | {"rank": 0}, "coll_perf": {"coll_sn": 65}}
    half = '"id": "a", "rank": 1, "n_ranks": 2 x' * 20_000
    text = half + json.dumps(record) + "\n" + json.dumps(other)
    clues = clues_of([("log", text.encode())], 2)
    assert clues.hosts == {0: "node-7", 1: "node-7"}
    assert clues.behind == (1,)


def test_a_long_operator_of_an_xplane_is_shortened_in_each_of_its_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = "fusion" + "x" * 50_000
    modules = iter(range(1_000_000))
    monkeypatch.setattr(
        test_xplane,
        "hlo",
        lambda _: {"hlo_op": operator, "hlo_module": f"jit_{next(modules)}", "program_id": 3},
    )
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(space(*test_xplane.small()))
    strings = load([path]).traces[0].strings
    joined = [text for text in strings if text.startswith("jit_") and "/" in text]
    assert len(joined) > 4
    assert {len(text.partition("/")[2]) for text in joined} == {LONGEST_OPERATOR}


def test_a_scope_of_proton_knows_whether_it_has_one_kernel() -> None:
    def scope(name: str, *children: dict, **metrics: float) -> dict:
        return {"frame": {"name": name}, "metrics": metrics, "children": list(children)}

    def kernel(name: str) -> dict:
        return scope(name, **{"time (ns)": 5.0, "count": 1})

    alone = scope("alone", kernel("gemm"), kernel("gemm"), flops=8.0)
    tree = scope("both", alone, scope("other", kernel("add")), flops=100.0)
    sums = _sums(list(_nodes(tree)))
    assert {name: dict(of.flops) for (name, _), of in sums.items()} == {
        "gemm": {"": 8.0},
        "add": {},
    }


def test_a_table_says_no_more_than_its_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("create table T (a integer, b text)")
        connection.executemany("insert into T values (?, ?)", [(i, "x" * 50) for i in range(500)])
    with open_database(path, "a.sqlite") as database:
        assert len(list(database.rows("T", {"a": 0, "b": None}))) == 500
        for size, columns in ((20_000, {"a": 0, "b": None}), (900, {"a": 0})):
            less = replace(database, size=size)
            with pytest.raises(UnreadableInputError, match="more than the file holds"):
                list(less.rows("T", columns))


def test_pages_with_two_places_in_a_tree_are_not_read_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("pragma page_size = 512")
        connection.execute("create table T (a integer)")
        connection.execute("begin")  # else each row waits for the disk
        connection.executemany("insert into T values (?)", [(1000 + i,) for i in range(2000)])
        connection.execute("commit")
        root = connection.execute("select rootpage from sqlite_master").fetchone()[0]
    data = bytearray(path.read_bytes())
    page = (root - 1) * 512
    cells = int.from_bytes(data[page + 3 : page + 5], "big")
    places = [
        page + int.from_bytes(data[page + 12 + 2 * i : page + 14 + 2 * i], "big")
        for i in range(cells)
    ]
    for place in places[1:]:
        data[place : place + 4] = data[places[0] : places[0] + 4]
    path.write_bytes(data)
    with open_database(path, "a.sqlite") as database:
        assert database.pages is not None
        rows = len(database.integers("T", {"a": 0})["a"])
    assert rows * 2 <= len(data)


def test_more_than_a_file_can_say_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "small.log"
    path.write_bytes(b"x" * 10)
    monkeypatch.setattr(produced, "LEAST_BYTES", 100)
    counted = Produced(path)
    counted.add(300)
    with pytest.raises(UnreadableInputError, match=r"small\.log: the file names the same texts"):
        counted.add(1)


def test_rows_of_each_device_are_found_at_once() -> None:
    assert _by_device(np.empty(0, np.int64)) == {}
    found = {device: rows.tolist() for device, rows in _by_device(np.array([4, 0, 4, 2])).items()}
    assert found == {0: [1], 2: [3], 4: [0, 2]}


def test_a_text_that_a_digest_names_many_times_is_held_once(tmp_path: Path) -> None:
    """Three kilobytes of Parquet: a list of 500 names, all of them one of a million letters."""
    made = encoded(digest(0, [(i, 1000 * i, 1000 * i + 900, "[0, 1]") for i in range(6)], steps=6))
    table = pq.read_table(io.BytesIO(made))
    about = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    codes = pa.array(np.zeros(500, np.int32))
    names = pa.ListArray.from_arrays(
        pa.array([0, 500], pa.int32()), pa.DictionaryArray.from_arrays(codes, ["x" * 1_000_000])
    )
    table = table.set_column(table.column_names.index("step_names"), "step_names", names)
    path = tmp_path / "rank0-0.digest.parquet"
    with pq.ParquetWriter(
        path,
        table.schema,
        compression="zstd",
        use_dictionary=["step_names.list.element"],
        store_schema=False,
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(about)
    assert path.stat().st_size < 5_000
    usual = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counting)
    try:
        (read,) = read_digests(places_in([str(path)])[0])
    finally:
        pa.set_memory_pool(usual)
    assert isinstance(read, LeftOut)
    assert 0 < counting.max_memory() < 20_000_000  # 500 of a million letters otherwise


def zigzag(number: int) -> bytes:
    """A signed number as Thrift's compact protocol has it."""
    left = 2 * number
    made = bytearray()
    while left > 127:
        made.append(left & 127 | 128)
        left >>= 7
    return bytes([*made, left])


def with_another_count(data: bytes, told: int, instead: int) -> bytes:
    """A Parquet file whose end says another number of values than its pages hold."""
    length = int.from_bytes(data[-8:-4], "little")
    start = len(data) - 8 - length
    end = data[start:-8].replace(zigzag(told), zigzag(instead))
    return data[:start] + end + len(end).to_bytes(4, "little") + b"PAR1"


def digest_with(column: str, values: pa.Array, **options: Any) -> bytes:
    """A digest with other values in a column of lists."""
    made = encoded(digest(0, [(i, 1000 * i, 1000 * i + 900, "[0, 1]") for i in range(6)], steps=6))
    table = pq.read_table(io.BytesIO(made))
    listed = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    sink = io.BytesIO()
    pq.write_table(
        table.set_column(table.column_names.index(column), column, listed), sink, **options
    )
    return sink.getvalue()


def test_a_parquet_file_that_understates_its_values_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200,000 equal numbers take 30 bytes; 1,600,000 in memory, of which its end says 100."""
    monkeypatch.setattr(files, "LEAST_MADE", 1_000_000)
    data = digest_with("calls", pa.array(np.zeros(200_000, np.int64)), use_dictionary=True)
    path = tmp_path / "rank0-0.digest.parquet"
    path.write_bytes(with_another_count(data, 200_000, 100))
    group = pq.read_metadata(path).row_group(0)
    assert max(group.column(i).num_values for i in range(group.num_columns)) == 100
    (read,) = read_digests(places_in([str(path)])[0])
    assert isinstance(read, LeftOut)
    assert "bytes that would take 1,60" in read.why


def test_texts_that_share_their_letters_are_refused(tmp_path: Path) -> None:
    """Fifty names of a million letters, each of which repeats the one before."""
    names = pa.array(["x" * 1_000_000 + str(i) for i in range(50)])
    encoding = {"step_names.list.element": "DELTA_BYTE_ARRAY"}
    path = tmp_path / "rank0-0.digest.parquet"
    path.write_bytes(
        digest_with("step_names", names, use_dictionary=False, column_encoding=encoding)
    )
    assert path.stat().st_size < 100_000
    (read,) = read_digests(places_in([str(path)])[0])
    assert isinstance(read, LeftOut)
    assert "damaged" in read.why


def test_operations_are_numbers_whatever_lists_they_may_hide(tmp_path: Path) -> None:
    log = pq.read_table(Path(__file__).parents[1] / "data" / "stragglers" / "ST.parquet").slice(
        0, 4
    )
    values = pa.array(np.zeros(1000, np.int64))
    listed = pa.ListArray.from_arrays(pa.array([0, 1000, 1000, 1000, 1000], pa.int32()), values)
    at = log.column_names.index("step")
    path = tmp_path / "a.parquet"
    pq.write_table(log.set_column(at, "step", listed), path)
    with pytest.raises(UnreadableInputError, match="step is list"):
        read_operations(path)


def with_a_shorter_histogram(data: bytes) -> bytes:
    """A Parquet file whose end counts one level fewer than there are, where it counts two (Arrow's
    `SizeStatistics`)."""
    length = int.from_bytes(data[-8:-4], "little")
    start = len(data) - 8 - length
    two_counts = b"\x19\x26"  # the next field: a list of two 64-bit numbers
    end = data[start:-8]
    if two_counts not in end:
        pytest.skip("this Arrow writes no histograms")
    at = end.rindex(two_counts)
    end = end[: at + 1] + b"\x16" + end[at + 3 :]
    return data[:start] + end + len(end).to_bytes(4, "little") + b"PAR1"


def test_statistics_that_do_not_fit_their_column_end_no_process(tmp_path: Path) -> None:
    """Arrow is not asked for a column's facts: there, what it throws reaches nobody."""
    digested = tmp_path / "rank0-0.digest.parquet"
    digested.write_bytes(with_a_shorter_histogram(digest_with("calls", pa.array([0, 7]))))
    (read,) = read_digests(places_in([str(digested)])[0])
    assert isinstance(read, LeftOut)
    assert read.why.startswith("a damaged digest")
    log = tmp_path / "a.parquet"
    stored = (Path(__file__).parents[1] / "data" / "stragglers" / "ST.parquet").read_bytes()
    sink = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(stored)).slice(0, 4), sink)
    log.write_bytes(with_a_shorter_histogram(sink.getvalue()))
    with pytest.raises(UnreadableInputError, match="histogram size mismatch"):
        read_operations(log)


def test_the_end_of_a_file_is_read_as_arrow_reads_it() -> None:
    """Groups of rows, lists, texts without values, moments and decimals, by each compression."""
    table = pa.table(
        {
            "text": ["a", None, "a"] * 100,
            "lists": [[1, 2], [], None] * 100,
            "moment": pa.array([0, 1, 2] * 100, pa.timestamp("us", "UTC")),
            "nothing": pa.array([None] * 300, pa.float64()),
            "struct": [{"x": 1.5, "y": [{"z": b"1"}]}] * 300,
            "yes": [True, False, None] * 100,
        }
    )
    ways: tuple[dict[str, Any], ...] = ({}, {"compression": "zstd"}, {"use_dictionary": False})
    for options in ways:
        sink = io.BytesIO()
        pq.write_table(table, sink, row_group_size=70, **options)
        told = pq.read_metadata(io.BytesIO(sink.getvalue()))
        columns = [
            told.row_group(group).column(i)
            for group in range(told.num_row_groups)
            for i in range(told.num_columns)
        ]
        values, size, data, dictionary = (
            [chunk.get(field, 0) for chunk in chunks(sink)]
            for field in (CHUNK_VALUES, CHUNK_BYTES, DATA_AT, DICTIONARY_AT)
        )
        assert values == [one.num_values for one in columns]
        assert size == [one.total_compressed_size for one in columns]
        assert data == [one.data_page_offset for one in columns]
        assert dictionary == [one.dictionary_page_offset or 0 for one in columns]
        assert len(values) == 5 * 7


def test_columns_that_share_their_pages_are_refused() -> None:
    """One chunk that many groups of rows name takes as often as long to measure."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": list(range(1000))}), sink)
    data = sink.getvalue()
    (size,) = (chunk[CHUNK_BYTES] for chunk in chunks(sink))
    longer = with_another_count(data, size, 10 * size)
    with pytest.raises(ValueError, match="share their pages"):
        chunks(io.BytesIO(longer))
