"""A digest as a few columns, and as a Parquet file: written whole or not at all, found again while
its recording stays as it is, and read many at a time. Single facts are JSON, numbers of steps and
calls lists, field by field."""

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path, PurePath
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import orjson

from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.names.collectives import KINDS
from traceanalyzer.analysis.ranks.digest import (
    Count,
    DigestedCalls,
    Family,
    Long,
    Pieces,
    ProcessGroup,
    RankDigest,
    RunClaim,
    Why,
)
from traceanalyzer.analysis.time.steps import Steps
from traceanalyzer.base import TraceAnalyzerError, UnreadableInputError, dataclass
from traceanalyzer.base.extras import how_to_install
from traceanalyzer.base.files import note_read
from traceanalyzer.fleet.parquet_pages import made_bytes
from traceanalyzer.ingest.cache.identity import program_state
from traceanalyzer.ingest.places import RecordingPlace, contents
from traceanalyzer.ingest.side_files import NOT_JSON
from traceanalyzer.trace import I64, Table
from traceanalyzer.version import __version__

SCHEMA = 5  # of the columns: digests of another one are made again
ABOUT = "about"
NAMES = "step_names"
STEPS = "steps"
CALLS = "calls"
PIECES = "pieces"
MORE = "calls_why"
NO_REASON = "its digest says that it could not be read, not why: make it again"
COLUMNS = {
    ABOUT: "text",
    NAMES: "texts",
    STEPS: "numbers",
    CALLS: "numbers",
    PIECES: "numbers",
    MORE: "numbers",
}
"""Each with what it holds. Numbers stand field by field, each of all steps or calls."""
TEXTS = [ABOUT, f"{NAMES}.list.element"]
"""Read as they are stored: each text once, however often a row names it."""
TO_COMPARE = (
    ABOUT,
    NAMES,
    STEPS,
    CALLS,
    PIECES,
)  # what comparing ranks needs; the rest says why one is late
_TIMES = ("host_start", "host_end", "start", "end")
_SPENT = ("compute", "communication", "busy")
_EXPOSED = ("exposed_communication", "exposed_copy")
STEP_FIELDS = (*_TIMES, *_SPENT, *_EXPOSED, *(f"idle_{cause.label}" for cause in IdleCause))
_LATER = ("launched", "row")
_FIRST = tuple(f.name for f in fields(DigestedCalls) if f.name not in _LATER)
_OF_PIECES = tuple(f.name for f in fields(Pieces))
MORE_FIELDS = (*_LATER, "compute_before", *(f"{cause.label}_before" for cause in IdleCause))
T = TypeVar("T", bound=Table)
_KNOWN = ("path", "gpu", "devices")
_OF_DIGEST = ("host", "epoch_ns", "device", "only_step_times", "collectives")
_OF_STEPS = ("source", "warmup", "first", "incomplete", "unlike")
SUFFIX = ".digest.parquet"
METADATA = b"traceanalyzer"  # key of what a file says of itself: schema and version of the program
LONGEST_STEM = 60
LEAST_MADE = 64 << 20
MOST_RATIO = 200
"""Bytes that a digest may become in memory: so many, or so many times its file. Real ones become
some twenty times as large; a few bytes of Parquet may stand for any number of equal numbers."""


@dataclass(frozen=True, eq=False)
class DigestedRank:
    """A rank's digest with what tells it from others."""

    path: str
    digest: RankDigest
    why: Why | None = None
    gpu: str = ""  # which GPU it used, as far as that is known
    devices: int = 0  # GPUs that its recording lists: those of its host
    notes: tuple[str, ...] = ()  # what the reader met in the recording


def holds_digests(path: str) -> bool:
    """Whether it is a digest of a rank, or a folder of them."""
    return path.endswith(SUFFIX) or any(Path(path).glob(f"*{SUFFIX}"))


@dataclass(frozen=True)
class LeftOut:
    """A file that is no part of the answer, and why."""

    path: str
    why: str
    rank: int | None = None  # as its name tells


