# ruff: noqa: E501 long lists of odd values; statements on a file made for the purpose
"""Mutations: of bytes, of JSON values by their structure, of lines, of rows and schemas of SQLite
files."""

from __future__ import annotations

import copy
import gzip
import io
import json
import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

ODD_NUMBERS = (
    0,
    -1,
    1,
    -0.0,
    0.5,
    1e-300,
    1e300,
    1.7e308,
    2**31 - 1,
    2**31,
    -(2**31),
    2**32,
    2**53,
    2**62,
    2**63 - 1,
    2**63,
    -(2**63),
    2**64,
    10**19,
    10**40,
    10**400,
    -(10**400),
    1e15,
    4.6e15,
    1712345678901234.567,
    255,
    256,
    65535,
    100_000_000,
    1e-9,
)
ODD_TEXTS = (
    "",
    " ",
    "\0",
    "\ud800",
    "\u202e",
    "=1+1",
    "NaN",
    "-inf",
    "1e999990",
    "9" * 400,
    "9" * 5000,
    "a" * 5000,
    "::" * 500,
    "/" * 500,
    "{" * 300,
    "\\" * 99,
    '"',
    "ProfilerStep#99999999999999999999",
    "ProfilerStep#-1",
    "nccl:all_reduce",
    "Memcpy HtoD (x -> y)",
    "aten::mm",
    "cudaLaunchKernel",
    "cudaStreamSynchronize",
    "cudaGraphLaunch",
    "step_1",
    "[[1099511627776, 1099511627776]]",
    "optimizer.step()#Adam",
    "a: 1, b: 2",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)",
    "%s%n",
    "\u00e9\u4e2d",
    "DataLoader.__next__",
)
ODD_BYTES = (
    b"\xff",
    b"\xed\xa0\x80",
    b"\0",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"\\",
    b",",
    b":",
    b"NaN",
    b"1e999",
    b"-",
    b"\xef\xbb\xbf",
    b"\r\n",
    b" " * 4096,
    b"9" * 5000,
    b"[" * 2000,
    b'{"a":' * 500,
    b'": "' * 300,
    b"},{",
    b"null",
    b"true",
    b"\x1f\x8b",
    b"e9999999",
)


LONG = 100_000
"""Letters of a text that is named often."""


def odd(random: Random) -> Any:
    """A value that is seldom expected."""
    return random.choice(
        (
            lambda: random.choice(ODD_NUMBERS),
            lambda: random.choice(ODD_NUMBERS),
            lambda: random.choice(ODD_TEXTS),
            lambda: None,
            lambda: random.choice((True, False)),
            lambda: [random.choice(ODD_NUMBERS)] * random.choice((0, 1, 3, 100)),
            lambda: {random.choice(ODD_TEXTS): random.choice(ODD_NUMBERS)},
            lambda: random.randrange(-(10 ** random.randrange(20)), 10 ** random.randrange(20) + 1),
        )
    )()


def json_values(value: Any, random: Random, changes: int = 3) -> Any:
    """A copy with a few places changed: values replaced, keys dropped or renamed, items repeated,
    dropped, swapped. What stays as it is, both share."""
    made = copy.copy(value)
    for _ in range(random.randrange(1, changes + 1)):
        holder = _some_holder(made, random)
        if isinstance(holder, dict) and holder:
            _change_dict(holder, random)
        elif isinstance(holder, list) and holder:
            _change_list(holder, random)
    return made


def _some_holder(value: Any, random: Random) -> Any:
    """A list or an object, the value itself or in it; those on the way to it become copies."""
    here = value
    while True:
        within = here.items() if isinstance(here, dict) else enumerate(here)
        inner = [place for place, v in within if isinstance(v, dict | list)]
        if not inner or random.random() < 0.15:
            return here
        place = random.choice(inner)
        here[place] = copy.copy(here[place])
        here = here[place]


