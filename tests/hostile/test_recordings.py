# ruff: noqa: PT017 rows of recordings; either outcome is right, but an error has one line
"""Recordings that cost too much or end in a traceback if they are believed."""

from __future__ import annotations

import gzip
import json
import signal
import sqlite3
import zlib

import pytest

from benchmarks.growth_families import FAMILIES
from tests.kineto_builder import KinetoTrace
from tests.nsys_builder import small_run
from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.base.limits import raised
from traceanalyzer.base.sqlite_guard import allow_reads_of, distrust
from traceanalyzer.ingest import load
from traceanalyzer.report.build import build_report

PATIENCE_S = 300
"""A guard against cases that do not end: those that were mended took minutes of a quiet machine,
and grew."""


def analysed(path, data, name="trace.json"):
    """The run and report of the data in a file."""
    file = path / name
    file.write_bytes(data)
    signal.signal(signal.SIGVTALRM, never)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE_S)
    try:
        run = load([file])
        return run, build_report(run)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def never(*_):
    raise AssertionError("does not end")


def small(**metadata):
    trace = KinetoTrace()
    trace.metadata |= metadata
    for i in range(4):
        trace.step(i, 1000 * i, 1000)
        trace.launched("gemm", 1000 * i + 10, 1000 * i + 30, 500)
    return trace


def test_a_world_of_a_hundred_million_ranks(tmp_path):
    run, report = analysed(
        tmp_path, small(distributedInfo={"rank": 0, "world_size": 100_000_000}).json()
    )
    assert run.traces[0].process.world_size is None
    assert report.metrics.step_time_ms is not None


def test_a_world_of_a_million_ranks_lists_only_the_first_that_are_missing(tmp_path):
    _, report = analysed(
        tmp_path, small(distributedInfo={"rank": 0, "world_size": 1_000_000}).json()
    )
    assert max(map(len, report.notes)) < 1000


@pytest.mark.parametrize(
    "text", ["1e999990", "9e999999", "-9e999999", "1e-999999", "9" * 5000, "0." + "1" * 5000]
)
def test_times_with_exponents_and_thousands_of_digits_are_lost_not_worked_out(tmp_path, text):
    data = small().json().replace(b'"ts": 1010', b'"ts": ' + text.encode())
    run, _ = analysed(tmp_path, data)
    assert run.traces[0].health.lost == (0 if text in ("1e-999999", "0." + "1" * 5000) else 1)


def test_a_million_blanks_before_the_first_event(tmp_path):
    data = small().json().replace(b"[{", b"[" + b" " * 1_000_000 + b"{", 1)
    run, _ = analysed(tmp_path, data)
    assert len(run.traces[0].device_ops) == 4


@pytest.mark.parametrize("digits", [1_000, 4_000, 1_000_000])
def test_a_log_line_of_a_thousand_digits(tmp_path, digits):
    line = b"time (ms) | forward_microstep: 193.65 | backward_microstep: " + b"1" * digits
    with pytest.raises(UnreadableInputError):
        analysed(tmp_path, line, "train.log")


def test_a_rank_of_thousands_of_digits_in_a_log(tmp_path):
    lines = [json.dumps({"step": i, "iter_ms": 10.0, "rank": int("9" * 400)}) for i in range(9)]
    lines += [f"[rank{'9' * 3000}] iter {i}: loss 1.0, time 10.00ms" for i in range(9)]
    run, _ = analysed(tmp_path, "\n".join(lines).encode(), "train.log")
    assert {trace.rank for trace in run.traces} == {None}


@pytest.mark.parametrize(
    "name",
    ["nested_steps", "overlapping_steps", "deep_ops", "deep_annotations", "all_at_one_instant"],
)
def test_shapes_that_took_the_square_of_their_size(tmp_path, name):
    analysed(tmp_path, FAMILIES[name](2000))


@pytest.mark.parametrize(
    "name", ["unclosed_strings", "escaped_quotes", "commas", "nested_brackets"]
)
def test_damage_that_took_the_square_of_its_size(tmp_path, name):
    with pytest.raises(UnreadableInputError):
        analysed(tmp_path, FAMILIES[name](100_000))


@pytest.mark.parametrize("at", range(40, 400, 17))
def test_one_changed_byte_in_a_gzip(tmp_path, at):
    """Whatever the decompressor says to it, what came before is read or the file is refused in one
    line."""
    packed = bytearray(gzip.compress(small().json(), mtime=0))
    packed[at % len(packed)] ^= 0xFF
    try:
        analysed(tmp_path, bytes(packed), "trace.json.gz")
    except UnreadableInputError as error:
        assert "\n" not in str(error)


