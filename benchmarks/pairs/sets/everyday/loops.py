"""Training loops as they are often written: graphs, agents, adapters, detectors, pictures."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from benchmarks.pairs.program import DEVICE, Pair, autocast, graphed, n, train

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


def gat_edges_dropped_in_numpy(fixed: bool) -> Step:
    """torch_geometric's GAT, a fifth of whose edges numpy leaves out in every step."""
    from torch_geometric.nn import GAT

    nodes, many = n(20_000, 100), n(240_000, 800)
    model = GAT(64, 128, 2, 16, heads=4, add_self_loops=False).to(DEVICE)
    x, y = torch.randn(nodes, 64, device=DEVICE), torch.randint(0, 16, (nodes,), device=DEVICE)
    chance = np.random.default_rng(0)
    edges = chance.integers(0, nodes, (2, many))
    there, kept = torch.from_numpy(edges).to(DEVICE), many * 4 // 5

    def loss() -> Any:
        if fixed:
            some = there[:, torch.randperm(many, device=DEVICE)[:kept]]
        else:
            some = torch.from_numpy(edges[:, np.sort(chance.permutation(many)[:kept])]).to(DEVICE)
        return nn.functional.cross_entropy(model(x, some), y)

    return train(model, loss)


class Critics(nn.Module):
    """An ensemble of small networks of one shape, each on its own or all in one product."""

    def __init__(self, many: int, sizes: tuple[int, ...], *, fixed: bool) -> None:
        super().__init__()
        self.fixed = fixed
        pairs = list(itertools.pairwise(sizes))
        self.w = nn.ParameterList(torch.randn(many, a, b) * a**-0.5 for a, b in pairs)
        self.each = nn.ModuleList(nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairs) for _ in range(many))
        # the other half would be trained for nothing
        (self.each if fixed else self.w).requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.fixed:
            return torch.stack([self.one(layers, x) for layers in self.each])
        y = x.expand(len(self.w[0]), *x.shape)
        for w in self.w[:-1]:
            y = torch.bmm(y, w).relu()
        return torch.bmm(y, self.w[-1])

    @staticmethod
    def one(layers: nn.ModuleList, x: torch.Tensor) -> torch.Tensor:
        """What one of them says."""
        for layer in layers[:-1]:
            x = layer(x).relu()
        return layers[-1](x)


def redq_critics(fixed: bool) -> Step:
    """Twenty critics of an agent (REDQ), updated one after the other."""
    model = Critics(n(20, 3), (48, 256, 256, 1), fixed=fixed).to(DEVICE)
    seen, wanted = torch.randn(256, 48, device=DEVICE), torch.randn(256, 1, device=DEVICE)
    return train(model, lambda: (model(seen) - wanted).square().mean())


def yolo_masks(fixed: bool) -> Step:
    """A detector whose loss picks the anchors that have an object by a boolean mask, scale by scale."""
    layers = [nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.SiLU()) for a, b in itertools.pairwise((3, 32, 64, 96, 128))]
    body = nn.Sequential(*layers[:2]).to(DEVICE)
    deeper, heads = nn.ModuleList((layers[2], layers[3])), nn.ModuleList(nn.Conv2d(c, 24, 1) for c in (64, 96, 128))
    model = nn.ModuleList((body, deeper, heads)).to(DEVICE)
    side, batch = n(320, 32), n(32, 2)
    x = torch.randn(batch, 3, side, side, device=DEVICE)
    sizes = [side // cut for cut in (4, 8, 16)]
    masks = [torch.rand(batch, s, s, device=DEVICE) < 0.02 for s in sizes]
    wanted = [torch.rand(batch, s, s, 24, device=DEVICE) for s in sizes]

    def scale_loss(said: torch.Tensor, mask: torch.Tensor, want: torch.Tensor) -> Any:
        sure = binary_cross_entropy_with_logits(said[..., 0], mask.float())
        if fixed:
            near = (said[..., 1:5] - want[..., 1:5]).abs().mean(-1)
            kind = binary_cross_entropy_with_logits(said[..., 5:], want[..., 5:], reduction="none").mean(-1)
            return sure + ((near + kind) * mask).sum() / mask.sum().clamp(min=1)
        if mask.sum() == 0:
            return sure
        near = (said[mask][:, 1:5] - want[mask][:, 1:5]).abs().mean()
        return sure + near + binary_cross_entropy_with_logits(said[mask][:, 5:], want[mask][:, 5:])

    def loss() -> Any:
        maps = [body(x)]
        for layer in deeper:
            maps.append(layer(maps[-1]))
        said = [head(one).permute(0, 2, 3, 1) for head, one in zip(heads, maps, strict=True)]
        return sum(scale_loss(*three) for three in zip(said, masks, wanted, strict=True))

    return train(model, loss)


def superresolution_in_line(fixed: bool) -> Step:
    """A network that sharpens pictures; each batch is copied from pinned memory before its step."""
    layers = [x for _ in range(4) for x in (nn.Conv2d(48, 48, 3, padding=1), nn.ReLU())]
    model = nn.Sequential(nn.Conv2d(3, 48, 5, padding=2), *layers, nn.Conv2d(48, 12, 3, padding=1), nn.PixelShuffle(2))
    model = model.to(DEVICE, memory_format=torch.channels_last)
    sharp = [torch.randn(n(64, 1), 3, n(512, 32), n(512, 32)) for _ in range(3)]
    batches = itertools.cycle([one.pin_memory() if DEVICE == "cuda" else one for one in sharp])

    def loss_of(now: torch.Tensor) -> Any:
        with autocast():
            small = nn.functional.interpolate(now, scale_factor=0.5).to(memory_format=torch.channels_last)
            return (model(small) - now).abs().mean()

    if not fixed or DEVICE != "cuda":
        return train(model, lambda: loss_of(next(batches).to(DEVICE, non_blocking=True)))
    side, ready = torch.cuda.Stream(), [next(batches).to(DEVICE)]

    def ahead() -> Any:
        torch.cuda.current_stream().wait_stream(side)
        now = ready.pop()
        now.record_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            ready.append(next(batches).to(DEVICE, non_blocking=True))
        return loss_of(now)

    return train(model, ahead)


def lora_gradient_norms(fixed: bool) -> Step:
    """A small Qwen2 under peft's LoRA; the loss and the norm of every adapter's gradient are read for a log."""
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        hidden_size=n(1024, 64), intermediate_size=n(2816, 128), num_hidden_layers=n(6, 1), num_attention_heads=16,
        num_key_value_heads=4, vocab_size=n(16384, 128), use_cache=False,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config).to(DEVICE, torch.bfloat16)
    model = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "v_proj", "o_proj"])).train()
    tokens = torch.randint(0, n(16000, 100), (n(6, 1), n(512, 16)), device=DEVICE)
    adapters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    optimizer = torch.optim.AdamW(adapters.values(), 1e-4, fused=True)

    def step() -> dict[str, Any]:
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        norms = {name: p.grad.norm() for name, p in adapters.items() if p.grad is not None}
        log: dict[str, Any] = {"loss": loss.detach(), **norms}
        if not fixed:
            log = {name: value.item() for name, value in log.items()}
        optimizer.step()
        optimizer.zero_grad()
        return log

    return step