def _change_dict(holder: dict[str, Any], random: Random) -> None:
    key = random.choice(list(holder))
    what = random.random()
    if what < 0.65:
        old = holder[key]
        near = (
            isinstance(old, int | float)
            and not isinstance(old, bool)
            and abs(old) < 1e300
            and random.random() < 0.4
        )
        holder[key] = old + random.choice((-1, 1, 1000, -1000, 1e6)) if near else odd(random)
    elif what < 0.8:
        del holder[key]
    elif what < 0.9:
        holder[random.choice(ODD_TEXTS)] = holder.pop(key)
    else:
        holder[key] = holder[random.choice(list(holder))]


def _change_list(holder: list[Any], random: Random) -> None:
    i = random.randrange(len(holder))
    j = random.randrange(len(holder))
    what = random.random()
    if what < 0.25:
        holder[i] = odd(random)
    elif what < 0.45:
        del holder[min(i, j) : max(i, j) + 1]
    elif what < 0.6:
        holder[i], holder[j] = holder[j], holder[i]
    elif what < 0.8:
        holder.insert(i, holder[j])
    else:
        holder[:] = [copy.copy(row) for row in holder]
        column_of(holder, random)


def column_of(rows: list[Any], random: Random) -> None:
    """The same odd value, or no value, under one key of many rows."""
    keys = sorted({key for row in rows if isinstance(row, dict) for key in row})
    if not keys:
        return
    key = random.choice(keys)
    value = odd(random)
    share = random.choice((0.1, 0.5, 1.0))
    for row in rows:
        if isinstance(row, dict) and key in row and random.random() < share:
            row[key] = value


def as_json(value: Any) -> bytes:
    """JSON text as Python writes it: with lone surrogates, NaN and numbers of any length."""
    return json.dumps(value).encode("utf-8", "surrogatepass")


