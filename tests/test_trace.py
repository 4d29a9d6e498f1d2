"""What every table of the model does: filling, checking, sorting, taking, decoding."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from traceanalyzer import trace
from traceanalyzer.trace import ApiCalls, Collectives, CopyKind, DeviceOps, Table, Trace

TABLES = [
    t
    for t in vars(trace).values()
    if isinstance(t, type) and issubclass(t, Table) and t is not Table
]


def test_every_column_gets_its_dtype_and_fill():
    ops = DeviceOps.from_columns({"start": [1, 2], "end": [3, 4]})
    assert len(ops) == 2
    assert ops.start.dtype == np.int64
    assert ops.name.dtype == np.int16  # in as few bytes as its values need
    assert ops.kind.dtype == np.uint8
    assert ops.stream.tolist() == [-1, -1]
    assert ops.kind.tolist() == [0, 0]
    assert ops.copy_kind.tolist() == [CopyKind.UNKNOWN] * 2


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.__name__)
def test_an_empty_table_has_every_column(table):
    empty = table.empty()
    assert len(empty) == 0
    for f in fields(empty):
        assert getattr(empty, f.name).shape == (0,)
        assert getattr(empty, f.name).dtype == (
            np.int16 if f.metadata["narrow"] else f.metadata["dtype"]
        )
    assert empty.to_frame([]).columns.tolist() == [f.name for f in fields(empty)]


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.__name__)
def test_unknown_is_minus_one_or_an_unknown_enumeration_value(table):
    for f in fields(table.empty()):
        fill = f.metadata["fill"]
        filled = np.array(fill).astype(f.metadata["dtype"])
        assert np.array_equal(filled, fill, equal_nan=True), f"{f.name}: {fill} does not fit"


def test_rows_are_sorted_by_start_with_all_their_columns():
    ops = DeviceOps.from_columns({"start": [30, 10, 20], "end": [31, 11, 21], "stream": [3, 1, 2]})
    assert ops.start.tolist() == [10, 20, 30]
    assert ops.end.tolist() == [11, 21, 31]
    assert ops.stream.tolist() == [1, 2, 3]


def test_rows_that_start_together_keep_their_order():
    calls = ApiCalls.from_columns({"start": [5, 5, 1, 5], "end": [6, 7, 2, 8]})
    assert calls.end.tolist() == [2, 6, 7, 8]


@pytest.mark.parametrize(
    ("most", "dtype"),
    [(2**15 - 1, np.int16), (2**15, np.int32), (2**31 - 1, np.int32), (2**31, np.int64)],
)
def test_sizes_take_as_few_bytes_as_the_largest_needs(most, dtype):
    ops = DeviceOps.from_columns({"start": [1, 2], "end": [3, 4], "bytes": [-1, most]})
    assert ops.bytes.dtype == dtype
    assert ops.bytes.tolist() == [-1, most]


def test_tables_without_times_keep_their_order():
    groups = Collectives.from_columns({"group_size": [8, 2, 4]})
    assert groups.group_size.tolist() == [8, 2, 4]


def test_a_table_of_fills_only():
    assert ApiCalls.from_columns({}, rows=3).error.tolist() == [0, 0, 0]
    assert len(ApiCalls.from_columns({})) == 0


def test_an_unknown_column_is_named():
    with pytest.raises(ValueError, match="ApiCalls has no column device, lane"):
        ApiCalls.from_columns({"lane": [1], "start": [1], "device": [0]})


@pytest.mark.parametrize("end", [[], [1], [1, 2, 3], [[1, 2]]])
def test_columns_of_different_length_are_refused(end):
    with pytest.raises(ValueError, match=r"ApiCalls\.end"):
        ApiCalls.from_columns({"start": [1, 2], "end": end})


def test_the_stated_number_of_rows_counts():
    with pytest.raises(ValueError, match=r"ApiCalls\.start: \(2,\) instead of \(3,\)"):
        ApiCalls.from_columns({"start": [1, 2]}, rows=3)


@pytest.mark.parametrize(
    "rows",
    [np.array([2, 0]), np.array([True, False, True]), slice(None, None, 2)],
    ids=["index", "mask", "slice"],
)
def test_take_applies_to_every_column(rows):
    ops = DeviceOps.from_columns({"start": [1, 2, 3], "end": [4, 5, 6], "device": [7, 8, 9]})
    taken = ops.take(rows)
    assert isinstance(taken, DeviceOps)
    for f in fields(ops):
        assert getattr(taken, f.name).tolist() == getattr(ops, f.name)[rows].tolist()


def test_frames_have_decoded_text_and_integer_times():
    late = 1_790_857_026_000_000_001
    ops = DeviceOps.from_columns({"start": [late, 1], "end": [late + 1, 2], "name": [1, -1]})
    frame = ops.to_frame(["copy", "gemm"])
    assert frame.name.isna().tolist() == [True, False]
    assert frame.name[1] == "gemm"
    assert frame.start.tolist() == [1, late]
    assert frame.start.dtype == np.int64


def test_text_of_a_code():
    recording = Trace("x.json", "kineto", ["gemm"])
    assert recording.text(0) == "gemm"
    assert recording.text(-1) is None
    assert recording.rank is None
    assert len(recording.device_ops) == 0
