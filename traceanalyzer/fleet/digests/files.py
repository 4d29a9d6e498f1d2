"""Digests as Parquet files: written whole or not at all, found again while their recording stays as it is, and read
many at a time."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
import orjson

from traceanalyzer.base import TraceAnalyzerError, UnreadableInputError
from traceanalyzer.base.files import note_read
from traceanalyzer.fleet.digests.columns import COLUMNS, SCHEMA, TO_COMPARE, LeftOut, Rank, rank_of, row_of
from traceanalyzer.ingest.places import Place, contents
from traceanalyzer.ingest.side_files import NOT_JSON
from traceanalyzer.version import __version__

SUFFIX = ".digest.parquet"
METADATA = b"traceanalyzer"  # key of what a file says of itself: schema and version of the program
LONGEST_STEM = 60


class Made(NamedTuple):
    """What became of a recording."""

    url: str
    digests: tuple[str, ...]  # names of its digests, one a rank
    failure: str = ""
    found: bool = False  # whether they were there already


def arrow() -> Any:
    """The module. Raises TraceAnalyzerError where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise TraceAnalyzerError("digests need pyarrow: pip install 'traceanalyzer[fleet]'") from error
    return pyarrow


def name_of(url: str, stamp: str) -> str:
    """The name of the digest of a recording: of its address, and of what changes when it does."""
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", PurePath(url).name)[:LONGEST_STEM]
    return f"{stem}-{_short(url)}-{_short(f'{stamp} {SCHEMA} {__version__}')}"


def _short(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()


def encoded(one: Rank | LeftOut) -> bytes:
    """The file of a digest."""
    pa = arrow()
    row = row_of(one)
    table = pa.table({name: _column(pa, kind, row[name]) for name, kind in COLUMNS.items()})
    table = table.replace_schema_metadata({METADATA: orjson.dumps({"schema": SCHEMA, "version": __version__})})
    numbers = [f"{name}.list.element" for name, kind in COLUMNS.items() if kind == "numbers"]
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(
        table, sink, compression="zstd", use_dictionary=False, write_statistics=False,
        column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
    )  # fmt: skip
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _column(pa: Any, kind: str, value: Any) -> Any:
    if kind == "text":
        return pa.array([value], pa.string())
    inside = pa.array(value, pa.string()) if kind == "texts" else pa.array(np.asarray(value, np.int64), pa.int64())
    return pa.ListArray.from_arrays(pa.array([0, len(inside)], pa.int32()), inside)


def read_digests(places: Sequence[Place], *, why: bool = False) -> Iterator[Rank | LeftOut]:
    """The ranks of digests, in their order, and why a file is none, or of another version. `why`: with
    all that says why a rank is late. Raises TraceAnalyzerError."""
    pa = arrow()
    columns = [*COLUMNS] if why else [*TO_COMPARE]
    for place, data in contents(places):
        found = data if isinstance(data, str) else _read(pa, place, data, columns)
        yield LeftOut(place.url, found) if isinstance(found, str) else found


def _read(pa: Any, place: Place, data: bytes | None, columns: Sequence[str]) -> Rank | LeftOut | str:
    try:
        source = str(note_read(place.path)) if data is None else pa.BufferReader(data)
        file = pa.parquet.ParquetFile(source)
        if (about := (file.metadata.metadata or {}).get(METADATA)) is None:
            return "no digest; name recordings, or digests made by `traceanalyzer digest`"
        schema = orjson.loads(about)["schema"]
        if schema != SCHEMA:
            return f"a digest of another version (schema {schema}, here {SCHEMA}): make it again from the recording"
        table = file.read(columns=columns, use_threads=False)
        return rank_of({name: _value(table.column(name).chunk(0), COLUMNS[name]) for name in columns})
    except (pa.ArrowException, OSError, UnreadableInputError, LookupError, TypeError, AttributeError, *NOT_JSON) as why:
        return f"a damaged digest ({type(why).__name__}): make it again from the recording"


def _value(column: Any, kind: str) -> Any:
    if kind == "text":
        return column[0].as_py()
    values = column.values  # of its one row; `flatten` loads all that can be computed
    if kind == "texts":
        if str(values.type) != "string":
            raise ValueError(f"texts are {values.type}")
        return values.to_pylist()
    if str(values.type) != "int64":
        raise ValueError(f"numbers are {values.type}")
    data = values.buffers()[1]  # `to_numpy` loads pandas
    return np.frombuffer(data, np.int64, len(values), 8 * values.offset) if len(values) else np.empty(0, np.int64)
