"""Step times of many ranks over days, as Parquet in `run=ID/day=D/`, asked with DuckDB.

Columns: `rank`, `step`, `step_ms`, and where they are known `t` (when the step ended: a timestamp, or a time since
1970), `data_ms`, `compute_ms`, `tokens`. `line` orders rows without a time."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from traceanalyzer.base import MS_PER_S, TraceAnalyzerError, UnreadableInputError, dataclass, regex
from traceanalyzer.base.extras import how_to_install
from traceanalyzer.base.files import replacing
from traceanalyzer.base.limits import limits
from traceanalyzer.ingest.run import rank_in_name
from traceanalyzer.ingest.timing import logged_records
from traceanalyzer.ingest.timing.records import Records
from traceanalyzer.trace import F64, I64

RUN = regex(r"[\w.-]+")
OWN = {"data_ms": "input", "compute_ms": None}
"""Columns of what a rank spends without waiting for others, with the cause of an excess."""
COLUMNS = ["rank", "step", "t", "step_ms", "data_ms", "tokens", "line", "day"]
LAST_S = 253_402_300_800  # clocks beyond the year 9999 are none
NEEDED = "pyarrow and DuckDB"
NO_DAY = "unknown"  # of steps whose log has no clock
SIGMAS = 5 * 1.4826
"""A rank is behind its peers where it is so many median deviations from their median."""
VALUE_BYTES = 8

LOG = """CREATE TEMP TABLE log AS
WITH raw AS (SELECT rank::BIGINT AS rank, step::BIGINT AS step, step_ms::DOUBLE AS step_ms, {owned}
                    {t}::DOUBLE AS t, {line} AS line
             FROM {source} WHERE step_ms > 0 AND isfinite(step_ms::DOUBLE) AND rank + step IS NOT NULL),
     timed AS (SELECT * REPLACE (t / (SELECT CASE WHEN max(t) > 1e17 THEN 1e9 WHEN max(t) > 1e14 THEN 1e6
                                      WHEN max(t) > 1e11 THEN 1e3 ELSE 1 END FROM raw) AS t) FROM raw),
     back AS (SELECT *, coalesce(step <= lag(step) OVER w, false)::INT AS back FROM timed
              WINDOW w AS (PARTITION BY rank ORDER BY t, line))
SELECT * EXCLUDE back, sum(back) OVER (PARTITION BY rank ORDER BY t, line) AS attempt FROM back"""
ROWS = "SELECT sum(num_rows) FROM parquet_file_metadata('{files}')"
STEPS = "SELECT attempt, step, median(step_ms), min(t) FROM log GROUP BY ALL ORDER BY attempt, step"
BEHIND = """
WITH own AS (SELECT rank, attempt, step // {width} AS part, min(step) AS step, min(t) AS since, median({own}) AS ms
             FROM log WHERE {own} IS NOT NULL GROUP BY ALL),
     beyond AS (SELECT *, ms - median(ms) OVER p AS excess FROM own WINDOW p AS (PARTITION BY attempt, part)),
     spread AS (SELECT *, median(abs(excess)) OVER p AS spread, count(*) OVER p AS peers FROM beyond
                WINDOW p AS (PARTITION BY attempt, part))
