"""Is a recording's step still the same once its two ends are cut off? `python -m
benchmarks.cut_both_ends [--cuts N]`.

Real recordings are cut to random windows as windows of a profiler are: of host and device alike
only what lies in the window is kept, so that work launched before it has no launch, and launches
near its end have no work. The recorded step of such a copy must lie within the steps of the whole
recording, or the copy must have none and be the unit itself.
"""

import argparse
import gzip
import random
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from traceanalyzer import analyze, load

NEAR = 0.15
"""How far beyond the slowest or the fastest whole step a step of a copy may lie: it may be any one
of them."""
EDGES = (0.05, 0.45)
"""Shares of a recording that may be cut off at each end."""
SHARED = Path(__file__).parents[2] / "shared"


def cut_kineto(source: Path, target: Path, low: float, high: float) -> None:
    """Write the events of a Kineto trace that lie between two shares of its length."""
    text = source.read_bytes()
    data = orjson.loads(gzip.decompress(text) if source.suffix == ".gz" else text)
    events = data["traceEvents"] if isinstance(data, dict) else data
    spans = [(float(e["ts"]), float(e["ts"]) + float(e["dur"])) for e in events if _is_work(e)]
    begin = min(s for s, _ in spans)
    end = max(e for _, e in spans)
    window = begin + low * (end - begin), begin + high * (end - begin)
    kept = [e for e in events if e.get("ph") == "M" or _inside(e, window)]
    target.write_bytes(
        orjson.dumps({**data, "traceEvents": kept} if isinstance(data, dict) else kept)
    )


def _is_work(event: dict[str, Any]) -> bool:
    return event.get("ph") == "X" and event.get("cat") not in (
        "Trace",
        "overhead",
        "python_function",
    )


def _inside(event: dict[str, Any], window: tuple[float, float]) -> bool:
    start = float(event.get("ts", 0))
    return window[0] <= start and start + float(event.get("dur", 0)) <= window[1]


def cut_nsys(source: Path, target: Path, low: float, high: float) -> None:
    """The same of an nsys export."""
    text = source.read_bytes()
    target.write_bytes(gzip.decompress(text) if source.suffix == ".gz" else text)
    with sqlite3.connect(target) as db:
        tables = [
            name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        timed = [
            t
            for t in tables
            if {"start", "end"} <= {c[1] for c in db.execute(f"PRAGMA table_info({t})")}
        ]
        timed = [t for t in timed if t.startswith(("CUPTI_ACTIVITY_KIND_", "NVTX_EVENTS"))]
        of_calls = [t for t in timed if t.startswith("CUPTI")]
        ends = [db.execute(f"SELECT min(start), max(end) FROM {t}").fetchone() for t in of_calls]  # noqa: S608
        begin = min(a for a, _ in ends if a is not None)
        end = max(b for _, b in ends if b is not None)
        window = begin + low * (end - begin), begin + high * (end - begin)
        for table in timed:
            db.execute(f'DELETE FROM {table} WHERE start < ? OR "end" > ?', window)  # noqa: S608
    db.close()


def recordings(folder: Path) -> Iterator[Path]:
    """The real recordings that hold steps, one process each."""
    for pattern in (
        "traces/kineto/*.gz",
        "traces/ablations/*.base*.gz",
        "traces/nsys/*.gz",
        "more/real/*/trace*.gz",
        "more/public/*.json.gz",
        "more/nsys/*.gz",
        "traces/ranks2/*rank0*.gz",
    ):
        yield from sorted(folder.glob(pattern))


def main() -> None:
    """Cut, analyse, print a line for each copy and a count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--show", action="store_true", help="print all copies, not only those with another step"
    )
    asked = parser.parse_args()
    chance = random.Random(asked.seed)  # noqa: S311
    known = {path: found for path in recordings(SHARED) if (found := _steps(path)) is not None}
    other = without = 0
    for path in [chance.choice(list(known)) for _ in range(asked.cuts)]:
        low = chance.uniform(*EDGES)
        high = 1 - chance.uniform(*EDGES)
        with TemporaryDirectory() as folder:
            copy = Path(folder) / path.name.removesuffix(".gz")
            (cut_nsys if copy.suffix == ".sqlite" else cut_kineto)(path, copy, low, high)
            found = _steps(copy)
        fastest, slowest, *_ = known[path]
        wrong = found is not None and not fastest * (1 - NEAR) <= found[2] <= slowest * (1 + NEAR)
        other = other + wrong
        without = without + (found is None)
        if wrong or asked.show:
            print(
                f"{'WRONG' if wrong else 'right'} {path.name} {low:.3f}-{high:.3f}: {known[path]} -> {found}"
            )
    print(f"{other} of {asked.cuts} copies have another step; {without} have none")


def _steps(path: Path) -> tuple[float, float, float, int, str] | None:
    """Fastest, slowest and mean recorded step, ms, how many, and what tells them apart; None
    without steps."""
    try:
        report = analyze(load(path))
    except Exception as error:
        print(f"{path.name}: {error!r}", file=sys.stderr)
        return None
    metrics = report.metrics
    time = report.metrics.step_time_ms
    if time is None or metrics.step_source in ("none", "recording"):
        return None
    return (
        round(time.min, 3),
        round(time.max, 3),
        round(time.mean, 3),
        time.count,
        metrics.step_source,
    )


if __name__ == "__main__":
    main()
