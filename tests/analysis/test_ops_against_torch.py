"""Counts and host times against `torch.profiler`'s own `key_averages()`, on profiles recorded
here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from traceanalyzer.analysis.tables.ops import op_stats
from traceanalyzer.analysis.time.steps import Steps
from traceanalyzer.diagnosis.measurements import Measurements, measure

torch = pytest.importorskip("torch")

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOLERANCE = 0.01
ROUNDING_MS = 1e-5
"""The trace file has nanoseconds, `key_averages()` floats of microseconds."""


def mlp() -> Callable[[], None]:
    model = torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8)
    )
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(16, 32)
    y = torch.randint(0, 8, (16,))

    def work() -> None:
        with torch.profiler.record_function("forward"):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        with torch.profiler.record_function("backward"):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return work


def convolution() -> Callable[[], None]:
    layers = [
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.BatchNorm2d(8),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
    ]
    model = torch.nn.Sequential(*layers, torch.nn.Dropout(), torch.nn.LazyLinear(4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=True)
    x = torch.randn(2, 3, 16, 16)
    model(x)

    def work() -> None:
        model(x).square().mean().backward()
        optimizer.step()

    return work


def attention_under_autocast() -> Callable[[], None]:
    """Autocast makes `aten::linear` call itself."""
    model = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    x = torch.randn(2, 8, 32)

    def work() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model(x).float().sum().backward()

    return work


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 3 * ctx.saved_tensors[0] ** 2


def own_function_and_nested_annotations() -> Callable[[], None]:
    x = torch.randn(64, requires_grad=True)

    def work() -> None:
        with torch.profiler.record_function("outer"):
            for _ in range(3):
                with torch.profiler.record_function("inner"):
                    Cubed.apply(x).sum().backward()
                with torch.profiler.record_function("outer"):
                    x.detach().sort()

    return work


def recomputed() -> Callable[[], None]:
    """Checkpointing runs forward operators inside the backward pass."""
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU())
    x = torch.randn(4, 16, requires_grad=True)

    def work() -> None:
        torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False).sum().backward()

    return work


def embedding_and_data_loader() -> Callable[[], None]:
    table = torch.nn.EmbeddingBag(50, 8, mode="sum")
    data = torch.utils.data.DataLoader(torch.randint(0, 50, (32, 4)), batch_size=8)

    def work() -> None:
        for batch in data:
            table(batch).relu().sum().backward()

    return work


def recorded(work: Callable[[], None], path: Path, *, steps: bool) -> Any:
    """Profile the work, write its trace to the path, give back the profiler."""
    work()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
    ) as profiler:
        for _ in range(3):
            work()
            if steps:
                profiler.step()
    profiler.export_chrome_trace(str(path))
    return profiler


def whole(path: Path) -> Measurements:
    """The recording as one step, so that nothing is left out as warm-up."""
    from traceanalyzer.ingest import load

    ctx = measure(load([path]).traces[0])
    ranges = ctx.trace.host_ranges
    of_op = np.zeros(len(ctx.trace.device_ops), np.int32)
    start = ranges.start[:1]
    end = ranges.end.max(keepdims=True) + 1
    ctx.timed.__dict__["steps"] = Steps("none", ("recording",), start, end, start, end, 0, of_op)
    return ctx


WORKLOADS = (
    mlp,
    convolution,
    attention_under_autocast,
    own_function_and_nested_annotations,
    recomputed,
    embedding_and_data_loader,
)


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_counts_and_host_times(
    workload: Callable[[], Callable[[], None]], steps: bool, tmp_path: Path
) -> None:
    profiler = recorded(workload(), tmp_path / "trace.json", steps=steps)
    ours = {
        (row.name, row.kind == "annotation"): row
        for row in op_stats(whole(tmp_path / "trace.json").rated)
    }
    theirs = {(e.key, e.is_user_annotation): e for e in profiler.key_averages()}
    assert set(ours) == set(theirs)
    for key, row in ours.items():
        entry = theirs[key]
        assert row.calls == entry.count, key
        assert row.host_total_ms == pytest.approx(
            entry.cpu_time_total / 1e3, rel=TOLERANCE, abs=ROUNDING_MS
        ), key
        assert row.host_self_ms == pytest.approx(
            entry.self_cpu_time_total / 1e3, rel=TOLERANCE, abs=ROUNDING_MS
        ), key


def test_by_shape(tmp_path: Path) -> None:
    profiler = recorded(mlp(), tmp_path / "trace.json", steps=False)
    ours = op_stats(whole(tmp_path / "trace.json").rated, by_shape=True)
    theirs = profiler.key_averages(group_by_input_shape=True)
    assert sorted((r.name, round(r.calls)) for r in ours) == sorted(
        (e.key, e.count) for e in theirs
    )


def test_every_forward_operator_with_a_gradient_finds_its_node(tmp_path: Path) -> None:
    recorded(mlp(), tmp_path / "trace.json", steps=False)
    ours = {row.name: row for row in op_stats(whole(tmp_path / "trace.json").rated)}
    for name in (
        "aten::addmm",
        "aten::relu",
        "aten::native_layer_norm",
        "aten::nll_loss_forward",
        "forward",
    ):
        assert ours[name].backward_device_ms is not None, name
    for name in ("aten::_foreach_mul_", "AddmmBackward0", "backward"):
        assert name not in ours or ours[name].backward_device_ms is None, name
    assert ours["AddmmBackward0"].backward_share == 1