class _About(msgspec.Struct):
    """The single facts of a rank, as a file may have them."""

    path: str
    gpu: str
    devices: Count
    failure: str
    claimed: Count | None
    notes: tuple[str, ...] = ()
    host: str | None = None
    epoch_ns: Long = 0
    device: Count | None = None
    only_step_times: bool = False
    collectives: Long = 0
    source: str = "none"
    warmup: Count = 0
    first: Long = 0
    incomplete: Long = 0
    unlike: bool = False
    claim: RunClaim = RunClaim(None, None, 0, 0)
    groups: tuple[ProcessGroup, ...] = ()
    families: tuple[Family, ...] | None = None
    clock_mhz: float | None = None


def row_of_rank(rank: DigestedRank | LeftOut) -> dict[str, Any]:
    """The value of each column."""
    if isinstance(rank, LeftOut):
        left_out = {
            "path": rank.path,
            "gpu": "",
            "devices": 0,
            "failure": rank.why,
            "claimed": rank.rank,
            "notes": [],
        }
        return {
            ABOUT: orjson.dumps(left_out).decode(),
            **{name: [] for name in (NAMES, STEPS, CALLS, PIECES, MORE)},
        }
    digest = rank.digest
    why = rank.why
    steps = digest.steps
    calls = digest.calls
    about = _of(rank, *_KNOWN) | {"failure": "", "claimed": None, "notes": rank.notes}
    about |= _of(digest, *_OF_DIGEST) | _of(steps, *_OF_STEPS)
    about |= {"claim": list(digest.claim), "groups": [list(group) for group in digest.groups]}
    numbers = [*_of(steps, *_TIMES).values(), *_of(digest, *_SPENT).values()]
    more = [*_of(calls, *_LATER).values()]
    if why is not None:
        about |= {"families": [list(family) for family in why.families], "clock_mhz": why.clock_mhz}
        numbers += [*_of(why, *_EXPOSED).values(), *why.idle]
        more += [why.compute_before, *why.idle_before]
    return {
        ABOUT: orjson.dumps(about, option=orjson.OPT_SERIALIZE_NUMPY).decode(),
        NAMES: list(steps.names),
        STEPS: _joined(numbers),
        CALLS: _joined([*_of(calls, *_FIRST).values()]),
        PIECES: _joined([*_of(digest.pieces, *_OF_PIECES).values()]),
        MORE: _joined(more),
    }


def _joined(columns: list[Any]) -> I64:
    return np.concatenate([np.asarray(column, np.int64) for column in columns])


def rank_in_row(row: dict[str, Any]) -> DigestedRank | LeftOut:
    """The rank of a row, or why its recording could not be read; the column that only says why may
    be missing."""
    about = msgspec.json.decode(row[ABOUT], type=_About)
    if about.failure:
        return LeftOut(about.path, about.failure.strip() or NO_REASON, about.claimed)
    names = tuple(row[NAMES])
    is_current = about.families is not None
    fields_of_step = STEP_FIELDS if is_current else _TIMES + _SPENT
    numbers = _split(row[STEPS], fields_of_step, len(names))
    calls = _split(row[CALLS], _FIRST)
    more = _more_of(row, len(calls["start"]), is_current)
    calls |= _columns(more, _LATER)
    pieces = _split(row[PIECES], _OF_PIECES)
    _check_places(calls, "step", len(names))
    _check_places(calls, "group", len(about.groups))
    _check_places(calls, "kind", len(KINDS))
    _check_places(pieces, "step", len(names))
    _check_places(calls, "after", len(pieces["step"]) + 1)
    steps = Steps(
        names=names,
        of_op=np.empty(0, np.int32),
        **_columns(numbers, _TIMES),
        **_of(about, *_OF_STEPS),
    )
    digest = RankDigest(
        claim=about.claim,
        steps=steps,
        calls=_table(DigestedCalls, calls),
        groups=about.groups,
        pieces=_table(Pieces, pieces),
        **_columns(numbers, _SPENT),
        **_of(about, "path", *_OF_DIGEST),
    )
    return DigestedRank(
        digest=digest, why=_why_of(about, numbers, more), notes=about.notes, **_of(about, *_KNOWN)
    )


