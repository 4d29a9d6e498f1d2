"""How fast and in how much memory recordings are read: `python benchmarks/ingest.py FILE...`.

Prints MB of (decompressed) text for each second of CPU time, wall-clock time, and peak memory. Each file is read in
a process of its own; imports count for memory, not for time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

_CHILD = """
import json, resource, sys, time
from pathlib import Path
from traceanalyzer.ingest import detect, load
list(detect.formats())
cpu, wall = time.process_time(), time.perf_counter()
run = load([sys.argv[1]])
cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
rows = sum(trace.health.events for trace in run.traces)
print(json.dumps([cpu, wall, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, rows]))
"""


def text_bytes(path: Path) -> int:
    """Size of the file's content once decompressed."""
    from traceanalyzer.ingest.stream import open_stream

    total = 0
    with open_stream(path) as stream:
        while piece := stream.read():
            total += len(piece)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--repeat", type=int, default=3, help="reads of each file; the fastest counts")
    options = parser.parse_args()
    for path in options.files:
        size = text_bytes(path) / 1e6
        command = [sys.executable, "-c", _CHILD, str(path)]
        runs = [json.loads(subprocess.check_output(command)) for _ in range(options.repeat)]
        cpu, wall, memory, rows = min(runs)
        print(
            f"{path.name}: {size:.0f} MB, {rows:,} rows: {size / cpu:.0f} MB/s of CPU time, "
            f"{cpu:.2f} s CPU, {wall:.2f} s, peak {memory:.0f} MB"
        )


if __name__ == "__main__":
    main()
