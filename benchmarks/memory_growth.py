"""Where the memory of one `analyze` grows: `python -m benchmarks.memory_growth RECORDING [--step
MB]`.

A command keeps what it frees, so its memory only grows, and each growth is a moment at which what
it held did not do. A second thread looks at the memory a few hundred times a second; each line has
the memory, and the innermost functions of the package that ran when it had grown by another step.
`--mapped` hands large arrays back when they are freed: then what grows is what is alive, without
the holes between.
"""

import argparse
import ctypes
import resource
import sys
import threading
import time
import traceback
from pathlib import Path

MB = 1_000_000
PACKAGE = "traceanalyzer/"
FRAMES = 4
EVERY_S = 0.003
MAP_THRESHOLD = -3
LARGE_BYTES = 4 << 20
"""`M_MMAP_THRESHOLD` of glibc's `mallopt`, and from where on an array is large."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recording", type=Path)
    parser.add_argument("--step", type=float, default=25.0, help="MB (default: 25)")
    parser.add_argument(
        "--mapped", action="store_true", help="without the holes that freed arrays leave"
    )
    asked = parser.parse_args()
    if asked.mapped:
        ctypes.CDLL(None).mallopt(MAP_THRESHOLD, LARGE_BYTES)
    else:
        from traceanalyzer.cli.io.process import keep_freed_memory

        keep_freed_memory()
    threading.Thread(target=watch, args=(asked.step * MB,), daemon=True).start()
    import traceanalyzer

    traceanalyzer.analyze(asked.recording)


def watch(step: float) -> None:
    """Print each growth of this process by so many bytes, and where its main thread then was."""
    main_thread = threading.main_thread().ident
    reached = 0.0
    while True:
        time.sleep(EVERY_S)
        used = resident_bytes()
        if used <= reached + step:
            continue
        reached = used
        stack = traceback.extract_stack(sys._current_frames()[main_thread])
        places = [
            f"{frame.filename.split(PACKAGE)[-1]}:{frame.lineno} {frame.name}"
            for frame in reversed(stack)
            if PACKAGE in frame.filename
        ]
        print(f"{used / MB:7.0f} MB  {' < '.join(places[:FRAMES])}", flush=True)


def resident_bytes() -> int:
    """Memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    main()
