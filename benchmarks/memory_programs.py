"""Programs whose GPU memory is measured: `python memory_programs.py NAME [STEPS]`; `memory_on_gpu.py` runs them too.

Each makes a `Program`: what a step runs, phase by phase, and what it holds across steps. None is part of any test
of the analysis; their predictions were made before they were measured.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

CUDA = "cuda"


@dataclass
class Program:
    """`phases` of a step by name, in order; each is called without arguments."""

    phases: list[tuple[str, Callable[[], Any]]]
    model: nn.Module
    optimizer: Any = None

    def step(self) -> None:
        for _, run in self.phases:
            run()


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, again: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.again = again

    def hidden(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.again else layer(x)
        return self.norm(x)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.hidden(tokens))


class NarrowAdam(torch.optim.Optimizer):
    """Adam whose moments are in bf16, or are of an eighth of each parameter as a rank of eight would hold them."""

    def __init__(self, params: Any, state_type: torch.dtype = torch.float32, ranks: int = 1) -> None:
        super().__init__(params, {"lr": 1e-4})
        self.state_type, self.ranks = state_type, ranks

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                part = slice(0, -(-p.numel() // self.ranks))
                state = self.state[p]
                if not state:
                    state["exp_avg"] = torch.zeros_like(p.flatten()[part], dtype=self.state_type)
                    state["exp_avg_sq"] = torch.zeros_like(p.flatten()[part], dtype=self.state_type)
                grad = p.grad.flatten()[part]
                state["exp_avg"].lerp_(grad.to(self.state_type), 0.1)
                state["exp_avg_sq"].mul_(0.99)
                p.view(-1)[part].add_(state["exp_avg"], alpha=-group["lr"])


def optimizer_of(kind: str, params: Any) -> Any:
    if kind == "bf16":
        return NarrowAdam(params, state_type=torch.bfloat16)
    if kind in ("ranks1", "ranks8"):
        return NarrowAdam(params, ranks=int(kind[5:]))
    return torch.optim.AdamW(params, lr=1e-4, fused=kind == "fused", foreach=kind == "foreach")


def gpt(
    *,
    batch: int = 8,
    length: int = 512,
    width: int = 1024,
    layers: int = 8,
    vocabulary: int = 16384,
    amp: torch.dtype | None = torch.float16,
    optimizer: str = "foreach",
    again: bool = False,
    chunks: int = 1,
    micro: int = 1,
    set_to_none: bool = True,
    varied: bool = False,
    sharded: bool = False,
) -> Program:
    """Training of a transformer; `micro` backward passes a step; GradScaler where `amp` is fp16."""
    net = Transformer(vocabulary, width, layers, width // 64, again).to(CUDA)
    if sharded:
        from torch.distributed.fsdp import fully_shard

        for layer in net.layers:
            fully_shard(layer)
        fully_shard(net)
    opt = optimizer_of(optimizer, net.parameters())
    scaler = torch.amp.GradScaler(CUDA, enabled=amp is torch.float16)
    tokens = torch.randint(0, 1000, (batch, length), device=CUDA)
    lengths = iter(range(10_000))
    held: dict[str, Any] = {}

    def piece_loss(x: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(net.head(x).float(), wanted, reduction="sum")

    def forward() -> None:
        part = tokens[:, : length - 37 * (next(lengths) * 7 % 11)] if varied else tokens
        with torch.autocast(CUDA, dtype=amp or torch.bfloat16, enabled=amp is not None):
            targets = part.flatten()
            if chunks == 1:
                held["loss"] = F.cross_entropy(net(part).flatten(0, 1).float(), targets)
                return
            x = net.hidden(part).flatten(0, 1)
            total: Any = 0.0
            for piece, wanted in zip(x.chunk(chunks), targets.chunk(chunks), strict=True):
                total = total + checkpoint(piece_loss, piece, wanted, use_reentrant=False)
            held["loss"] = total / len(targets)

    def backward() -> None:
        scaler.scale(held.pop("loss")).backward()

    def update() -> None:
        scaler.step(opt)
        scaler.update()

    phases = [("forward", forward), ("backward", backward)] * micro
    phases += [("optimizer", update), ("zero_grad", lambda: opt.zero_grad(set_to_none=set_to_none))]
    return Program(phases, net, opt)


class Adapted(nn.Module):
    """A frozen linear layer with a trained product of low rank beside it."""

    def __init__(self, inner: nn.Linear, rank: int) -> None:
        super().__init__()
        self.inner = inner.requires_grad_(False)
        self.down = nn.Linear(inner.in_features, rank, bias=False, dtype=inner.weight.dtype)
        self.up = nn.Linear(rank, inner.out_features, bias=False, dtype=inner.weight.dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + self.up(self.down(x))


def lora(*, batch: int = 4, length: int = 512, width: int = 2048, layers: int = 8, again: bool = False) -> Program:
    """Adapters of rank 16 on a frozen bf16 model."""
    net = Transformer(8192, width, layers, width // 128, again).to(torch.bfloat16).requires_grad_(False)
    for layer in net.layers:
        for owner, name in ((layer.attention, "qkv"), (layer.attention, "out"), (layer, "up"), (layer, "down")):
            setattr(owner, name, Adapted(getattr(owner, name), 16))
    net.to(CUDA)
    opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad])
    tokens = torch.randint(0, 1000, (batch, length), device=CUDA)
    held: dict[str, Any] = {}

    def forward() -> None:
        held["loss"] = F.cross_entropy(net(tokens).flatten(0, 1), tokens.flatten())

    phases = [("forward", forward), ("backward", lambda: held.pop("loss").backward())]
    return Program([*phases, ("optimizer", opt.step), ("zero_grad", opt.zero_grad)], net, opt)


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(x + self.bn2(self.conv2(y)))


def conv(*, batch: int = 64, channels: int = 64, blocks: int = 8, size: int = 64) -> Program:
    """A residual network under SGD with momentum, in bf16 autocast, channels last."""
    net = nn.Sequential(
        nn.Conv2d(3, channels, 7, 2, 3), nn.BatchNorm2d(channels), nn.ReLU(),
        *(Residual(channels) for _ in range(blocks)),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 100),
    ).to(CUDA, memory_format=torch.channels_last)  # fmt: skip
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    held: dict[str, Any] = {}

    def load() -> None:
        held["x"] = torch.randn(batch, 3, 2 * size, 2 * size, device=CUDA).to(memory_format=torch.channels_last)
        held["y"] = torch.randint(0, 100, (batch,), device=CUDA)

    def forward() -> None:
        load()
        with torch.autocast(CUDA, dtype=torch.bfloat16):
            held["loss"] = F.cross_entropy(net(held.pop("x")), held.pop("y"))

    phases = [("forward", forward), ("backward", lambda: held.pop("loss").backward())]
    return Program([*phases, ("optimizer", opt.step), ("zero_grad", opt.zero_grad)], net, opt)


class CachedAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.past: tuple[torch.Tensor, torch.Tensor] | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=-1))
        if self.past is not None:
            k, v = torch.cat((self.past[0], k), dim=2), torch.cat((self.past[1], v), dim=2)
        self.past = (k, v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(x)))


class Generator(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(8192, width)
        self.layers = nn.ModuleList(CachedAttention(width, width // 64) for _ in range(layers))
        self.head = nn.Linear(width, 8192)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, -1:]).argmax(-1)


def generate(*, batch: int = 32, width: int = 1024, layers: int = 8, prompt: int = 512) -> Program:
    """Generation, a token a step, with a cache that grows."""
    net = Generator(width, layers).to(CUDA, torch.bfloat16).eval()
    held = {"tokens": torch.randint(0, 1000, (batch, prompt), device=CUDA)}

    @torch.no_grad()
    def forward() -> None:
        held["tokens"] = net(held["tokens"])

    forward()
    return Program([("forward", forward)], net)


def fsdp(**options: Any) -> Program:
    """The transformer sharded by FSDP2 over one rank: its stacks and its buffers, without a second GPU."""
    import os

    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK="0", WORLD_SIZE="1")
    dist.init_process_group("nccl")
    return gpt(**{"layers": 6, "amp": None, "sharded": True, **options})


PROGRAMS: dict[str, Callable[..., Program]] = {
    "gpt": gpt,
    "small_gpt": lambda **o: gpt(**{"batch": 2, "length": 128, "width": 256, "layers": 12, "vocabulary": 2048, **o}),
    "accumulated": lambda **o: gpt(**{"micro": 3, **o}),
    "lora": lora,
    "conv": conv,
    "generate": generate,
    "fsdp": fsdp,
}


def out_of_memory(steps: int) -> None:
    """Training that keeps every loss with its graph until the limit set is reached."""
    torch.cuda.set_per_process_memory_fraction(4 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
    program = gpt(batch=2, layers=4)
    kept = []
    for _ in range(steps):
        kept.append(program.model(torch.randint(0, 1000, (2, 512), device=CUDA)).float().logsumexp(-1).mean())
        program.step()


if __name__ == "__main__":
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    if sys.argv[1] == "out_of_memory":
        out_of_memory(steps)
    else:
        made = PROGRAMS[sys.argv[1]]()
        for _ in range(steps):
            made.step()
        torch.cuda.synchronize()
