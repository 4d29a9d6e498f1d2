"""Peaks of phases of programs that PyTorch really ran, against the allocator's totals between marks
around each phase.

The programs run on the CPU; their allocator events are given to a GPU, as those of a GPU look.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint  # noqa: E402

from traceanalyzer.diagnosis.selection import measured  # noqa: E402
from traceanalyzer.ingest.run import load  # noqa: E402

WIDTH = 128
BASE = 10**9
MARK = "zz_"
Forward = Callable[[Any], Any]


def mlp(blocks: int = 3) -> Any:
    layers = [
        layer for _ in range(blocks) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())
    ]
    return torch.nn.Sequential(*layers)


def marked(phase: str) -> Any:
    return torch.profiler.record_function(MARK + phase)


def training(
    forward: Forward, parameters: Any, micro_steps: int = 1, **options: Any
) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(parameters, **options)

    def step() -> None:
        for _ in range(micro_steps):
            with marked("forward"):
                loss = forward(torch.randn(256, WIDTH)).square().mean()
            with marked("backward"):
                loss.backward()
            del loss
        with marked("optimizer"):
            optimizer.step()
        optimizer.zero_grad()

    return step


def checkpointed(net: Any) -> Forward:
    def forward(x: Any) -> Any:
        for block in net:
            x = checkpoint(block, x, use_reentrant=False)
        return x

    return forward


def inference(net: Any) -> Callable[[], None]:
    def step() -> None:
        with torch.no_grad(), marked("forward"):
            net(torch.randn(256, WIDTH))

    return step


def programs() -> dict[str, Callable[[], object]]:
    net = mlp()
    frozen = mlp().requires_grad_(False)
    one = training(net, net.parameters())
    two = training(second := mlp(1), second.parameters())
    return {
        "plain": one,
        "foreach": training(net, net.parameters(), foreach=True),
        "accumulation": training(net, net.parameters(), micro_steps=2),
        "checkpointing": training(checkpointed(net), net.parameters()),
        "frozen": training(lambda x: net(frozen(x)), net.parameters()),
        "two optimizers": lambda: (one(), two()),
        "inference": inference(net),
    }


def recorded(step: Callable[[], object], path: Path) -> list[dict[str, Any]]:
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=4, repeat=1)
    step()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        profile_memory=True,
        schedule=schedule,
        on_trace_ready=lambda p: p.export_chrome_trace(str(path)),
    ) as profiler:
        for _ in range(5):
            step()
            profiler.step()
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return events


@pytest.mark.parametrize("name", list(programs()))
def test_peaks(name: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    events = recorded(programs()[name], path)
    memory = sorted(
        (e for e in events if e["name"] == "[memory]"), key=lambda e: (e["ts"], e["args"]["Ev Idx"])
    )
    total = BASE
    for event in memory:
        total += event["args"]["Bytes"]
        event["args"] |= {
            "Device Type": 1,
            "Device Id": 0,
            "Total Allocated": total,
            "Total Reserved": total,
        }
    truth: dict[str, int] = {}
    for mark in (e for e in events if e["name"].startswith(MARK) and e["ph"] == "X"):
        before = [e["args"]["Total Allocated"] for e in memory if e["ts"] < mark["ts"]]
        inside = [
            e["args"]["Total Allocated"] for e in memory if 0 <= e["ts"] - mark["ts"] <= mark["dur"]
        ]
        phase = mark["name"].removeprefix(MARK)
        truth[phase] = max(truth.get(phase, 0), *(before[-1:] or [BASE]), *inside)
    path.write_text(
        json.dumps({"traceEvents": [e for e in events if not e["name"].startswith(MARK)]})
    )
    found = measured(load([path])).critical.memory
    assert found is not None
    assert {phase: getattr(found, phase) for phase in truth} == truth
    assert found.growth == "steady"
