"""Programs that leave little to be done: what sounds right is timed on each, and brings nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from benchmarks.pairs.program import DEVICE, Good, autocast, graphed, n, train
from benchmarks.pairs.sets.everyday.services import HALF, Denoiser

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


def _adamw(model: nn.Module) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), 1e-5, fused=True, capturable=DEVICE == "cuda")


def good_products(version: str) -> Step:
    """Six layers 8192 wide trained in bf16 on 8192 rows, by an optimizer that takes all tensors at once."""
    width = n(8192, 32)
    layers = [x for _ in range(6) for x in (nn.Linear(width, width, bias=False), nn.ReLU(inplace=True))]
    model = nn.Sequential(*layers).to(DEVICE, torch.bfloat16)
    x = torch.randn(n(8192, 8), width, device=DEVICE, dtype=torch.bfloat16)
    how: dict[str, Any] = {"fused": True} if version == "fused_optimizer" else {"foreach": True}
    step = train(model, lambda: model(x).mean(), torch.optim.SGD(model.parameters(), 1e-3, **how))
    return graphed(step) if version == "cuda_graph" else step


def good_fed_encoder(version: str) -> Step:
    """A wide encoder in bf16 whose tokens come from six workers, pinned, and are copied without waiting."""
    width = n(2048, 64)
    layer = nn.TransformerEncoderLayer(width, 16, 4 * width, 0.0, batch_first=True, norm_first=True)
    body = nn.TransformerEncoder(layer, n(4, 1), enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(8192, width), body, nn.Linear(width, 8192)).to(DEVICE, torch.bfloat16)
    forward = torch.compile(model) if version == "compile" else model
    texts = torch.randint(0, 8192, (100_000, n(512, 16)))
    data = torch.utils.data.TensorDataset(texts)
    workers = n(12 if version == "data_loader_workers" else 6, 1)
    loader = torch.utils.data.DataLoader(
        data, n(32, 2), num_workers=workers, persistent_workers=True, pin_memory=DEVICE == "cuda"
    )
    batches = iter(loader)
    ahead = [next(batches)[0].to(DEVICE)]
    side = torch.cuda.Stream() if DEVICE == "cuda" and version == "copy_ahead" else None

    def tokens() -> torch.Tensor:
        if side is None:
            return next(batches)[0].to(DEVICE, non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        now = ahead.pop()
        now.record_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            ahead.append(next(batches)[0].to(DEVICE, non_blocking=True))
        return now

    def loss() -> Any:
        now = tokens()
        return cross_entropy(forward(now).flatten(0, 1), now.flatten())

    return train(model, loss)


class Long(nn.Module):
    """Attention and its projections."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), width // 64

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.out(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def good_long_attention(version: str) -> Step:
    """Four layers of flash attention in half precision over a text of 32,768 tokens."""
    model = nn.Sequential(*(Long(n(1024, 64)) for _ in range(4))).to(DEVICE, HALF).eval()
    x = torch.randn(1, n(32768, 16), n(1024, 64), device=DEVICE, dtype=HALF)
    forward = torch.compile(model) if version == "compile" else model

    def step() -> None:
        with torch.inference_mode():
            forward(x)

    return graphed(step) if version == "cuda_graph" else step


def good_compiled_vit(version: str) -> Step:
    """timm's ViT, wide and short, compiled and trained in bf16 with a fused optimizer."""
    import timm

    model = timm.create_model(
        "vit_base_patch16_224", depth=n(4, 1), embed_dim=n(1280, 48), num_heads=n(20, 3), num_classes=100
    )
    form = torch.channels_last if version == "channels_last" else torch.contiguous_format
    model = model.to(DEVICE, memory_format=form)
    x = torch.randn(n(96, 1), 3, 224, 224, device=DEVICE).to(memory_format=form)
    y = torch.randint(0, 100, (len(x),), device=DEVICE)
    forward = torch.compile(model)

    def loss() -> Any:
        with autocast():
            return cross_entropy(forward(x), y)

    step = train(model, loss, _adamw(model))
    return graphed(step) if version == "cuda_graph" else step


def good_compiled_sampler(version: str) -> Step:
    """A diffusion transformer, wide, compiled, draws pictures in bf16 and keeps all on the GPU."""
    model = Denoiser(n(4, 1), n(1536, 64)).to(DEVICE, torch.bfloat16).eval()
    batch = n(32, 2) * (2 if version == "larger_batch" else 1)
    x = torch.randn(batch, n(1024, 16), n(1536, 64), device=DEVICE, dtype=torch.bfloat16)
    time = torch.randn(batch, x.shape[-1], device=DEVICE, dtype=torch.bfloat16)
    forward = torch.compile(model, dynamic=False)

    def step() -> None:
        with torch.inference_mode():
            forward(x, time)

    return graphed(step) if version == "cuda_graph" else step


PROGRAMS = (
    Good(("cuda_graph", "fused_optimizer"), good_products, found=True),
    Good(("data_loader_workers", "copy_ahead", "compile"), good_fed_encoder, found=True, early=("compile",)),
    Good(("cuda_graph", "compile"), good_long_attention, early=("compile",)),
    Good(
        ("cuda_graph", "channels_last"), good_compiled_vit, found=True, libraries=("timm",),
        early=("base", "cuda_graph", "channels_last"),
    ),
    Good(("cuda_graph", "larger_batch"), good_compiled_sampler, early=("base", "cuda_graph", "larger_batch")),
)  # fmt: skip
