"""How much memory `traceanalyzer memory` takes: `python -m benchmarks.memory_size SNAPSHOT [--mb
50]`.

SNAPSHOT, one of a training run, is made longer by repeating a steady step until its pickle has that
many megabytes. Peak resident memory is the operating system's (`wait4`), of the whole process; what
`traceanalyzer --version` takes is subtracted, which is Python and click. numpy and our own modules
(some 17 MB) count.
"""

import argparse
import gzip
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from traceanalyzer.analysis.memory.phases import timeline_of
from traceanalyzer.ingest.memory import read_snapshot

MB = 1e6


def longer(source: Path, megabytes: float) -> bytes:
    """The pickle of a snapshot whose last whole step but one is repeated."""
    snapshot = read_snapshot(source)
    ends = timeline_of(snapshot.devices[0].events, snapshot, snapshot.devices[0].device).steps.ends
    begin = ends[-3]
    end = ends[-2]
    raw = gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes()
    value: dict[str, Any] = pickle.loads(raw)  # noqa: S301 our own
    events = value["device_traces"][0]
    step = events[begin:end]
    span_us = events[end]["time_us"] - events[begin]["time_us"]
    times = round((megabytes * MB - len(raw)) / (len(raw) / len(events) * len(step)))
    middle = []
    for k in range(1, times + 1):
        lists: dict[int, list[Any]] = {}
        for event in step:
            frames = lists.setdefault(id(event["frames"]), list(event["frames"]))
            middle.append({**event, "time_us": event["time_us"] + k * span_us, "frames": frames})
    tail = [{**event, "time_us": event["time_us"] + times * span_us} for event in events[end:]]
    value["device_traces"][0] = events[:end] + middle + tail
    return pickle.dumps(value, protocol=4)


MEASURE = """
import os, subprocess, sys
_, status, usage = os.wait4(subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL).pid, 0)
print(usage.ru_maxrss, usage.ru_utime + usage.ru_stime)
sys.exit(status != 0)
"""
"""Started apart: what the parent takes counts for its child too, until the child has become another
program."""


def peak_of(*arguments: str) -> tuple[float, float]:
    """Peak resident memory, MB, and CPU seconds of `traceanalyzer` with these arguments."""
    command = [str(Path(sys.executable).parent / "traceanalyzer"), *arguments]
    told = subprocess.check_output([sys.executable, "-c", MEASURE, *command], text=True)
    kib, seconds = map(float, told.split())
    return kib * 1024 / MB, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("--mb", type=float, default=50)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.pickle"
        path.write_bytes(longer(given.snapshot, given.mb))
        size = path.stat().st_size / MB
        base = peak_of("--version")[0]
        peak, seconds = peak_of("memory", str(path))
        print(
            f"{size:.1f} MB: peak {peak:.1f} MB, {peak - base:.1f} MB above `--version` ({base:.1f} MB), "
            f"{(peak - base) / size:.2f} of the file; {seconds:.1f} CPU seconds, {size / seconds:.1f} MB/s"
        )


if __name__ == "__main__":
    main()
