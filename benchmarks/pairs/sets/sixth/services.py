"""Services of one GPU, written blind: models that answer, without gradients."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.functional import gelu, interpolate, relu, scaled_dot_product_attention, silu

from benchmarks.pairs.program import DEVICE, Pair, graphed, n
from benchmarks.pairs.sets.sixth.training import Block

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step

HALF = torch.float16 if DEVICE == "cuda" else torch.bfloat16


def robot_moves_by_flow(fixed: bool) -> Step:
    """A robot's next 32 moves flow out of noise in 16 passes of a small transformer; the remedy is a CUDA graph."""
    width, passes, moves = n(256, 32), n(16, 2), n(32, 4)
    with torch.device(DEVICE):
        layers = nn.Sequential(*(Block(width) for _ in range(n(8, 1)))).to(HALF).eval()
        enter, leave = nn.Linear(14, width, dtype=HALF), nn.Linear(width, 14, dtype=HALF)
        camera, noise = torch.randn(1, n(96, 5), width, dtype=HALF), torch.randn(1, moves, 14, dtype=HALF)
        times, found = torch.randn(passes, width, dtype=HALF), torch.zeros(1, moves, 14, dtype=HALF)

    def flow() -> None:
        with torch.no_grad():
            x = noise
            for now in times.unbind():
                seen = layers(torch.cat((camera, enter(x) + now), 1))
                x = x + leave(seen[:, -moves:]) / passes
            found.copy_(x)

    run = graphed(flow) if fixed else flow

    def step() -> list[float]:
        run()
        moves: list[float] = found[0, 0].tolist()
        return moves

    return step