def _split(values: I64, names: tuple[str, ...], rows: int | None = None) -> dict[str, I64]:
    """The columns that were written one after the other, of so many rows where that is known.
    Raises ValueError where they do not fit."""
    shape = (len(names), -1) if rows is None else (-1, rows)
    return dict(zip(names, values.reshape(shape), strict=True))


def _more_of(row: dict[str, Any], count: int, is_current: bool) -> dict[str, I64]:
    """The columns of calls that digests of old lack, unknown (-1) there."""
    if MORE in row and count:
        return _split(row[MORE], MORE_FIELDS if is_current else _LATER, count)
    return {name: np.full(count, -1, np.int64) for name in _LATER}


def _check_places(columns: dict[str, I64], name: str, count: int) -> None:
    """Raises ValueError where the column names other places than the first `count`."""
    places = columns[name]
    if len(places) and not 0 <= places.min() <= places.max() < count:
        raise ValueError(f"no such {name}")


def _columns(found: dict[str, I64], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: found[name] for name in names}


def _table(kind: type[T], columns: dict[str, I64]) -> T:
    dtypes = {field.name: field.metadata["dtype"] for field in fields(kind)}
    typed = [columns[name].astype(dtype, copy=False) for name, dtype in dtypes.items()]
    return kind(*typed)