def test_a_distance_that_deflate_does_not_have(tmp_path):
    """Invalid lookback distance: an error of ISA-L's own, which is neither OSError nor
    zlib.error."""
    raw = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = raw.compress(small().json() * 40) + raw.flush()
    damaged = 0
    for at in range(len(body) // 3, len(body), max(len(body) // 60, 1)):
        changed = bytearray(body)
        changed[at] ^= 0xFF
        try:
            run, _ = analysed(
                tmp_path,
                b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + bytes(changed) + bytes(8),
                "trace.json.gz",
            )
            damaged += run.traces[0].health.truncated
        except UnreadableInputError:
            damaged += 1
    assert damaged


def test_a_file_that_goes_on_for_ever_is_refused_and_an_option_accepts_it(tmp_path):
    file = tmp_path / "trace.json.gz"
    file.write_bytes(gzip.compress(small().json() + b" " * 3_000_000))
    with raised(size=1_000_000, ratio=1), pytest.raises(UnreadableInputError, match="--limit size"):
        load([file])
    assert load([file]).traces


def test_an_export_that_goes_on_for_ever_is_refused(tmp_path):
    small_run("3.24.0").write(tmp_path / "a.sqlite")
    file = tmp_path / "a.sqlite.gz"
    file.write_bytes(gzip.compress((tmp_path / "a.sqlite").read_bytes() + bytes(3_000_000)))
    with raised(size=100_000, ratio=1), pytest.raises(UnreadableInputError, match="--limit size"):
        load([file])


@pytest.mark.parametrize(
    "spoilt",
    [
        {"Group size": 2147483648},
        {"In msg nelems": 4611686018427387904, "Out msg nelems": 4611686018427387904},
        {"In msg nelems": 10**400},
        {"bytes": 2**63 - 1},
        {"stream": 2**31, "device": 2**31 - 1},
        {"grid": [2**40, 2**40, 2**40], "block": [10**400, 1, 1]},
        {"External id": 2**63, "graph id": -(2**63) - 1},
    ],
)
def test_integers_beyond_the_columns_are_not_recorded(tmp_path, spoilt):
    trace = small(distributedInfo={"rank": 0, "world_size": 2})
    for i in range(4):
        named = {
            "Collective name": "allreduce",
            "In msg nelems": 64,
            "Out msg nelems": 64,
            "Group size": 2,
            "dtype": "Float",
        }
        trace.launched(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)",
            1000 * i + 40,
            1000 * i + 600,
            100,
            **(named | spoilt),
        )
    analysed(tmp_path, trace.json())


def test_shapes_larger_than_any_memory_are_not_recorded(tmp_path):
    trace = small()
    for i in range(4):
        for j in range(9):
            at = 1000 * i + 50 * j + 40
            shapes = [[1099511627776, 1099511627776], [2**62, 2**62]]
            trace.op(
                "aten::add",
                at,
                20,
                External_id=10 * i + j,
                Input_Dims=shapes,
                Input_type=["float", "float"],
            )
            trace.launched(
                "vectorized_elementwise_kernel", at + 2, at + 500, 30, external_id=10 * i + j
            )
    analysed(tmp_path, trace.json())


def test_a_process_name_that_is_not_utf_8(tmp_path):
    trace = small()
    trace.name_process("NAME")
    trace.rows[1]["args"] |= {"Collective name": "x", "Process Group Name": "NAME"}
    analysed(tmp_path, trace.json().replace(b"NAME", b"\xed\xa0\x80"))


def test_a_step_that_takes_no_time(tmp_path):
    trace = KinetoTrace()
    for i in range(4):
        trace.step(i, 100, 0)
        trace.api("cudaLaunchKernel", 100, 0, i + 1)
        trace.kernel("gemm", 100, 0, correlation=i + 1)
    analysed(tmp_path, trace.json())


def test_digits_in_damaged_metadata(tmp_path):
    data = (
        small()
        .json()
        .replace(
            b'{"schemaVersion": 1',
            b'{"baseTimeNanoseconds": ' + b"9" * 5000 + b', "x": "a"b", "schemaVersion": 1',
        )
    )
    analysed(tmp_path, data)


def hostile_export(tmp_path, *statements):
    path = small_run("3.24.0").write(tmp_path / "a.sqlite")
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA writable_schema = ON")
    for statement in statements:
        db.execute(statement)
    db.close()
    return path.read_bytes()


FOREVER = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r)"


def test_a_view_that_is_called_a_table_is_not_read(tmp_path):
    data = hostile_export(
        tmp_path,
        f"CREATE VIEW OSRT_API AS {FOREVER} SELECT x AS start, x AS end, x AS globalTid, x AS nameId FROM r",
        "UPDATE sqlite_master SET type = 'table' WHERE name = 'OSRT_API'",
    )
    run, _ = analysed(tmp_path, data, "b.sqlite")
    assert len(run.traces[0].device_ops) == 4


