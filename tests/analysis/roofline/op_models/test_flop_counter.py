"""FLOPs of recorded forward and backward passes against `torch.utils.flop_counter` on the same
passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from traceanalyzer.analysis.roofline.op_models import model_ops
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.ingest import load

torch = pytest.importorskip("torch")

from tests.analysis.roofline.op_models.networks import GPT, inputs  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

COUNTED = ("mm", "linear", "conv", "attention")
"""In the names of the operators that torch's counter counts."""
TOLERANCE = 0.01


def passes(model: Any, x: Any) -> None:
    model(x).float().sum().backward()


def counted_by_torch(model: Any, x: Any) -> float:
    from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

    # The CPU's attention is in no registry of torch's: its own formulas are given it.
    aten = torch.ops.aten
    attention = {
        aten._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, *_, **__: sdpa_flop_count(
            q, k, v
        ),
        aten._scaled_dot_product_flash_attention_for_cpu_backward: (
            lambda grad, q, k, v, *_, **__: sdpa_backward_flop_count(grad, q, k, v)
        ),
    }
    with FlopCounterMode(display=False, custom_mapping=attention) as counter:
        passes(model, x)
    return float(counter.get_total_flops())


def recorded(model: Any, x: Any, path: Path) -> dict[str, float]:
    """FLOPs by operator name of the rows that stand for work, from the recording's file."""
    passes(model, x)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
    ) as profiler:
        passes(model, x)
    profiler.export_chrome_trace(str(path))
    ctx = measure(load([path]).traces[0])
    work = model_ops(ctx.joined)
    ranges = ctx.trace.host_ranges
    found: dict[str, float] = {}
    for row in np.flatnonzero(work.counts):
        name = ctx.trace.text(int(ranges.name[row])) or ""
        found[name] = found.get(name, 0.0) + float(work.flops[row])
    return found


def counted(found: dict[str, float]) -> float:
    return sum(flops for name, flops in found.items() if any(part in name for part in COUNTED))


@pytest.mark.parametrize("name", ["gpt", "vit", "resnet50", "unet"])
def test_a_network(name: str, tmp_path: Path) -> None:
    model, x = inputs()[name]
    found = recorded(model, x, tmp_path / "trace.json")
    expected = counted_by_torch(model, x)
    print(f"{name}: {counted(found):.6g} FLOPs, torch {expected:.6g}")
    assert counted(found) == pytest.approx(expected, rel=TOLERANCE)


def test_a_causal_mask_takes_off_what_torch_counts_in_full(tmp_path: Path) -> None:
    length = 32
    heads = 4
    d = 16
    batch = 2
    layers = 2
    model = GPT(causal=True)
    x = torch.randint(0, 100, (batch, length))
    found = recorded(model, x, tmp_path / "trace.json")
    hidden = layers * batch * heads * length * (length - 1) / 2
    # Two products forward and five backward of d multiply-adds each.
    assert counted(found) == pytest.approx(
        counted_by_torch(model, x) - hidden * 7 * 2 * d, rel=1e-6
    )


def test_operators_that_do_the_work_by_other_names(tmp_path: Path) -> None:
    """Products spelled as einsum, matmul and bmm are each counted once."""
    a = torch.randn(4, 8, 16, requires_grad=True)
    b = torch.randn(4, 16, 8, requires_grad=True)

    def model(_: Any) -> Any:
        return torch.einsum("bij,bjk->bik", a, b) + torch.matmul(a, b) + torch.bmm(a, b)

    assert counted(recorded(model, None, tmp_path / "trace.json")) == counted_by_torch(model, None)