def in_bytes(data: bytes, random: Random) -> bytes:
    """A few bytes flipped, dropped, repeated, inserted; or the end cut off."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5))):
        if not changed:
            break
        at = random.randrange(len(changed))
        what = random.random()
        if what < 0.3:
            changed[at] ^= random.choice((0xFF, 1, 0x80, random.randrange(1, 256)))
        elif what < 0.6:
            changed[at:at] = random.choice(ODD_BYTES)
        elif what < 0.75:
            del changed[at : at + random.choice((1, 10, 1000))]
        elif what < 0.9:
            changed[at:at] = changed[at : at + random.choice((1, 10, 300))] * random.choice((1, 3))
        else:
            del changed[at:]
    return bytes(changed)


def in_message(data: bytes, random: Random) -> bytes:
    """A protobuf message with one to three fields, at any depth, changed, dropped, repeated or
    swapped; or its bytes."""
    if random.random() < 0.25:
        return in_bytes(data, random)
    if random.random() < 0.05:
        return _often_named(data, random)
    for _ in range(random.randrange(1, 4)):
        data = _change_message(data, random)
    return data


def _often_named(data: bytes, random: Random) -> bytes:
    """A message one of whose texts is long, and some of whose parts, which may name it by its
    number, stand hundreds of times."""
    for _ in range(20):
        longer = _with_a_long_text(data, random)
        if len(longer) > len(data) + LONG // 2:
            break
    fields = _fields(longer)
    for _ in range(3):
        i = random.randrange(len(fields)) if fields else 0
        few = [one for one in fields[i : i + 1] if len(one[1]) < 500]
        fields[i:i] = few * random.choice((10, 300))
    return _message(fields)


def _with_a_long_text(data: bytes, random: Random) -> bytes:
    fields = _fields(data)
    texts = [i for i, (_, body, kind) in enumerate(fields) if kind == 2 and body]
    if not texts:
        return data
    i = random.choice(texts)
    head, body, kind = fields[i]
    within = _fields(body) and _with_a_long_text(body, random)
    fields[i] = (head, within or body + b"x" * LONG, kind)
    return _message(fields)


def _message(fields: list[tuple[bytes, bytes, int]]) -> bytes:
    return b"".join(
        head + (_varint(len(body)) if kind == 2 else b"") + body for head, body, kind in fields
    )


def _change_message(data: bytes, random: Random) -> bytes:
    fields = _fields(data)
    if not fields:
        return in_bytes(data, random) if data else data
    i = random.randrange(len(fields))
    head, body, kind = fields[i]
    what = random.random()
    if kind == 2 and what < 0.7:  # length-delimited: within
        body = (
            _change_message(body, random)
            if _fields(body)
            else str(odd(random)).encode("utf-8", "replace")
        )
        fields[i] = (head, body, kind)
    elif kind != 2 and what < 0.7:
        fields[i] = (
            head,
            _varint(random.choice(ODD_VARINTS)) if kind == 0 else random.randbytes(len(body)),
            kind,
        )
    elif what < 0.8:
        del fields[i]
    elif what < 0.9:
        fields.insert(i, fields[random.randrange(len(fields))])
    else:
        j = random.randrange(len(fields))
        fields[i], fields[j] = fields[j], fields[i]
    return _message(fields)


ODD_VARINTS = (0, 1, 2, 7, 255, 2**31, 2**32, 2**40, 2**63 - 1, 2**63, 2**64 - 1)


def _fields(data: bytes) -> list[tuple[bytes, bytes, int]]:
    """Tag, content and wire type of each field; nothing where the bytes are no message."""
    found = []
    at = 0
    while at < len(data):
        tag, start = _read_varint(data, at)
        kind = tag & 7
        if tag < 8 or tag > 2**20 or kind not in (0, 1, 2, 5):
            return []
        if kind == 0:
            begin = start
            end = _read_varint(data, start)[1]
        elif kind == 2:
            length, begin = _read_varint(data, start)
            end = begin + length
        else:
            begin = start
            end = start + (8 if kind == 1 else 4)
        if end > len(data):
            return []
        found.append((data[at:start], data[begin:end], kind))
        at = end
    return found


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        value |= (data[at] & 127) << shift
        at = at + 1
        shift = shift + 7
        if data[at - 1] < 128:
            break
    return value, at


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def zipped(data: bytes, random: Random) -> bytes:
    """Compressed, and mostly damaged afterwards."""
    made = gzip.compress(data, 1, mtime=0)
    return in_bytes(made, random) if random.random() < 0.7 else made


def in_lines(text: bytes, random: Random) -> bytes:
    """Lines dropped, repeated, swapped, cut; numbers replaced; or bytes changed."""
    lines = text.split(b"\n")
    for _ in range(random.randrange(1, 4)):
        if not lines:
            break
        i = random.randrange(len(lines))
        j = random.randrange(len(lines))
        what = random.random()
        if what < 0.2:
            del lines[min(i, j) : max(i, j)]
        elif what < 0.4:
            lines[i], lines[j] = lines[j], lines[i]
        elif what < 0.6:
            lines[i:i] = [lines[j]] * random.choice((1, 3, 30))
        elif what < 0.85:
            words = lines[i].split(b" ")
            words[random.randrange(len(words))] = str(odd(random)).encode("utf-8", "surrogatepass")
            lines[i] = b" ".join(words)
        else:
            lines[i] = in_bytes(lines[i], random)
    made = b"\n".join(lines)
    return in_bytes(made, random) if random.random() < 0.2 else made


def in_database(data: bytes, random: Random) -> bytes:
    """Values of an SQLite file changed by statements; tables renamed, dropped, made views; or pages
    damaged."""
    if random.random() < 0.3:
        return in_bytes(data, random)
    if random.random() < 0.1:
        return _with_shared_pages(data, random)
    db = sqlite3.connect(":memory:", isolation_level=None)
    try:
        db.deserialize(data)
        for _ in range(random.randrange(1, 4)):
            _change_database(db, random)
    except (sqlite3.Error, OverflowError, UnicodeEncodeError):
        pass
    made = db.serialize()
    db.close()
    return in_bytes(made, random) if random.random() < 0.1 else made


def _with_shared_pages(data: bytes, random: Random) -> bytes:
    """An SQLite file in which pages of trees and chains lead to pages that have a place already."""
    size = int.from_bytes(data[16:18], "big") or 1 << 16
    count = len(data) // max(size, 512)
    pages = bytearray(data)
    inner = [n for n in range(1, count) if pages[n * size] in (2, 5)]
    for _ in range(random.choice((1, 5, 100))):
        to = random.randrange(1, count + 1).to_bytes(4, "big") if count else b""
        if inner and random.random() < 0.7:  # a child of an inner page
            page = random.choice(inner) * size
            cells = int.from_bytes(pages[page + 3 : page + 5], "big") or 1
            slot = page + 12 + 2 * random.randrange(cells)
            at = page + int.from_bytes(pages[slot : slot + 2], "big")
        else:  # where a chain of overflow pages goes on
            at = random.randrange(max(count, 1)) * size
        if at + 4 <= len(pages):
            pages[at : at + 4] = to or bytes(4)
    return bytes(pages)


def journal(random: Random) -> bytes:
    """A rollback journal or a write-ahead log beside a database: whole, of another file, or cut."""
    named = random.choice((b"", b"/etc/hostname", b"../a.db", b"x" * 600))
    page = random.choice((512, 4096))
    head = MAGIC + b"".join(
        random.choice((0, 1, 2, 7, page, 2**31)).to_bytes(4, "big") for _ in range(5)
    )
    end = len(named).to_bytes(4, "big") + (sum(named) & 0xFFFFFFFF).to_bytes(4, "big") + MAGIC
    body = random.randbytes(random.choice((0, page + 8)))
    log = bytes.fromhex(random.choice(("377f0682", "377f0683"))) + random.randbytes(60)
    made = random.choice((head.ljust(512, b"\0") + body + named + end, log, named + end))
    return made[: random.randrange(len(made) + 1)] if random.random() < 0.2 else made


MAGIC = bytes.fromhex("d9d505f920a163d7")
"""What a rollback journal begins with, and a name in it ends with."""


def _change_database(db: sqlite3.Connection, random: Random) -> None:
    tables = [
        row[0]
        for row in db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        )
    ]
    table = random.choice(tables)
    columns = [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]
    if not columns:  # `table_info` leaves out those that are generated
        return
    column = random.choice(columns)
    what = random.random()
    if what < 0.6:
        value = odd(random)
        if isinstance(value, list | dict | bool):
            value = str(value).encode()
        some = random.choice(("1", "rowid % 2 = 0", "rowid = 1"))
        number = isinstance(value, int) and not -(2**63) <= value < 2**63
        db.execute(
            f'UPDATE "{table}" SET "{column}" = ? WHERE {some}',
            (float(value) if number else value,),
        )
    elif what < 0.7:
        db.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}"')
    elif what < 0.8:
        db.execute(f'DELETE FROM "{table}" WHERE rowid % 2 = {random.choice((0, 1))}')
    elif what < 0.85:
        db.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO other')
    elif what < 0.9:
        _generate_a_column(db, table)
    else:
        _make_view(db, table, columns, random)


def _generate_a_column(db: sqlite3.Connection, table: str) -> None:
    """A column of texts without bounds, in the catalog alone: a statement works out all of them."""
    db.execute("PRAGMA writable_schema = ON")
    db.execute(
        "UPDATE sqlite_master SET sql = substr(sql, 1, length(sql) - 1) || ? WHERE name = ?",
        (", made TEXT GENERATED ALWAYS AS (printf('%.*c', 300000000, 'x')))", table),
    )


def _make_view(db: sqlite3.Connection, table: str, columns: list[str], random: Random) -> None:
    """A view under the table's name, recursive without end, that the catalog calls a table."""
    db.execute(f'DROP TABLE "{table}"')
    listed = ", ".join(f'x AS "{name}"' for name in columns)
    db.execute(
        f'CREATE VIEW "{table}" AS WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT {listed} FROM r'
    )
    if random.random() < 0.7:
        db.execute("PRAGMA writable_schema = ON")
        kind = random.choice(("'table'", "x'7461626c65'"))
        db.execute(f"UPDATE sqlite_master SET type = {kind} WHERE name = ?", (table,))


