"""Logs of a job's operations as ByteDance's StragglerAnalysis publishes them: Parquet, a row each time one ran."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from traceanalyzer.base.errors import TraceAnalyzerError, UnreadableInputError
from traceanalyzer.base.limits import limits
from traceanalyzer.fleet.pipeline.operations import COLUMNS, KINDS, operations
from traceanalyzer.fleet.pipeline.simulate import Pipeline, pipeline
from traceanalyzer.trace import F64, I64

if TYPE_CHECKING:
    import pandas as pd

NAMES = dict(zip(COLUMNS, (
    "optype", "seq_id", "stage", "dp_rank", "step", "rank", "mc", "gmc", "mb_id", "start_ts", "duration",
), strict=True))  # fmt: skip
"""The log's own name of each column."""
ROW_BYTES = 8
"""A row of the shortest log; those of the limit on a file's size are what it may have."""
PARQUET = b"PAR1"


def is_operation_log(path: Path) -> bool:
    """Whether the file is Parquet with the columns of such a log."""
    try:
        with path.open("rb") as file:
            return file.read(len(PARQUET)) == PARQUET and set(NAMES.values()) <= set(_opened(path).schema_arrow.names)
    except (OSError, TraceAnalyzerError):
        return False


def read_pipeline(path: Path) -> Pipeline:
    """The job that a log is about. Raises UnreadableInputError, TraceAnalyzerError (pyarrow is not installed)."""
    file = _opened(path)
    lacks = [name for name in NAMES.values() if name not in file.schema_arrow.names]
    if lacks:
        raise UnreadableInputError(f"{path}: no log of operations, it lacks {', '.join(lacks)}")
    rows = file.metadata.num_rows
    if rows > limits().size // ROW_BYTES:
        raise UnreadableInputError(f"{path}: {rows:,} operations are too many; raise it with --limit size=N")
    try:
        frame = file.read(list(NAMES.values())).to_pandas()
        log = {name: _numbers(frame[NAMES[name]]) for name in COLUMNS[1:]}
        kind = frame[NAMES["kind"]].map({one: i for i, one in enumerate(KINDS)}).astype(float).fillna(-1)
        return pipeline(operations({**log, "kind": kind.to_numpy(np.int64)}))
    except TraceAnalyzerError as error:
        raise UnreadableInputError(f"{path}: {error}") from error
    except (OSError, ValueError, TypeError) as error:  # those of pyarrow are among them
        raise UnreadableInputError(f"{path}: damaged ({str(error).splitlines()[0]}); copy it again") from error


def _opened(path: Path) -> Any:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise TraceAnalyzerError("logs of operations need pyarrow: pip install 'traceanalyzer[fleet]'") from error
    try:
        return pq.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise UnreadableInputError(f"{path}: no Parquet file ({str(error).splitlines()[0]})") from error


def _numbers(column: "pd.Series[Any]") -> I64 | F64:
    """A column's values; what is missing is -1 among integers."""
    values: I64 | F64 = column.to_numpy(np.float64)
    return values if column.dtype.kind == "f" else np.nan_to_num(values, nan=-1).astype(np.int64)
