"""Bytes of recorded calls against the tensors that PyTorch really read and made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from traceanalyzer.analysis.roofline.op_models import model_ops
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.ingest import load

torch = pytest.importorskip("torch")

from torch.nn import functional as f  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HALF = torch.bfloat16
IMAGE = torch.randn(2, 6, 16, 16)
ROWS = torch.randn(8, 32)
WIDE = torch.randn(8, 32, dtype=HALF)
NARROW = torch.randn(32)
INDEX = torch.randint(0, 8, (5,))
TABLE = torch.randn(64, 16)


def stored_bytes(x: Any) -> int:
    """Bytes of the distinct elements of a tensor, counted one by one."""
    if not x.numel():
        return 0
    places = torch.arange(x.untyped_storage().nbytes() // x.element_size()).as_strided(
        x.size(), x.stride(), 0
    )
    return int(places.unique().numel()) * x.element_size()


class Watch(TorchDispatchMode):
    """Bytes in and out of every call, by operator name."""

    def __init__(self) -> None:
        super().__init__()
        self.moved: dict[str, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        made = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor)]
        name = func.overloadpacket._qualified_op_name
        self.moved[name] = sum(map(stored_bytes, given)) + sum(
            x.numel() * x.element_size() for x in made
        )
        return out


def recorded_bytes(work: Callable[[], Any], name: str, path: Path) -> float:
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
    ) as profiler:
        work()
    profiler.export_chrome_trace(str(path))
    ctx = measure(load([path]).traces[0])
    ranges = ctx.trace.host_ranges
    rows = [r for r in range(len(ranges)) if ctx.trace.text(int(ranges.name[r])) == name]
    assert rows, name
    return float(model_ops(ctx.joined).bytes[rows[0]])


CASES: dict[str, tuple[str, Callable[[], Any]]] = {
    "mm": ("aten::mm", lambda: ROWS @ NARROW.view(32, 1)),
    "bmm": ("aten::bmm", lambda: torch.bmm(torch.ones(3, 4, 5), torch.ones(5, 6).expand(3, 5, 6))),
    "add of a broadcast row": ("aten::add", lambda: ROWS + NARROW),
    "add of an expanded column": ("aten::add", lambda: ROWS + torch.ones(8, 1).expand(8, 32)),
    "mixed types": ("aten::add", lambda: ROWS + WIDE),
    "number": ("aten::mul", lambda: WIDE * 2.5),
    "integers and a number": ("aten::mul", lambda: INDEX * 2.5),
    "comparison": ("aten::gt", lambda: ROWS > WIDE),
    "where": ("aten::where", lambda: torch.where(ROWS > 0, ROWS, NARROW)),
    "addcmul": ("aten::addcmul", lambda: torch.addcmul(ROWS, NARROW, ROWS)),
    "lerp": ("aten::lerp", lambda: torch.lerp(ROWS, ROWS + 1, 0.5)),
    "exponential of integers": ("aten::exp", lambda: torch.exp(INDEX)),
    "gelu": ("aten::gelu", lambda: f.gelu(ROWS)),
    "silu": ("aten::silu", lambda: f.silu(WIDE)),
    "gelu backward": ("aten::gelu_backward", lambda: torch.ops.aten.gelu_backward(ROWS, ROWS)),
    "relu backward": (
        "aten::threshold_backward",
        lambda: torch.ops.aten.threshold_backward(ROWS, ROWS, 0),
    ),
    "glu": ("aten::glu", lambda: f.glu(ROWS)),
    "softmax": ("aten::_softmax", lambda: torch.softmax(WIDE, -1)),
    "log softmax": ("aten::_log_softmax", lambda: torch.log_softmax(ROWS, -1)),
    "sum": ("aten::sum", lambda: ROWS.sum()),
    "sum over a dimension": ("aten::sum", lambda: ROWS.sum(0)),
    "mean over two dimensions": ("aten::mean", lambda: IMAGE.mean((2, 3))),
    "max over a dimension": ("aten::max", lambda: ROWS.max(1)),
    "argmax": ("aten::argmax", lambda: ROWS.argmax(1)),
    "any": ("aten::any", lambda: (ROWS > 0).any()),
    "norm": ("aten::linalg_vector_norm", lambda: torch.linalg.vector_norm(ROWS, dim=1)),
    "cumsum": ("aten::cumsum", lambda: ROWS.cumsum(1)),
    "cumsum of integers": ("aten::cumsum", lambda: INDEX.int().cumsum(0)),
    "layer norm": ("aten::native_layer_norm", lambda: f.layer_norm(ROWS, (32,), NARROW, NARROW)),
    "group norm": (
        "aten::native_group_norm",
        lambda: f.group_norm(IMAGE, 3, torch.ones(6), torch.ones(6)),
    ),
    "convolution": (
        "aten::convolution",
        lambda: f.conv2d(IMAGE, torch.ones(4, 3, 3, 3), stride=2, groups=2),
    ),
    "same convolution": (
        "aten::conv2d",
        lambda: f.conv2d(IMAGE, torch.ones(4, 6, 3, 3), padding=1, dilation=1),
    ),
    "transposed convolution": (
        "aten::convolution",
        lambda: f.conv_transpose2d(
            IMAGE, torch.ones(6, 2, 3, 3), stride=2, output_padding=1, groups=2
        ),
    ),
    "sort": ("aten::sort", lambda: ROWS.sort(stable=False)),
    "topk": ("aten::topk", lambda: ROWS.topk(3, 1)),
    "max pool": (
        "aten::max_pool2d_with_indices",
        lambda: f.max_pool2d(IMAGE, 3, 2, 1, return_indices=True),
    ),
    "max pool that rounds up": (
        "aten::max_pool2d_with_indices",
        lambda: f.max_pool2d(IMAGE, 3, 2, 0, ceil_mode=True, return_indices=True),
    ),
    "average pool": ("aten::avg_pool2d", lambda: f.avg_pool2d(IMAGE, 2)),
    "adaptive pool": ("aten::_adaptive_avg_pool2d", lambda: f.adaptive_avg_pool2d(IMAGE, 4)),
    "nearest": ("aten::upsample_nearest2d", lambda: f.interpolate(IMAGE, size=(32, 32))),
    "bilinear": (
        "aten::upsample_bilinear2d",
        lambda: f.interpolate(IMAGE, size=(32, 32), mode="bilinear"),
    ),
    "dropout": ("aten::native_dropout", lambda: torch.native_dropout(ROWS, 0.5, train=True)),
    "flip": ("aten::flip", lambda: ROWS.flip(0)),
    "pad": ("aten::constant_pad_nd", lambda: f.pad(IMAGE, (1, 2, 3, 0))),
    "squares": ("aten::mse_loss", lambda: f.mse_loss(ROWS, ROWS + 1)),
    "squares each": ("aten::mse_loss", lambda: f.mse_loss(ROWS, ROWS + 1, reduction="none")),
    "squares backward": (
        "aten::mse_loss_backward",
        lambda: torch.ops.aten.mse_loss_backward(ROWS, ROWS, ROWS, 0),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_read_and_written(case: str, tmp_path: Path) -> None:
    name, work = CASES[case]
    with Watch() as watch:
        work()
    watched = watch.moved[
        "aten::convolution" if name.startswith("aten::conv") and "2d" in name else name
    ]
    # A Python number is recorded as a tensor of one double.
    assert recorded_bytes(work, name, tmp_path / "trace.json") == pytest.approx(
        watched, rel=0, abs=8
    )


def test_a_cast_and_a_transposed_copy(tmp_path: Path) -> None:
    cast = recorded_bytes(lambda: ROWS.to(HALF), "aten::copy_", tmp_path / "cast.json")
    turned = recorded_bytes(lambda: ROWS.t().contiguous(), "aten::copy_", tmp_path / "turned.json")
    assert cast == 8 * 32 * (4 + 2)
    assert turned == 8 * 32 * (4 + 4)


@pytest.mark.parametrize("rows", [5, 500])
def test_an_embedding_reads_at_most_its_table(rows: int, tmp_path: Path) -> None:
    index = torch.randint(0, 64, (rows,))
    found = recorded_bytes(
        lambda: f.embedding(index, TABLE), "aten::embedding", tmp_path / "trace.json"
    )
    assert found == rows * 8 + min(rows, 64) * 16 * 4 + rows * 16 * 4


def test_what_an_index_reads_is_not_recorded(tmp_path: Path) -> None:
    assert np.isnan(recorded_bytes(lambda: ROWS[:, INDEX], "aten::index", tmp_path / "trace.json"))


@pytest.mark.parametrize(("accumulate", "passes"), [(False, 1), (True, 2)])
def test_an_indexed_assignment(accumulate: bool, passes: int, tmp_path: Path) -> None:
    work = lambda: ROWS.clone().index_put_((INDEX,), ROWS[:5], accumulate=accumulate)  # noqa: E731
    found = recorded_bytes(work, "aten::index_put_", tmp_path / "trace.json")
    assert found == 5 * 32 * 4 * (1 + passes)


def test_convolution_backward_by_its_mask(tmp_path: Path) -> None:
    weight = torch.randn(4, 6, 3, 3, requires_grad=True)
    work = lambda: f.conv2d(IMAGE, weight).sum().backward()  # noqa: E731
    found = recorded_bytes(work, "aten::convolution_backward", tmp_path / "trace.json")
    # The gradient is a sum's, expanded from one element; only that of the weight is made.
    assert found == 4 + IMAGE.numel() * 4 + weight.numel() * 4
