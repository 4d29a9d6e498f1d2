"""Models that are trained, most of them a library's, each with one thing that its authors overlooked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, dropout, layer_norm, logsigmoid, scaled_dot_product_attention, silu

from benchmarks.pairs.program import DEVICE, Pair, autocast, graphed, n, train

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.pairs.program import Step


def _named(model: nn.Module, pictures: torch.Tensor, kinds: int) -> Callable[[], Any]:
    """The loss of a model that names pictures, in bf16."""
    labels = torch.randint(0, kinds, pictures.shape[:1], device=DEVICE)

    def loss() -> Any:
        with autocast():
            return cross_entropy(model(pictures), labels)

    return loss


def _pictures(batch: int, side: int, layout: torch.memory_format = torch.contiguous_format) -> torch.Tensor:
    return torch.randn(batch, 3, side, side, device=DEVICE).contiguous(memory_format=layout)


def leaves_sixteen_at_a_time(fixed: bool) -> Step:
    """timm's GhostNet learns diseases of leaves in bf16, 16 small pictures a step; the remedy is a CUDA graph."""
    import timm

    with torch.device(DEVICE):
        model = timm.create_model("ghostnet_100", num_classes=38)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True, capturable=DEVICE == "cuda")
    step = train(model, _named(model, _pictures(n(16, 2), n(128, 32)), 38), optimizer)
    return graphed(step) if fixed else step


def pets_default_adamw(fixed: bool) -> Step:
    """torchvision's VGG-11 is tuned on 16 pictures of pets a step, AdamW as it comes; the remedy is fused AdamW."""
    from torchvision.models import vgg11

    with torch.device(DEVICE):
        model = vgg11(num_classes=37)
    model = model.to(memory_format=torch.channels_last)
    pictures = _pictures(n(16, 1), n(224, 64), torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=fixed or None)
    return train(model, _named(model, pictures, 37), optimizer)


def large_pictures_attention_unfused(fixed: bool) -> Step:
    """timm's DeiT on pictures of 384 pixels in bf16, its fused attention switched off; the remedy switches it on."""
    import timm

    with torch.device(DEVICE):
        model = timm.create_model("deit_small_patch16_224", img_size=n(384, 32), num_classes=100)
    for block in model.blocks:
        block.attn.fused_attn = fixed
    return train(model, _named(model, _pictures(n(48, 1), n(384, 32)), 100))


def textures_mixed_fp32(fixed: bool) -> Step:
    """timm's MLP-Mixer learns textures in fp32, products at PyTorch's default precision; the remedy allows TF32."""
    import timm

    torch.set_float32_matmul_precision("high" if fixed else "highest")
    with torch.device(DEVICE):
        model = timm.create_model("mixer_s16_224", num_classes=47)
    pictures, labels = _pictures(n(64, 1), 224), torch.randint(0, 47, (n(64, 1),), device=DEVICE)
    return train(model, lambda: cross_entropy(model(pictures), labels))


def wide_residual_layout(fixed: bool) -> Step:
    """torchvision's Wide ResNet-50 in bf16 on 48 pictures, channels first; the remedy is channels last."""
    from torchvision.models import wide_resnet50_2

    layout = torch.channels_last if fixed else torch.contiguous_format
    with torch.device(DEVICE):
        model = wide_resnet50_2(num_classes=100)
    model = model.to(memory_format=layout)
    return train(model, _named(model, _pictures(n(48, 2), n(224, 32), layout), 100))


def windows_computed_again(fixed: bool) -> Step:
    """timm's Swin (tiny) in bf16 with its checkpointing left on, though memory is free; the remedy turns it off."""
    import timm

    with torch.device(DEVICE):
        model = timm.create_model("swin_tiny_patch4_window7_224", num_classes=100)
    model.set_grad_checkpointing(not fixed)
    return train(model, _named(model, _pictures(n(64, 1), 224), 100))


def entities_four_at_a_time(fixed: bool) -> Step:
    """transformers' DistilBERT finds names in four short texts a step, in bf16; the remedy takes 32 texts."""
    from transformers import DistilBertConfig, DistilBertForTokenClassification

    width, words = n(512, 32), n(16_384, 64)
    config = DistilBertConfig(
        vocab_size=words, dim=width, hidden_dim=4 * width, n_heads=8, n_layers=n(6, 1), num_labels=9
    )
    with torch.device(DEVICE):
        model = DistilBertForTokenClassification(config).train()
    shape = (32 if fixed else 4, n(128, 16))
    tokens, names = (torch.randint(0, most, shape, device=DEVICE) for most in (words, 9))

    def loss() -> Any:
        with autocast():
            return model(input_ids=tokens, labels=names).loss

    return train(model, loss)


