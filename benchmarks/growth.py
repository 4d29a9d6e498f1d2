"""How the cost of reading and analysing grows with the input: families of input at N, 2N, 4N, ...

    python -m benchmarks.growth                       # the table
    python -m benchmarks.growth --only nested_steps
    python -m benchmarks.growth --large               # up to 100 MB or 10^5
    python -m benchmarks.growth --check               # exit status 1 where an exponent is above LIMIT

The exponent is that of CPU time as N doubles, above what nothing costs: 1 is linear, n log n is
below 1.1. N doubles until a run takes `--seconds`, so that what is measured is the growth and not
the start.
"""

import argparse
import contextlib
import gc
import math
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.growth_families import FAMILIES
from benchmarks.measured import compile_package
from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.ingest import load
from traceanalyzer.report.build import build_report
from traceanalyzer.report.json import render_json
from traceanalyzer.report.privacy.redact import redact

LIMIT = 1.15
"""No family may grow by more: n log n grows by 1.1 where N goes from 1,000 to 2,000, by 1.05
later."""
LARGE_BYTES = 100_000_000
LARGE_SIZE = 100_000
"""What `--large` goes up to: recordings of an hour have as many steps, names and threads."""
LARGEST_BYTES = 8 << 20
"""An event of more than 16 MB is damage and costs something else."""
WORTH_S = 0.25
"""Below, the times of a shared machine say nothing about growth."""


def main() -> int:
    """Print the table; with --check the number of families above the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=FAMILIES, action="append")
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="the longest run is about this long"
    )
    parser.add_argument(
        "--large",
        action="store_true",
        help="up to 100 MB or 100,000 steps, ranks or names, and one factor of four",
    )
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    compile_package()
    sys.stdout.write(f"{'family':26} {'N':>9} {'bytes':>11} {'s':>7} {'exponent':>8}\n")
    above = 0
    for name in asked.only or FAMILIES:
        size, length, spent, exponent = large(name) if asked.large else growth(name, asked.seconds)
        above += exponent > LIMIT
        mark = "  <-- above" if exponent > LIMIT else ""
        sys.stdout.write(
            f"{name:26} {size:>9,} {length:>11,} {spent:>7.2f} {exponent:>8.2f}{mark}\n"
        )
        sys.stdout.flush()
    return above if asked.check else 0


def growth(name: str, seconds: float) -> tuple[int, int, float, float]:
    """N, bytes and CPU seconds of the largest run, and the exponent from the one before it to
    it."""
    make = FAMILIES[name]
    base = min(_cost(make(1)) for _ in range(2))
    size = 250
    spent = 0.0
    length = 0
    while spent < seconds and size < 2**22 and length < LARGEST_BYTES:
        size *= 2
        data = make(size)
        length = len(data)
        spent = _cost(data) - base
    if spent < WORTH_S:
        return size, length, spent, 0.0
    # Of three measurements the smallest is nearest the truth; over a factor of 4, what disturbs it
    # counts half.
    quarter = max(min(_cost(make(size // 4)) for _ in range(3)) - base, 1e-3)
    spent = min(spent, *(_cost(data) - base for _ in range(2)))
    return size, length, spent, math.log2(spent / quarter) / 2


def large(name: str) -> tuple[int, int, float, float]:
    """N, bytes and CPU seconds of the largest input, and the exponent from a quarter of it on."""
    make = FAMILIES[name]
    bytes_each = len(make(1000)) / 1000
    size = int(min(LARGE_SIZE, max(LARGE_BYTES / bytes_each, 4)))
    base = _cost(make(1))
    quarter = max(_cost(make(size // 4)) - base, 1e-3)
    data = make(size)
    spent = max(_cost(data) - base, 1e-3)
    exponent = math.log(spent / quarter, 4) if spent >= WORTH_S else 0.0
    return size, len(data), spent, exponent


def _cost(data: bytes) -> float:
    """CPU seconds of reading, analysing and drawing; what is refused ends at the error."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "input"
        path.write_bytes(data)
        gc.collect()
        start = time.process_time()
        with contextlib.suppress(TraceAnalyzerError):
            render_json(redact(build_report(load([path]))))
        return time.process_time() - start


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
