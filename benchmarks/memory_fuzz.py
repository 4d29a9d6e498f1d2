"""Mutates real memory snapshots: each is read, or refused by the one named error.

python -m benchmarks.memory_fuzz [COUNT] [SEED]
"""

import gzip
import io
import random
import sys
import time
from collections import Counter
from pathlib import Path

from traceanalyzer.base.errors import RefusedSnapshotError
from traceanalyzer.ingest.memory import snapshot_of
from traceanalyzer.ingest.memory.opcodes import interpret
from traceanalyzer.ingest.memory.shapes import Shapes

DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "memory"
PIECE = 1 << 18


def mutant(raw: bytes, chosen: random.Random) -> bytes:
    """The file with bytes changed, cut out, put in, or its end missing."""
    data = bytearray(raw)
    kind = chosen.random()
    for _ in range(chosen.choice((1, 1, 2, 5, 30))):
        at = chosen.randrange(len(data))
        if kind < 0.6:
            data[at] = chosen.randrange(256)
        elif kind < 0.8:
            del data[at : at + chosen.randrange(1, 50)]
        elif kind < 0.9:
            data[at:at] = chosen.randbytes(chosen.randrange(20))
        else:
            del data[at + 1 :]
        data = data or bytearray(b"x")
    return bytes(data)


def outcome(raw: bytes) -> str:
    """`read` or `refused`; anything else is raised."""
    file = io.BytesIO(raw)
    shapes = Shapes()
    try:
        snapshot_of("mutant", interpret(lambda: file.read(PIECE), shapes), shapes)
    except RefusedSnapshotError:
        return "refused"
    return "read"


def main(count: int, seed: int) -> None:
    chosen = random.Random(seed)  # noqa: S311 the same ones each time
    raws = [gzip.decompress(path.read_bytes()) for path in sorted(DATA.glob("*.gz"))]
    raws = [raw for raw in raws if len(raw) < 100_000]
    counted = Counter[str]()
    slowest = 0.0
    for _ in range(count):
        raw = mutant(chosen.choice(raws), chosen)
        start = time.perf_counter()
        counted[outcome(raw)] += 1
        slowest = max(slowest, time.perf_counter() - start)
    print(dict(counted), f"slowest {slowest * 1e3:.1f} ms")


if __name__ == "__main__":
    main(*(int(value) for value in [*sys.argv[1:], *("10000", "0")[len(sys.argv) - 1 :]]))