def _gated(
    x: torch.Tensor, into: torch.Tensor, out: torch.Tensor, first: torch.Tensor, second: torch.Tensor
) -> torch.Tensor:
    """A layer of a generative recommender: attention between what was bought, gated."""
    width = x.shape[2:]
    gate, q, k, v = silu(layer_norm(x, width, first) @ into).chunk(4, -1)
    q, k, v = (part.unflatten(-1, (-1, n(64, 8))).transpose(1, 2) for part in (q, k, v))
    seen = scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
    return x + dropout((layer_norm(seen, width, second) * gate) @ out, 0.1)


class Recommender(nn.Module):
    """Tells which of two articles comes next, for every purchase of a customer."""

    def __init__(self, articles: int, width: int, layers: int, layer: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.layer = layer
        self.articles = nn.Embedding(articles, width)
        sizes = (width, 4 * width), (width, width), (width,), (width,)
        self.layers = nn.ModuleList(
            nn.ParameterList(nn.Parameter(torch.randn(size) * width**-0.5) for size in sizes) for _ in range(layers)
        )

    def forward(self, bought: torch.Tensor, following: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        x = self.articles(bought)
        for weights in self.layers:
            x = self.layer(x, *weights)
        better = self.articles(following) - self.articles(other)
        return -logsigmoid((x * better).sum(-1)).mean()


def purchases_gated_eagerly(fixed: bool) -> Step:
    """A recommender of gated attention learns from 64 customers' 512 purchases in bf16; the remedy compiles a layer."""
    layer = torch.compile(_gated, dynamic=False) if fixed else _gated
    articles = n(50_000, 100)
    with torch.device(DEVICE):
        model = Recommender(articles, n(512, 32), n(8, 1), layer)
    bought, following, other = (torch.randint(0, articles, (n(64, 2), n(512, 16)), device=DEVICE) for _ in range(3))

    def loss() -> Any:
        with autocast():
            return model(bought, following, other)

    return train(model, loss)


class Assays(nn.Module):
    """What a molecule does in each of many assays: a trunk of all, a small head for each."""

    def __init__(self, assays: int, width: int, inner: int, *, batched: bool) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.batched = batched
        if batched:
            self.first = nn.Parameter(torch.randn(assays, width, inner) * width**-0.5)
            self.second = nn.Parameter(torch.randn(assays, inner, 1) * inner**-0.5)
            self.biases = nn.ParameterList(nn.Parameter(torch.zeros(assays, 1, size)) for size in (inner, 1))
        else:
            heads = (nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, 1)) for _ in range(assays))
            self.heads = nn.ModuleList(heads)

    def forward(self, molecules: torch.Tensor) -> torch.Tensor:
        x = self.trunk(molecules)
        if not self.batched:
            return torch.stack([head(x) for head in self.heads])
        inner = torch.baddbmm(self.biases[0], x.expand(len(self.first), -1, -1), self.first).relu()
        return torch.baddbmm(self.biases[1], inner, self.second)


def assays_head_by_head(fixed: bool) -> Step:
    """Molecules judged for 96 assays by a trunk and a head for each, called in a loop; the remedy batches the heads."""
    torch.set_float32_matmul_precision("high")
    assays, width, batch = n(96, 4), n(1024, 32), n(512, 8)
    with torch.device(DEVICE):
        model = Assays(assays, width, n(128, 8), batched=fixed)
        molecules, found = torch.randn(batch, 2 * width), torch.rand(assays, batch, 1)
    return train(model, lambda: nn.functional.binary_cross_entropy_with_logits(model(molecules), found))


_TIMM, _TORCHVISION = ("timm",), ("torchvision.models",)
PAIRS = (
    Pair("cuda_graph", leaves_sixteen_at_a_time, found=True, libraries=_TIMM),
    Pair("fused_optimizer", pets_default_adamw, found=True, libraries=_TORCHVISION),
    Pair("fused_attention", large_pictures_attention_unfused, found=True, libraries=_TIMM),
    Pair("tf32", textures_mixed_fp32, found=True, libraries=_TIMM),
    Pair("channels_last", wide_residual_layout, found=True, libraries=_TORCHVISION),
    Pair("no_recompute", windows_computed_again, found=True, libraries=_TIMM),
    Pair(
        "larger_batch", entities_four_at_a_time, found=True, as_much=8.0,
        libraries=("transformers.models.distilbert.modeling_distilbert",),
    ),
    Pair("compile", purchases_gated_eagerly, found=True, libraries=(), early=("fix",)),
    Pair("batched_matmul", assays_head_by_head, found=True, libraries=()),
)  # fmt: skip
