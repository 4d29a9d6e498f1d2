"""What torch.profiler costs the host for each kind of event: `python -m benchmarks.profiler_cost OUT.json`.

Each call is timed in a loop without the profiler and with it in several settings; the recording says how many
events of each kind one call makes. Wall time per call in us, lowest of several rounds.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

if TYPE_CHECKING:
    from collections.abc import Callable

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CALLS = 200
ROUNDS = 7
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "shapes": {"record_shapes": True},
    "shapes+syncevents": {"record_shapes": True, "syncevents": True},
    "shapes+stacks": {"record_shapes": True, "with_stack": True},
}


def calls() -> dict[str, Callable[[], object]]:
    """Calls that make few kinds of events each."""
    x, y = torch.randn(8, 64, device=DEVICE), torch.randn(8, 64, device=DEVICE)
    many = [torch.randn(64, device=DEVICE) for _ in range(30)]
    layer = nn.Linear(64, 64).to(DEVICE)

    def annotation() -> None:
        with record_function("x"):
            pass

    def python() -> None:
        def inner() -> None:
            pass

        for _ in range(20):
            inner()

    def forward() -> torch.Tensor:
        with torch.no_grad():
            return layer(x)

    def backward() -> None:
        layer(x).sum().backward()

    result: dict[str, Callable[[], object]] = {
        "annotation": annotation,
        "python": python,
        "view": lambda: x.view(-1),
        "transpose": x.t,
        "empty": lambda: torch.empty(64, device=DEVICE),
        "add_": lambda: x.add_(1),
        "add": lambda: x + y,
        "mm": lambda: x.t() @ y,
        "cat": lambda: torch.cat(many),
        "foreach": lambda: torch._foreach_add_(many, 1.0),
        "copy": lambda: x.copy_(y),
        "item": lambda: x[0, 0].item(),
        "linear": forward,
        "train": backward,
    }
    if DEVICE == "cuda":
        result["synchronize"] = torch.cuda.synchronize
        result["graph"] = _graph(x)
    return result


def _graph(x: torch.Tensor) -> Callable[[], object]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):
            x.add_(1)
    replay: Callable[[], object] = graph.replay
    return replay


def us_a_call(call: Callable[[], object]) -> float:
    """Lowest mean time of a call, us; the device is drained between rounds, and its queue never full."""
    lowest = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        lowest = min(lowest, time.perf_counter() - start)
        if DEVICE == "cuda":
            torch.cuda.synchronize()
    return lowest * 1e6 / CALLS


def profiled(call: Callable[[], object], syncevents: bool = False, **options: Any) -> dict[str, Any]:
    """Time of a call while it is recorded, and the events and recorded time it makes, by category."""
    config = torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=syncevents)
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities, experimental_config=config, **options) as profiler:
        us = us_a_call(call)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        events = [e for e in json.loads(file.read_text())["traceEvents"] if e.get("ph") == "X"]
    made = CALLS * ROUNDS
    count = Counter(e["cat"] for e in events)
    spent = {category: sum(float(e.get("dur", 0)) for e in events if e["cat"] == category) for category in count}
    return {
        "us": round(us, 3),
        "events": {c: round(n / made, 2) for c, n in count.items() if n > made // 2},
        "recorded_us": {c: round(spent[c] / made, 3) for c, n in count.items() if n > made // 2},
    }


def main() -> None:
    """Time every call in every setting."""
    result: dict[str, Any] = {"torch": torch.__version__, "calls": {}}
    for name, call in calls().items():
        us_a_call(call)
        entry: dict[str, Any] = {"without": round(us_a_call(call), 3)}
        for setting, options in SETTINGS.items():
            entry[setting] = profiled(call, **options)
        result["calls"][name] = entry
        print(name, entry["without"], {s: entry[s]["us"] for s in SETTINGS}, flush=True)
    Path(sys.argv[1]).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