class Denoising(nn.Module):
    """A layer of a denoiser: a picture's places see each other, then the words, by attention written out or fused."""

    def __init__(self, width: int, fixed: bool) -> None:
        super().__init__()
        self.fixed, self.heads, self.width = fixed, width // n(64, 16), width
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.q, self.out = (nn.ModuleList(nn.Linear(width, width) for _ in range(2)) for _ in range(2))
        self.kv = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(2))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def see(self, which: int, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        q = self.q[which](x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.kv[which](other).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if self.fixed:
            seen = scaled_dot_product_attention(q, k, v)
        else:
            scores = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
            seen = scores.float().softmax(-1).to(v.dtype) @ v
        return self.out[which](seen.transpose(1, 2).flatten(2))

    def forward(self, x: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        inner = self.norms[0](x)
        x = x + self.see(0, inner, inner)
        x = x + self.see(1, self.norms[1](x), words)
        return x + self.down(gelu(self.up(self.norms[2](x))))


def denoiser_attention_spelled(fixed: bool) -> Step:
    """A denoiser over 4096 places of a picture, in half precision, attention written out; the remedy fuses it."""
    width = n(512, 32)
    with torch.device(DEVICE):
        layers = nn.ModuleList(Denoising(width, fixed) for _ in range(n(8, 1))).to(HALF).eval()
        latents, words = (torch.randn(2, size, width, dtype=HALF) for size in (n(4096, 16), n(77, 5)))

    def step() -> torch.Tensor:
        with torch.inference_mode():
            x = latents
            for layer in layers:
                x = layer(x, words)
            return x

    return step


class Adapted(nn.Module):
    """A linear layer with an adapter of its own for each request: added one after the other, or all by two products."""

    def __init__(self, before: int, after: int, adapters: int, rank: int, fixed: bool) -> None:
        super().__init__()
        self.fixed, self.plain = fixed, nn.Linear(before, after, bias=False, dtype=HALF)
        self.down = torch.randn(adapters, before, rank, dtype=HALF) / before
        self.up = torch.randn(adapters, rank, after, dtype=HALF) / rank
        self.each = list(zip(self.down.unbind(), self.up.unbind(), strict=True))

    def forward(self, x: torch.Tensor, adapters: list[int], index: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.plain(x)
        if self.fixed:
            return y.baddbmm_(x.bmm(self.down[index]), self.up[index])
        for row, adapter in enumerate(adapters):
            down, up = self.each[adapter]
            y[row] += x[row] @ down @ up
        return y


def adapters_request_by_request(fixed: bool) -> Step:
    """A decoder writes a word for 32 customers, adapters applied in a loop; the remedy is a batched product."""
    width, many, heads = n(2048, 64), n(32, 3), n(16, 2)
    shape = (many, heads, n(512, 9), width // heads)
    with torch.device(DEVICE):
        layers = [
            (
                Adapted(width, 3 * width, many, 16, fixed),
                nn.Linear(width, width, bias=False, dtype=HALF),
                Adapted(width, 4 * width, many, 16, fixed),
                nn.Linear(4 * width, width, bias=False, dtype=HALF),
            )
            for _ in range(n(8, 1))
        ]
        keys, values = (torch.randn(shape, dtype=HALF) for _ in range(2))
        first, index = torch.randn(many, 1, width, dtype=HALF), torch.randperm(many)
    adapters, norm = index.tolist(), (width,)

    def step() -> torch.Tensor:
        x = first
        with torch.inference_mode():
            for qkv, out, up, down in layers:
                q, k, v = qkv(nn.functional.rms_norm(x, norm), adapters, index).unflatten(-1, (3, heads, -1)).unbind(2)
                keys[:, :, -1], values[:, :, -1] = k[:, 0], v[:, 0]
                x = x + out(scaled_dot_product_attention(q.transpose(1, 2), keys, values).transpose(1, 2).flatten(2))
                x = x + down(silu(up(nn.functional.rms_norm(x, norm), adapters, index)))
        return x

    return step


class Playing(nn.Module):
    """A network that judges positions of Go: what to play, and who wins."""

    def __init__(self, channels: int, blocks: int) -> None:
        super().__init__()
        self.enter = nn.Conv2d(17, channels, 3, 1, 1)
        self.convolutions = nn.ModuleList(nn.Conv2d(channels, channels, 3, 1, 1, bias=False) for _ in range(2 * blocks))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2 * blocks))
        self.play, self.win = nn.Conv2d(channels, 1, 1), nn.Linear(channels, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = relu(self.enter(x))
        for at in range(0, len(self.norms), 2):
            y = relu(self.norms[at](self.convolutions[at](x)))
            x = relu(x + self.norms[at + 1](self.convolutions[at + 1](y)))
        return self.play(x).flatten(1).softmax(-1), self.win(x.mean((2, 3))).tanh()


def positions_judged_in_turn(fixed: bool) -> Step:
    """A search of Go has 64 positions judged one after the other and reads each; the remedy has them judged at once."""
    with torch.device(DEVICE):
        model = Playing(n(192, 8), n(16, 1)).to(HALF).eval().to(memory_format=torch.channels_last)
        boards = torch.randn(n(64, 3), 17, 19, 19, dtype=HALF).contiguous(memory_format=torch.channels_last)

    def step() -> list[tuple[torch.Tensor, float]]:
        with torch.inference_mode():
            if fixed:
                plays, wins = model(boards)
                return list(zip(plays.cpu().unbind(), wins[:, 0].tolist(), strict=True))
            found = []
            for board in boards:
                play, win = model(board[None])
                found.append((play[0].cpu(), win.item()))
            return found

    return step


class Growing(nn.Module):
    """From a latent picture to one of twice the size."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(n(32, 4), size) for size in (before, after, after))
        sizes = ((before, after), (after, after), (after, after))
        self.convolutions = nn.ModuleList(nn.Conv2d(one, other, 3, 1, 1) for one, other in sizes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = interpolate(x, scale_factor=2.0)
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            x = convolution(silu(norm(x)))
        return x


def latents_decoded_in_fp32(fixed: bool) -> Step:
    """A generator whose transformer is in bf16, its decoder of pictures in fp32; with the remedy both are bf16."""
    width, side, wide = n(1024, 32), n(32, 4), n(512, 16)
    kind = torch.bfloat16 if fixed else torch.float32
    with torch.device(DEVICE):
        layers = nn.Sequential(*(Block(width) for _ in range(n(6, 1)))).bfloat16().eval()
        sizes = (wide, wide // 2, wide // 2, wide // 4)
        grow = [Growing(before, after) for before, after in itertools.pairwise(sizes)]
        decoder = nn.Sequential(nn.Conv2d(width, wide, 1), *grow, nn.Conv2d(wide // 4, 3, 3, 1, 1))
        decoder = decoder.to(kind).eval().to(memory_format=torch.channels_last)
        noise = torch.randn(n(8, 1), side * side, width, dtype=torch.bfloat16)

    def step() -> torch.Tensor:
        with torch.inference_mode():
            x = noise
            for _ in range(2):
                x = x + layers(x)
            latents = x.transpose(1, 2).unflatten(2, (side, side)).to(kind)
            pixels: torch.Tensor = decoder(latents.contiguous(memory_format=torch.channels_last))
            return pixels.clamp(-1, 1).add(1).mul(127.5).byte()

    return step


def catalogue_embedded_in_fp32(fixed: bool) -> Step:
    """Pictures become vectors by a vision transformer in fp32 with TF32; the remedy is half precision."""
    torch.set_float32_matmul_precision("high")
    width, kind = n(1024, 32), HALF if fixed else torch.float32
    with torch.device(DEVICE):
        layers = [Block(width) for _ in range(n(8, 1))]
        model = nn.Sequential(nn.Conv2d(3, width, 16, 16), nn.Flatten(2)), nn.Sequential(*layers, nn.LayerNorm(width))
        pictures = torch.randint(0, 256, (n(64, 2), 3, n(224, 32), n(224, 32)), dtype=torch.uint8)
    patch, encode = (part.to(kind).eval() for part in model)

    def step() -> torch.Tensor:
        with torch.inference_mode():
            x = encode(patch(pictures.to(kind) / 127.5 - 1).transpose(1, 2)).mean(1)
            vectors: torch.Tensor = nn.functional.normalize(x.float())
            return vectors.cpu()

    return step


PAIRS = (
    Pair("cuda_graph", robot_moves_by_flow, libraries=()),
    Pair("fused_attention", denoiser_attention_spelled, libraries=()),
    Pair("batched_matmul", adapters_request_by_request, libraries=()),
    Pair("batch_calls", positions_judged_in_turn, libraries=()),
    Pair("low_precision", latents_decoded_in_fp32, libraries=()),
    Pair("low_precision", catalogue_embedded_in_fp32, libraries=()),
)