def vae_small_pictures(fixed: bool) -> Step:
    """A variational autoencoder trained on pictures of 32 pixels, 32 at a time, in a CUDA graph or not."""
    down = [nn.Conv2d(3, 32, 4, 2, 1), nn.SiLU(), nn.Conv2d(32, 64, 4, 2, 1), nn.SiLU(), nn.Conv2d(64, 128, 4, 2, 1)]
    up = [nn.ConvTranspose2d(64, 64, 4, 2, 1), nn.SiLU(), nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.SiLU()]
    encoder, decoder = nn.Sequential(*down), nn.Sequential(*up, nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Sigmoid())
    model = nn.ModuleList((encoder, decoder)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, foreach=True, capturable=DEVICE == "cuda")
    x = torch.rand(32, 3, 32, 32, device=DEVICE)

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        mean, spread = encoder(x).chunk(2, 1)
        spread = softplus(spread)
        again = decoder(mean + spread * torch.randn_like(mean))
        far = (mean.square() + spread.square() - 2 * (spread + 1e-6).log() - 1).mean()
        (nn.functional.mse_loss(again, x) + 0.01 * far).backward()
        optimizer.step()

    return graphed(step) if fixed else step


def finetuning_empties_cache(fixed: bool) -> Step:
    """A small BERT is trained; its loop empties the allocator's cache after every batch, as a forum advised."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(hidden_size=n(512, 48), num_hidden_layers=n(4, 1), num_attention_heads=8 if n(1, 0) else 4)
    model = BertForSequenceClassification(config).to(DEVICE)
    tokens, y = torch.randint(0, 30000, (n(32, 2), 128), device=DEVICE), torch.randint(0, 2, (n(32, 2),), device=DEVICE)

    def loss() -> Any:
        with autocast():
            return model(tokens, labels=y).loss

    update = train(model, loss)

    def step() -> None:
        update()
        if not fixed and DEVICE == "cuda":
            torch.cuda.empty_cache()

    return step


TRANSFORMERS = ("transformers.models.qwen2.modeling_qwen2", "transformers.models.bert.modeling_bert")
PAIRS = (
    Pair("move_host_work", gat_edges_dropped_in_numpy, found=True, libraries=("torch_geometric",)),
    Pair("batched_matmul", redq_critics, found=True, libraries=(), fixed_too=False),
    Pair("remove_syncs", yolo_masks, found=True, libraries=()),
    Pair("copy_ahead", superresolution_in_line, found=True, libraries=(), fixed_too=False),
    Pair("remove_syncs", lora_gradient_norms, found=True, libraries=("peft", *TRANSFORMERS), fixed_too=False),
    Pair("cuda_graph", vae_small_pictures, found=True, libraries=()),
    Pair("avoid_allocations", finetuning_empties_cache, found=True, libraries=TRANSFORMERS, fixed_too=False),
)
