"""Make a large nsys export by repeating a real one in time: `python benchmarks/tile_nsys.py SOURCE
TARGET`.

Each repetition is shifted by the length of the recording, its correlation and event ids by their
largest value, so joins stay right. Tables of events that are rarer in the source than wanted are
repeated more often within the same time, their rows a little later each, so the mix is that of a
real long recording.
"""

import argparse
import gzip
import math
import shutil
import sqlite3
from pathlib import Path

KERNELS = 170_000
API_CALLS = 290_000
NVTX_RANGES = 840_000

SHIFTED_TIMES = ("start", "end", "timestamp")
SHIFTED_IDS = ("correlationId", "eventSyncId")
NO_ID = 2**32 - 1
"""What nsys writes for none: ids are 32-bit numbers."""

WANTED = {
    "CUPTI_ACTIVITY_KIND_KERNEL": KERNELS,
    "CUPTI_ACTIVITY_KIND_RUNTIME": API_CALLS,
    "NVTX_EVENTS": NVTX_RANGES,
}


def tile(source: Path, target: Path, scale: float = 1.0, rows: int | None = None) -> dict[str, int]:
    """Write `target`; returns the rows of each table of events. `rows`: about so many, in the
    source's own mix."""
    _copy(source, target)
    db = sqlite3.connect(target)
    db.execute("PRAGMA journal_mode = OFF")
    db.execute("PRAGMA synchronous = OFF")
    tables = _event_tables(db)
    low, high = _span(db, tables)
    ids = max(
        db.execute(f'SELECT max("{column}") FROM "{table}" WHERE "{column}" < {NO_ID}').fetchone()[  # noqa: S608
            0
        ]
        or 0
        for table, columns in tables.items()
        for column in columns
        if column in SHIFTED_IDS
    )
    kernels = _count(db, "CUPTI_ACTIVITY_KIND_KERNEL")
    there = sum(_count(db, table) for table in tables)
    repeats = max(
        1, math.ceil(KERNELS * scale / kernels) if rows is None else math.ceil(rows / there)
    )
    for table, columns in tables.items():
        limit = int(WANTED[table] * scale) if table in WANTED and rows is None else None
        _repeat(db, table, columns, repeats, high - low, ids, limit)
    db.execute(
        "UPDATE ANALYSIS_DETAILS SET duration = duration + ?", ((repeats - 1) * (high - low),)
    )
    db.commit()
    made = {table: _count(db, table) for table in tables}
    db.close()
    return made


def _repeat(db, table, columns, repeats, period, ids, limit) -> None:
    """Append shifted copies of the rows, then more until there are `limit`, and cut to it."""
    count = _count(db, table)
    if not count:
        return
    copies = repeats if limit is None else max(repeats, math.ceil(limit / count))
    terms = ", ".join(_shifted(column) for column in columns)
    names = ", ".join(f'"{column}"' for column in columns)
    last = db.execute(f'SELECT max(rowid) FROM "{table}"').fetchone()[0]  # noqa: S608
    for copy in range(1, copies):
        values = {
            "time": (copy % repeats) * period + copy // repeats,
            "id": (copy % repeats) * ids,
            "last": last,
            "copy": copy * 1_000_000,
        }
        db.execute(
            f'INSERT INTO "{table}" ({names}) SELECT {terms} FROM "{table}" WHERE rowid <= :last',  # noqa: S608
            values,
        )
    if limit is not None:
        db.execute(f'DELETE FROM "{table}" WHERE rowid > ?', (limit,))  # noqa: S608


def _shifted(column: str) -> str:
    if column in SHIFTED_TIMES:
        return f'"{column}" + :time'
    if column in SHIFTED_IDS:
        return f'"{column}" + CASE WHEN "{column}" < {NO_ID} THEN :id ELSE 0 END'
    if column == "text":  # every call of PyTorch's emit_nvtx has an id of its own
        return (
            "CASE WHEN instr(text, ', op_id = ') THEN substr(text, 1, instr(text, ', op_id = ') + 9) || "
            "(CAST(substr(text, instr(text, ', op_id = ') + 10) AS INTEGER) + :copy) ELSE text END"
        )
    return f'"{column}"'


def _event_tables(db: sqlite3.Connection) -> dict[str, list[str]]:
    names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    wanted = [
        n for n in names if n.startswith("CUPTI_ACTIVITY_KIND_") or n in ("NVTX_EVENTS", "OSRT_API")
    ]
    return {name: [row[1] for row in db.execute(f'PRAGMA table_info("{name}")')] for name in wanted}


def _span(db: sqlite3.Connection, tables: dict[str, list[str]]) -> tuple[int, int]:
    spans = [
        db.execute(f'SELECT min(start), max("end") FROM "{table}" WHERE start > 0').fetchone()  # noqa: S608
        for table, columns in tables.items()
        if "end" in columns
    ]
    spans = [(low, high) for low, high in spans if low is not None and high is not None]
    return min(low for low, _ in spans), max(high for _, high in spans)


def _count(db: sqlite3.Connection, table: str) -> int:
    return int(db.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])  # noqa: S608


def _copy(source: Path, target: Path) -> None:
    opener = gzip.open if source.suffix == ".gz" else open
    with opener(source, "rb") as stream, target.open("wb") as output:
        shutil.copyfileobj(stream, output)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--scale", type=float, default=1.0, help="1: 170,000 kernels (default)")
    parser.add_argument(
        "--rows", type=int, help="about so many rows in the source's own mix, whatever the scale"
    )
    arguments = parser.parse_args()
    for table, rows in tile(
        arguments.source, arguments.target, arguments.scale, arguments.rows
    ).items():
        print(f"{table:42} {rows:>9,}")


if __name__ == "__main__":
    main()
