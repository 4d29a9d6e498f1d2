"""A pipeline's log of operations, read from a Parquet file."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from traceanalyzer.analysis.ranks.pipeline.operation_log import COLUMNS, operations
from traceanalyzer.analysis.ranks.pipeline.operations import KINDS, Operations
from traceanalyzer.base import TraceAnalyzerError, UnreadableInputError
from traceanalyzer.base.extras import how_to_install
from traceanalyzer.base.limits import limits
from traceanalyzer.fleet.parquet_pages import made_bytes
from traceanalyzer.trace import F64, I64

if TYPE_CHECKING:
    import pandas as pd

PARQUET = b"PAR1"
KIND = "optype"  # the column of texts: one that is named in every row is held once
BEYOND_INTEGERS = 2.0**63
ROW_BYTES = 8  # of the shortest row: `limits().size` has so many


def recognise(path: Path) -> bool:
    """Whether this is a log of operations."""
    try:
        with path.open("rb") as file:
            return file.read(len(PARQUET)) == PARQUET and set(COLUMNS) <= set(
                opened_log(path).schema_arrow.names
            )
    except (OSError, TraceAnalyzerError):
        return False


def opened_log(path: Path) -> Any:
    """A Parquet file. Raises UnreadableInputError, TraceAnalyzerError where pyarrow is not
    installed."""
    try:
        import pyarrow.parquet as pq
        from pyarrow import ArrowException
    except ImportError as error:
        raise TraceAnalyzerError(
            f"logs of operations need pyarrow: {how_to_install('parquet')}"
        ) from error
    try:
        # Opened here: Arrow takes names in UTF-8 alone.
        file = io.BufferedReader(io.FileIO(path))
        found = pq.ParquetFile(file)
        # a column of lists has another path than its name
        paths = [found.schema.column(i).path for i in range(len(found.schema.names))]
        if KIND not in paths:
            return found
        return pq.ParquetFile(file, metadata=found.metadata, read_dictionary=[KIND])
    except (ArrowException, OSError, ValueError) as error:
        raise UnreadableInputError(f"no Parquet file ({str(error).splitlines()[0]})") from error


def read_operations(path: Path) -> Operations:
    """The operations that a log holds. Raises UnreadableInputError, TraceAnalyzerError."""
    file = opened_log(path)
    from pyarrow import ArrowException

    lacks = [name for name in COLUMNS if name not in file.schema_arrow.names]
    if lacks:
        raise UnreadableInputError(f"no log of operations, it lacks {', '.join(lacks)}")
    if file.metadata.num_rows > limits().size // ROW_BYTES:
        raise UnreadableInputError(
            f"{file.metadata.num_rows:,} operations are too many; raise it with --limit size=N"
        )
    try:
        _check_columns(file, path)
        frame = file.read(list(COLUMNS)).to_pandas(ignore_metadata=True)
        # A text that is named in every row is held once.
        kind = frame["optype"].map({one: i for i, one in enumerate(KINDS)}).astype(float)
        log = {name: _numbers(frame[name] if name != "optype" else kind, name) for name in COLUMNS}
    except (ArrowException, OSError, ValueError, TypeError, LookupError) as error:
        raise UnreadableInputError(
            f"damaged ({str(error).splitlines()[0]}); copy it again"
        ) from error
    return operations(log)


def _check_columns(file: Any, path: Path) -> None:
    """Columns are numbers, and texts whose size the file tells: lists, and texts that share letters,
    may be of any size. Raises ValueError, UnreadableInputError."""
    from pyarrow import types

    for name in COLUMNS:
        kind = file.schema_arrow.field(name).type
        if name != KIND and not (types.is_integer(kind) or types.is_floating(kind)):
            raise ValueError(f"{name} is {kind}")
    with path.open("rb") as opened:
        full_size = made_bytes(opened)
    if full_size > max(limits().size, limits().ratio * path.stat().st_size):
        raise UnreadableInputError(
            f"{full_size:,} bytes of operations are too many; raise it with --limit size=N"
        )


def _numbers(column: "pd.Series[Any]", name: str) -> I64 | F64:
    """A column's values, s or whole numbers; -1 for a number that is missing, or that no whole number
    of 64 bits is."""
    values: F64 = column.to_numpy(np.float64)
    if name in ("start_ts", "duration"):
        return values
    fitting = np.abs(values) < BEYOND_INTEGERS
    return np.where(fitting, values, -1).astype(np.int64)