def in_parquet(data: bytes, random: Random) -> bytes:
    """A Parquet file with columns changed, dropped, renamed or of another type, rows repeated or
    dropped; or its bytes."""
    from pyarrow import ArrowException, parquet

    if random.random() < 0.2:
        return in_bytes(data, random)
    table = parquet.read_table(io.BytesIO(data), use_threads=False)
    if random.random() < 0.05:
        return _one_value_often(table, random)
    for _ in range(random.randrange(1, 4)):
        with suppress(
            ArrowException, OverflowError, IndexError, ValueError
        ):  # no longer JSON, no text
            table = _change_table(table, random)
    sink = io.BytesIO()
    try:
        parquet.write_table(table, sink)
    except (ArrowException, ValueError):  # an empty structure, half a character
        return in_bytes(data, random)
    return sink.getvalue()


def _one_value_often(table: Any, random: Random) -> bytes:
    """A Parquet file with one long text, or number, in a column thousands of times."""
    import pyarrow as arrow
    from pyarrow import parquet

    i = random.randrange(table.num_columns)
    listed = str(table.schema.field(i).type).startswith("list")
    count = random.choice((100, 2_000)) if listed else table.num_rows
    codes = arrow.array([0] * count, arrow.int32())
    texts = "string" in str(table.schema.field(i).type)
    one = ["x" * LONG] if texts else [random.choice((0, 7, 2**62))]
    values = arrow.DictionaryArray.from_arrays(codes, arrow.array(one))
    if not texts:
        values = values.dictionary_decode()
    if listed:
        ends = arrow.array([0] + [count] * table.num_rows, arrow.int32())
        values = arrow.ListArray.from_arrays(ends, values)
    table = table.set_column(i, table.column_names[i], values)
    sink = io.BytesIO()
    about = {key.decode(): text.decode() for key, text in (table.schema.metadata or {}).items()}
    with parquet.ParquetWriter(
        sink, table.schema, compression="zstd", store_schema=random.random() < 0.5
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({k: v for k, v in about.items() if k != "ARROW:schema"})
    return sink.getvalue()


def _change_table(table: Any, random: Random) -> Any:
    import pyarrow as arrow

    i = random.randrange(table.num_columns)
    what = random.random()
    rows = table.num_rows
    column = table.column(i)
    if what < 0.08:
        return table.drop([table.column_names[i]])
    if what < 0.14:
        return table.rename_columns(
            [*table.column_names[:i], random.choice(ODD_TEXTS), *table.column_names[i + 1 :]]
        )
    if what < 0.2:
        return arrow.concat_tables(
            [table.slice(random.randrange(rows + 1)), table.slice(0, random.randrange(rows + 1))]
        )
    if what < 0.28:
        changed = column.cast(
            random.choice(
                (
                    arrow.string(),
                    arrow.float64(),
                    arrow.int32(),
                    arrow.bool_(),
                    arrow.timestamp("us"),
                )
            )
        )
    else:
        values = column.to_pylist()
        text = values[0] if values and isinstance(values[0], str) else ""
        if text.startswith("{"):
            values = [json.dumps(json_values(json.loads(text), random)), *values[1:]]
        elif (values and isinstance(values[0], list)) or random.random() < 0.5:
            values = (json_values(values, random) + values)[:rows]
        else:
            column_of(rowed := [{"": value} for value in values], random)
            values = [row[""] for row in rowed]
        changed = arrow.array(values, column.type if random.random() < 0.7 else None)
    return table.set_column(i, table.column_names[i], changed)
