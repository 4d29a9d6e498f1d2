"""What the GPU at hand reaches: a large copy, and large matrix products by number format, timed in
a few seconds.

A datasheet states what the units can do at boost clock; power and temperature allow less. Runs as a
process of its own before the recorded command (`python -m traceanalyzer.collect.ceilings`), so that
nothing of it is left on the GPU."""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from traceanalyzer.base import MS_PER_S

COPY_BYTES = 1 << 30  # ten times what the largest cache holds
SIZES = {"bf16": 8192, "fp16": 8192, "tf32": 8192, "fp32": 4096}
"""Sides of the products: hundreds of tiles for every SM, less than a second on the slowest GPU that
has the format."""
MOST_OF_FREE_MEMORY = 0.25
WARM_UPS = 3
REPEATS = 10
SECONDS = 120
"""A GPU that has not answered by then is not measured; it takes about two, most for importing
torch."""


def measure_ceilings(device: str = "cuda") -> dict[str, Any]:
    """Name of the first GPU, `copy_gbs` (1e9 bytes/s read and written) and `matmul_tflops` by
    format (1e12 FLOP/s): the median of ten runs each, so what it holds for a while and not what it
    does once."""
    import torch

    return {
        "gpu": torch.cuda.get_device_name(),
        "copy_gbs": _copy(device) / 1e9,
        "matmul_tflops": {
            name: 2 * side**3 / _product(name, side, device) / 1e12 for name, side in SIZES.items()
        },
    }


def _copy(device: str) -> float:
    """Bytes/s, read and written, of a large copy within the device."""
    import torch

    size = min(COPY_BYTES, int(torch.cuda.mem_get_info()[0] * MOST_OF_FREE_MEMORY))
    source = torch.empty(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / _seconds(lambda: target.copy_(source))


def _product(name: str, side: int, device: str) -> float:
    """Seconds of a product of two square matrices of random numbers (of zeros it would take less
    power)."""
    import torch

    dtypes = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
    dtype = dtypes.get(name, torch.float32)  # tf32 multiplies float32
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    a, b = (torch.randn(side, side, dtype=dtype, device=device) for _ in range(2))
    out = torch.empty_like(a)
    return _seconds(lambda: torch.mm(a, b, out=out))


def _seconds(run: Callable[[], object]) -> float:
    import torch

    for _ in range(WARM_UPS):
        run()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(REPEATS + 1)]
    events[0].record()
    for event in events[1:]:
        run()
        event.record()
    torch.cuda.synchronize()
    times_ms = [float(begin.elapsed_time(end)) for begin, end in pairwise(events)]
    return statistics.median(times_ms) / MS_PER_S


def measured_apart() -> tuple[dict[str, Any] | None, str | None]:
    """What `measure_ceilings` says in a process of its own, and why it says nothing."""
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return None, f"no answer within {SECONDS} s"
    try:
        return json.loads(done.stdout.splitlines()[-1]), None
    except (IndexError, ValueError):
        return None, (done.stderr.strip().splitlines() or ["no answer"])[-1]


if __name__ == "__main__":
    print(json.dumps(measure_ceilings()))
