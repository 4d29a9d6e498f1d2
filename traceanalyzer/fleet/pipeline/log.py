"""Logs of operations as ByteDance's StragglerAnalysis publishes them: Parquet, a row each time that one ran."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from traceanalyzer.analysis.ranks.pipeline.operations import COLUMNS, KINDS, Operations, operations
from traceanalyzer.base import TraceAnalyzerError, UnreadableInputError
from traceanalyzer.base.limits import limits
from traceanalyzer.trace import F64, I64

if TYPE_CHECKING:
    import pandas as pd

ROW_BYTES = 8
"""Of the shortest row: `limits().size` has so many."""


def opened(path: Path) -> Any:
    """A Parquet file. Raises UnreadableInputError, TraceAnalyzerError where pyarrow is not installed."""
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise TraceAnalyzerError("logs of operations need pyarrow: pip install 'traceanalyzer[fleet]'") from error
    try:
        return pq.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise UnreadableInputError(f"no Parquet file ({str(error).splitlines()[0]})") from error


def read_operations(path: Path) -> Operations:
    """The operations that a log holds. Raises UnreadableInputError, TraceAnalyzerError."""
    file = opened(path)
    lacks = [name for name in COLUMNS if name not in file.schema_arrow.names]
    if lacks:
        raise UnreadableInputError(f"no log of operations, it lacks {', '.join(lacks)}")
    if file.metadata.num_rows > limits().size // ROW_BYTES:
        raise UnreadableInputError(f"{file.metadata.num_rows:,} operations are too many; raise it with --limit size=N")
    try:
        frame = file.read(list(COLUMNS)).to_pandas(ignore_metadata=True)
        kind = frame["optype"].map({one: i for i, one in enumerate(KINDS)}).astype(float)
        log = {name: _numbers(frame[name] if name != "optype" else kind, name) for name in COLUMNS}
    except (OSError, ValueError, TypeError, LookupError, NotImplementedError) as error:  # all that pyarrow raises
        raise UnreadableInputError(f"damaged ({str(error).splitlines()[0]}); copy it again") from error
    return operations(log)


def _numbers(column: "pd.Series[Any]", name: str) -> I64 | F64:
    """A column's values, s or whole numbers; -1 for a number that is missing."""
    values: F64 = column.to_numpy(np.float64)
    return values if name in ("start_ts", "duration") else np.nan_to_num(values, nan=-1).astype(np.int64)