SELECT rank, attempt, part, step, since, excess FROM spread
WHERE peers > 2 AND excess > greatest({least_ms}, {sigmas} * spread) ORDER BY rank, attempt, part"""


def append(logs: Sequence[Path], store: Path, run: str) -> None:
    """Add logs of step times to a run. A log that was added before and has grown takes the place of
    what it was.

    Raises TraceAnalyzerError, UnreadableInputError."""
    if not RUN.fullmatch(run):
        raise TraceAnalyzerError(f"--run {run}: letters, digits, '.', '_' and '-' alone")
    _check_installed()
    for i, path in enumerate(logs):
        for rank, records in logged_records(path).items():
            named = rank_in_name(path) if rank is None else rank
            _write(store / f"run={run}", path, i if named is None else named, records)


def _check_installed() -> None:
    """Raises TraceAnalyzerError where a log could be added and not asked about."""
    missing = [name for name in ("pyarrow", "duckdb") if find_spec(name) is None]
    if missing:
        raise TraceAnalyzerError(f"stores of step times need {NEEDED}: {how_to_install('fleet')}")


def _write(folder: Path, log: Path, rank: int, records: Records) -> None:
    import pandas as pd

    step_s = records.column("iter_s")
    timed = records.take(np.isfinite(records.column("step")) & np.isfinite(step_s))
    moments = [moment_text(when) for when in timed.column("when_s").tolist()]
    frame = pd.DataFrame(
        {
            "rank": rank,
            "step": timed.column("step").astype(np.int64),
            "t": timed.column("when_s"),
            "step_ms": timed.column("iter_s") * MS_PER_S,
            "data_ms": timed.column("data_s") * MS_PER_S,
            "tokens": timed.column("tokens"),
            "line": np.arange(len(timed)),
            "day": [when[:10] if when else NO_DAY for when in moments],
        },
        columns=COLUMNS,
    )
    for day, part in frame.groupby("day"):
        first = part[["step", "t"]].iloc[0].tolist()
        key = f"{log.resolve()} {rank} {first}"
        name = hashlib.sha256(key.encode()).hexdigest()[:16]
        into = folder / f"day={day}"
        into.mkdir(parents=True, exist_ok=True)
        with replacing(into / f"{name}.parquet") as file:
            part.drop(columns="day").to_parquet(file, index=False)


def moment_text(seconds: float | None) -> str | None:
    """The moment of a clock, s since 1970, as a text; None where it is none."""
    if seconds is None or not 0 <= seconds < LAST_S:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def runs_in_store(store: Path) -> list[str]:
    """The runs of a store, the one that was written to last at the end."""
    written: list[tuple[float, str]] = []
    for folder in store.glob("run=*"):
        times = [file.stat().st_mtime for file in folder.rglob("*.parquet")]
        if times:
            written.append((max(times), folder.name.removeprefix("run=")))
    return [run for _, run in sorted(written)]


@dataclass(frozen=True, eq=False)
class StoredSteps:
    """Steps of a run in the order in which they ended; those that a restart repeated stand
    twice."""

    attempt: I64  # how often the step number had gone back
    step: I64
    ms: F64  # median of the ranks
    ended: F64  # when the first rank ended it, s since 1970; NaN without a clock


@dataclass(frozen=True)
class Behind:
    """A window of steps in which a rank spent longer on its own than its peers."""

    rank: int
    attempt: int
    window: int
    first_step: int
    since: float | None  # when its first step ended, s since 1970
    excess_ms: float  # a step


class StoredStepLog:
    """A run of a store. Raises UnreadableInputError, TraceAnalyzerError (DuckDB is not
    installed)."""

    def __init__(self, store: Path, run: str) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise TraceAnalyzerError(
                f"stores of step times need {NEEDED}: {how_to_install('fleet')}"
            ) from error
        self.store = store
        self.run = run
        self.database = duckdb.connect()
        self.fault = duckdb.Error
        files = str(store / f"run={run}" / "**" / "*.parquet").replace("'", "''")
        source = f"read_parquet('{files}', union_by_name = true, hive_partitioning = false)"
        kinds = {name: kind for name, kind, *_ in self.ask(f"DESCRIBE FROM {source}")}
        lacks = [name for name in ("rank", "step", "step_ms") if name not in kinds]
        if lacks:
            raise UnreadableInputError(f"{store}: the run {run} has no column {', '.join(lacks)}")
        self._check_size(files)
        self.own = self._read_log(source, kinds)

    def _check_size(self, files: str) -> None:
        """A few bytes of Parquet may stand for any number of equal rows. Raises
        UnreadableInputError where they are more than a compressed file may hold."""
        found = self.ask(ROWS.format(files=files))
        rows = int(found[0][0] or 0)
        folder = self.store / f"run={self.run}"
        size = sum(file.stat().st_size for file in folder.rglob("*.parquet"))
        most = max(limits().size, limits().ratio * size)
        if rows * VALUE_BYTES * len(COLUMNS) > most:
            raise UnreadableInputError(
                f"{self.store}: the run {self.run} has {rows:,} steps in {size:,} bytes, "
                "more than logs of steps do; raise it with --limit size=N"
            )

    def _read_log(self, source: str, kinds: dict[str, str]) -> list[str]:
        t = "t" if "t" in kinds else "NULL"
        if kinds.get("t", "").startswith(("TIMESTAMP", "DATE")):
            t = "epoch(t)"
        own = [name for name in OWN if name in kinds]
        line = "line" if "line" in kinds else "NULL"
        owned = "".join(f"{one}::DOUBLE AS {one}, " for one in own)
        self.ask(LOG.format(source=source, t=t, line=line, owned=owned))
        return [name for name in own if self.ask(f"FROM log SELECT count({name})")[0][0]]

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """The rows that answer a query. Raises UnreadableInputError."""
        try:
            return self.database.execute(query).fetchall()
        except self.fault as error:
            raise UnreadableInputError(f"{self.store}: {str(error).splitlines()[0]}") from error

    def steps(self) -> StoredSteps:
        """The steps, with what most ranks logged of each. Raises UnreadableInputError where there
        are none."""
        found = self.ask(STEPS)
        if not found:
            raise UnreadableInputError(f"{self.store}: the run {self.run} has no steps with a time")
        attempt, step, ms, ended = zip(*found, strict=True)
        return StoredSteps(
            attempt=np.array(attempt, np.int64),
            step=np.array(step, np.int64),
            ms=np.array(ms, np.float64),
            ended=np.array(ended, np.float64),
        )

    def behind(self, own: str, width: int, least_ms: float) -> list[Behind]:
        """Where a rank spent longer on its `own` than its peers do, in windows of `width` steps."""
        query = BEHIND.format(own=own, width=width, least_ms=least_ms, sigmas=SIGMAS)
        return [Behind(*row) for row in self.ask(query)]