def test_a_generated_column_is_not_worked_out(tmp_path):
    data = hostile_export(
        tmp_path,
        "ALTER TABLE NVTX_EVENTS DROP COLUMN jsonText",
        "ALTER TABLE NVTX_EVENTS ADD COLUMN jsonText TEXT AS (printf('%.*c', 300000000, 'x'))",
        "CREATE TABLE CUDNN_EVENTS (start AS (length(hex(zeroblob(100000000)))), end, globalTid, nameId)",
        "INSERT INTO CUDNN_EVENTS (end) VALUES (1)",
    )
    analysed(tmp_path, data, "b.sqlite")


def test_a_statement_that_goes_on_and_on_is_ended():
    """Three tables of 2,000 rows beside one another."""
    db = sqlite3.connect(":memory:")
    db.executescript("CREATE TABLE a (n); CREATE TABLE b (n)")
    db.executemany("INSERT INTO a VALUES (?)", ((n,) for n in range(2000)))
    distrust(db, 1)
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        db.execute("SELECT count(*) FROM a x, a y, a z").fetchall()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM seen",
        "SELECT * FROM pragma_database_list",
        "SELECT hex(n) FROM a",
        "DELETE FROM a",
        "ATTACH 'other.db' AS other",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r",
    ],
)
def test_a_statement_may_read_tables_and_nothing_else(statement):
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.executescript(
        "CREATE TABLE a (n); INSERT INTO a VALUES (1); CREATE VIEW seen AS SELECT n FROM a"
    )
    distrust(db, 1)
    allow_reads_of(db, {"a"})
    assert db.execute("SELECT max(n) FROM a").fetchall() == [(1,)]
    with pytest.raises(sqlite3.DatabaseError, match=r"authoriz|prohibited|not authorized"):
        db.execute(statement).fetchall()


def test_a_table_whose_name_is_no_text(tmp_path):
    data = hostile_export(
        tmp_path, "UPDATE sqlite_master SET name = x'ff00' WHERE name = 'PROCESSES'"
    )
    analysed(tmp_path, data, "b.sqlite")


def test_times_of_an_export_near_the_end_of_int64(tmp_path):
    statements = [
        f'UPDATE "{table}" SET start = {start}, end = {end} WHERE rowid = 1'
        for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS")
        for start, end in [(2**63 - 2, 2**63 - 1)]
    ]
    run, _ = analysed(tmp_path, hostile_export(tmp_path, *statements), "b.sqlite")
    assert run.traces[0].health.lost >= 3


@pytest.mark.parametrize("text", ["a" * 80_000, "a/" * 40_000, "a::" * 30_000, "/=" * 40_000])
def test_a_long_name_in_an_export(tmp_path, text):
    export = small_run("3.24.0")
    export.add(
        "PROFILER_OVERHEAD",
        start=10,
        end=20,
        globalTid=(1 << 48) | (1000 << 24) | 1000,
        nameId=export.text(text),
    )
    export.nvtx(90, 95, text).nvtx(96, 97, text + ", seq = " + "9" * 5000)
    export.add("DIAGNOSTIC_EVENT", severity=3, text=text)
    export.write(tmp_path / "c.sqlite")
    analysed(tmp_path, (tmp_path / "c.sqlite").read_bytes(), "b.sqlite")


def test_a_log_that_goes_on_for_ever_is_refused(tmp_path):
    file = tmp_path / "train.log.gz"
    file.write_bytes(gzip.compress(b'{"step": 1, "iter_ms": 10}\n' * 50_000))
    with raised(log=1_000_000, ratio=1), pytest.raises(UnreadableInputError, match="--limit log"):
        load([file])
    assert load([file]).traces


MANY = "9" * 5000


@pytest.mark.parametrize(
    "name",
    [
        f"execute_context_{MANY}(0)_generation_{MANY}(sq{MANY})",
        f"step[DECODE bs={MANY}]",
        f"[Executor] _forward_step 1: {MANY} ctx reqs, {MANY} gen reqs",
        f"capture_{MANY}_decode",
        f"ProfilerStep#{MANY}",
        f"Torch-Compiled Region: 0/{MANY}",
        f"torch_dynamo_resume_in_f_at_{MANY}",
        f"nvjet_{MANY}x{MANY}_64x4",
        f"CatArrayBatchedCopy<OpaqueType<{MANY}u>>",
    ],
    ids=lambda name: name[:12],
)
def test_names_with_thousands_of_digits(tmp_path, name):
    trace = small()
    for i in range(4):
        trace.annotation(name, 1000 * i + 1, 900)
        trace.op(name, 1000 * i + 2, 800, Input_Dims=[[8, 16], []], Concrete_Inputs=["", MANY])
        for op in ("aten::sort", "aten::select", "aten::split", "aten::sum", "aten::lstm"):
            values = ["", MANY, MANY, "--5", "\u00b2", MANY]
            trace.op(op, 1000 * i + 3, 5, Input_Dims=[[8, 16], *[[]] * 5], Concrete_Inputs=values)
        trace.launched(name, 1000 * i + 20, 1000 * i + 600, 50)
    _, report = analysed(tmp_path, trace.json())
    assert report.metrics.step_time_ms is not None