def _of(record: object, *names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _why_of(
    about: _About,
    numbers: dict[str, I64],
    more: dict[str, I64],
) -> Why | None:
    if about.families is None:
        return None
    nothing = np.empty(0, np.int64)
    compute, *idle = (more.get(name, nothing) for name in MORE_FIELDS[len(_LATER) :])
    stands = np.stack([numbers[f"idle_{one.label}"] for one in IdleCause])
    return Why(
        **_columns(numbers, _EXPOSED),
        idle=stands,
        compute_before=compute,
        idle_before=np.stack(idle),
        families=about.families,
        clock_mhz=about.clock_mhz,
    )


class Made(NamedTuple):
    """What became of a recording."""

    url: str
    digests: tuple[str, ...]  # names of its digests, one a rank
    failure: str = ""
    found: bool = False  # whether they were there already
    in_place: bool = False  # whether this process made them, in place of a cluster


def arrow() -> Any:
    """The module. Raises TraceAnalyzerError where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise TraceAnalyzerError(
            f"fleet and digests need pyarrow: {how_to_install('parquet')}"
        ) from error
    _hand_back_before_forks()
    return pyarrow


@cache
def _hand_back_before_forks() -> None:
    """From now on, Arrow hands what it no longer needs back to the system before this process
    forks: its pool keeps it for seconds, and each child would count, and copy, what it never
    uses."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_hand_back)


def _hand_back() -> None:
    import pyarrow

    pyarrow.default_memory_pool().release_unused()


def digest_name(url: str, stamp: str) -> str:
    """The name of the digest of a recording: of its address, and of what changes when it does."""
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", PurePath(url).name)[:LONGEST_STEM]
    return f"{stem}-{_short(url)}-{_short(f'{stamp} {SCHEMA} {__version__}')}"


def digest_names(stem: str, ranks: Sequence[DigestedRank | LeftOut]) -> tuple[str, ...]:
    """The names of the digests of a recording, one a rank. A refusal has the name of the program as
    it is: one that was mended may read the recording."""
    if len(ranks) == 1 and isinstance(ranks[0], LeftOut):
        return (refusal_name(stem),)
    return tuple(f"{stem}-{i}{SUFFIX}" for i in range(len(ranks)))


def refusal_name(stem: str) -> str:
    """The name of the digest that says why a recording cannot be read."""
    return f"{stem}-{_short(program_state('.'))}{SUFFIX}"


def _short(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()


def encoded(rank: DigestedRank | LeftOut) -> bytes:
    """The file of a digest."""
    pa = arrow()
    row = row_of_rank(rank)
    columns = {name: _column(pa, kind, row[name]) for name, kind in COLUMNS.items()}
    table = pa.table(columns).replace_schema_metadata(
        {METADATA: orjson.dumps({"schema": SCHEMA, "version": __version__})}
    )
    numbers = [f"{name}.list.element" for name, kind in COLUMNS.items() if kind == "numbers"]
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(
        table,
        sink,
        compression="zstd",
        use_dictionary=False,
        write_statistics=False,
        column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
    )
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _column(pa: Any, kind: str, value: Any) -> Any:
    if kind == "text":
        return pa.array([value], pa.string())
    inside = (
        pa.array(value, pa.string())
        if kind == "texts"
        else pa.array(np.asarray(value, np.int64), pa.int64())
    )
    return pa.ListArray.from_arrays(pa.array([0, len(inside)], pa.int32()), inside)


def read_digests(
    places: Sequence[RecordingPlace], *, why: bool = False
) -> Iterator[DigestedRank | LeftOut]:
    """The ranks of digests in order, or why a file is none; `why`: with all that says why one is
    late. Raises TraceAnalyzerError."""
    pa = arrow()
    columns = [*COLUMNS] if why else [*TO_COMPARE]
    for place, data in contents(places):
        found = data if isinstance(data, str) else _read(pa, place, data, columns)
        yield LeftOut(place.url, found) if isinstance(found, str) else found


def _read(
    pa: Any, place: RecordingPlace, data: bytes | None, columns: Sequence[str]
) -> DigestedRank | LeftOut | str:
    if data is not None:
        return _read_parquet(pa, pa.BufferReader(data), len(data), columns)
    try:
        # Opened here: Arrow takes names in UTF-8 alone.
        with note_read(place.path).open("rb") as file:
            return _read_parquet(pa, file, Path(place.path).stat().st_size, columns)
    except OSError as why:
        return f"a damaged digest ({type(why).__name__}): make it again from the recording"


def _read_parquet(
    pa: Any, source: Any, size: int, columns: Sequence[str]
) -> DigestedRank | LeftOut | str:
    try:
        file = pa.parquet.ParquetFile(source)
        about = (file.metadata.metadata or {}).get(METADATA)
        if about is None:
            return "no digest; name recordings, or digests made by `traceanalyzer export --digests`"
        schema = orjson.loads(about)["schema"]
        if schema != SCHEMA:
            return (
                f"a digest of another version (schema {schema}, here {SCHEMA}): make it "
                "again from the recording"
            )
        if file.metadata.num_rows != 1:
            return f"a digest of {file.metadata.num_rows:,} rows, which has one: make it again"
        full_size = made_bytes(source)
        if full_size > max(LEAST_MADE, MOST_RATIO * size):
            return f"a digest of {size:,} bytes that would take {full_size:,}: make it again"
        file = pa.parquet.ParquetFile(source, metadata=file.metadata, read_dictionary=TEXTS)
        table = file.read(columns=columns, use_threads=False)
        return rank_in_row(
            {name: _value(table.column(name).chunk(0), COLUMNS[name]) for name in columns}
        )
    except (
        pa.ArrowException,
        OSError,
        UnreadableInputError,
        LookupError,
        TypeError,
        AttributeError,
        *NOT_JSON,
    ) as why:
        return f"a damaged digest ({type(why).__name__}): make it again from the recording"


def _value(column: Any, kind: str) -> Any:
    if kind == "text":
        return column[0].as_py()
    values = column.values  # of its one row; `flatten` loads all that can be computed
    if kind == "texts":
        return _texts_of(values)
    if str(values.type) != "int64":
        raise ValueError(f"numbers are {values.type}")
    return _numbers_of(values)


def _texts_of(values: Any) -> list[str]:
    """The texts of a column that keeps one that is named many times once, as this list does."""
    if str(values.type.value_type) != "string":
        raise ValueError(f"texts are {values.type}")
    known = values.dictionary.to_pylist()
    return [known[code] for code in _numbers_of(values.indices.cast("int64")).tolist()]


def _numbers_of(values: Any) -> I64:
    data = values.buffers()[1]  # `to_numpy` loads pandas
    if not len(values):
        return np.empty(0, np.int64)
    return np.frombuffer(data, np.int64, len(values), 8 * values.offset)
