"""Time and memory of reading and of analysing large nsys exports: `python -m benchmarks.nsys SOURCE`.

Tiles a real export to a half, once and twice the size of a long run (170,000 kernels, 290,000 API calls,
840,000 NVTX ranges), and measures each in a process of its own. The time must grow with the size, no faster.
With `--nsys-ai PROGRAM` (the executable of an installed nsys-ai) its `diagnose` is measured on a copy beside it; it
writes indexes into the file it is given.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.tile_nsys import tile

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


def measure_peer(program: str, path: Path) -> str:
    """The same for `nsys-ai diagnose` on a copy of the file."""
    copy = path.with_suffix(".copy.sqlite")
    shutil.copy(path, copy)
    work = "import subprocess\nsubprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)"
    script = _MEASURED.format(work=work).replace("RUSAGE_SELF", "RUSAGE_CHILDREN")
    command = [sys.executable, "-c", script, program, "diagnose", str(copy), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=path.parent)
    copy.unlink()
    return done.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="a real export, .sqlite or .sqlite.gz")
    parser.add_argument("--work", choices=sorted(_WORK), nargs="+", default=sorted(_WORK))
    parser.add_argument("--nsys-ai", metavar="PROGRAM", help="an installed nsys-ai to measure beside it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for scale in SCALES:
            path = Path(folder) / f"{scale}.sqlite"
            rows = tile(arguments.source, path, scale)
            size = path.stat().st_size / 1e6
            for work in arguments.work:
                print(f"{work:8} {sum(rows.values()):>10,} rows {size:6.0f} MB  {measure(work, path)}", flush=True)
            if arguments.nsys_ai and scale == 1.0:
                print(
                    f"nsys-ai  {sum(rows.values()):>10,} rows {size:6.0f} MB  {measure_peer(arguments.nsys_ai, path)}"
                )
            path.unlink()


if __name__ == "__main__":
    main()
