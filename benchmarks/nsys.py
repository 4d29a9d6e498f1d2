"""Time and memory of reading and of analysing large nsys exports: `python benchmarks/nsys.py SOURCE`.

Tiles a real export to a half, once and twice the size of a long run (170,000 kernels, 290,000 API calls,
840,000 NVTX ranges), and measures each in a process of its own. The time must grow with the size, no faster.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tile_nsys import tile

SCALES = (0.5, 1.0, 2.0)

_MEASURED = """
import resource, sys, time
begun = time.perf_counter()
{work}
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"{{time.perf_counter() - begun:6.2f}} s {{peak:6.0f}} MB")
"""

_WORK = {
    "read": "from pathlib import Path\nfrom traceanalyzer.ingest import nsys\nnsys.read(Path(sys.argv[1]))",
    "analyze": "import traceanalyzer\ntraceanalyzer.analyze(sys.argv[1])",
}


def measure(work: str, path: Path) -> str:
    """Seconds and peak memory of the work on the file, in a fresh process, imports included."""
    command = [sys.executable, "-c", _MEASURED.format(work=_WORK[work]), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or f"failed: {done.stderr.strip().splitlines()[-1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="a real export, .sqlite or .sqlite.gz")
    parser.add_argument("--work", choices=sorted(_WORK), nargs="+", default=sorted(_WORK))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for scale in SCALES:
            path = Path(folder) / f"{scale}.sqlite"
            rows = tile(arguments.source, path, scale)
            size = path.stat().st_size / 1e6
            for work in arguments.work:
                print(f"{work:8} {sum(rows.values()):>10,} rows {size:6.0f} MB  {measure(work, path)}", flush=True)
            path.unlink()


if __name__ == "__main__":
    main()
