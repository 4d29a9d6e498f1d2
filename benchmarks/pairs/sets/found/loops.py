"""Loops with problems that their users report: samplers, forecasts, offloaded weights, agents, clouds."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, mse_loss, silu

from benchmarks.pairs.program import DEVICE, Pair, n, train
from benchmarks.pairs.sets.everyday.services import HALF

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


class Conditioned(nn.Module):
    """Residual convolutions that are told a prompt and a time."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.into, self.out = nn.Conv2d(4, width, 3, padding=1), nn.Conv2d(width, 4, 3, padding=1)
        self.norms = nn.ModuleList(nn.GroupNorm(8, width) for _ in range(layers))
        self.layers = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(layers))
        self.told = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(layers))

    def forward(self, x: torch.Tensor, prompt: torch.Tensor) -> torch.Tensor:
        x = self.into(x)
        for norm, layer, told in zip(self.norms, self.layers, self.told, strict=True):
            scale, shift = told(silu(prompt))[..., None, None].chunk(2, 1)
            x = x + layer(silu(norm(x) * (1 + scale) + shift))
        return self.out(x)


def guidance_in_two_calls(fixed: bool) -> Step:
    """A sampler in six steps calls its network for the prompt, then for no prompt; the remedy is one batch of both."""
    width, times = n(256, 16), 6
    model = Conditioned(n(14, 2), width).to(DEVICE, HALF).eval()
    latents = torch.randn(1, 4, n(32, 8), n(32, 8), device=DEVICE, dtype=HALF)
    prompts = torch.randn(2, width, device=DEVICE, dtype=HALF)
    waves = torch.randn(times, 1, width, device=DEVICE, dtype=HALF)

    def step() -> torch.Tensor:
        with torch.inference_mode():
            x = latents
            for wave in waves:
                if fixed:
                    with_it, without = model(torch.cat((x, x)), prompts + wave).chunk(2)
                else:
                    with_it, without = model(x, prompts[:1] + wave), model(x, prompts[1:] + wave)
                x = x - 0.05 * (without + 7.5 * (with_it - without))
        return x

    return step


class Forecast(nn.Module):
    """Trend and rest of every channel are carried on by a matrix of its own, one by one or in one product."""

    def __init__(self, channels: int, seen: int, wanted: int, *, fixed: bool) -> None:
        super().__init__()
        self.wanted, self.fixed, self.average = wanted, fixed, nn.AvgPool1d(25, 1, 12, count_include_pad=False)
        rest, trend = ([nn.Linear(seen, wanted) for _ in range(channels)] for _ in range(2))
        if fixed:
            self.weights = nn.ParameterList(
                torch.stack([one.weight.T for one in two]).detach() for two in (rest, trend)
            )
            self.biases = nn.ParameterList(torch.stack([one.bias for one in two]).detach() for two in (rest, trend))
        else:
            self.parts = nn.ModuleList((nn.ModuleList(rest), nn.ModuleList(trend)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        trend = self.average(x)
        if self.fixed:
            parts = zip(self.biases, (x - trend, trend), self.weights, strict=True)
            rest, slow = (torch.baddbmm(b[:, None], y.transpose(0, 1), w) for b, y, w in parts)
            return (rest + slow).transpose(0, 1)
        fast = x - trend
        rest, slow = (x.new_zeros(*x.shape[:2], self.wanted) for _ in range(2))
        for channel in range(x.shape[1]):
            rest[:, channel] = self.parts[0][channel](fast[:, channel])
            slow[:, channel] = self.parts[1][channel](trend[:, channel])
        return rest + slow


def forecast_channel_by_channel(fixed: bool) -> Step:
    """A linear forecast of 96 hours for 62 plants is trained; a loop calls the two matrices of each plant."""
    channels, seen, wanted = n(62, 4), n(336, 48), n(96, 12)
    model = Forecast(channels, seen, wanted, fixed=fixed).to(DEVICE)
    x = torch.randn(64, channels, seen, device=DEVICE)
    y = torch.randn(64, channels, wanted, device=DEVICE)
    return train(model, lambda: mse_loss(model(x), y))


class Block(nn.Module):
    """A transformer's layer without its attention's mask: pictures and sounds are all seen at once."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads, self.first, self.second = width // 64, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.down(gelu(self.up(self.second(x))))


def blocks_left_offloaded(fixed: bool) -> Step:
    """A transformer whose blocks stay in the host's memory until they are called; the GPU has memory to spare."""
    width = n(1536, 64)
    blocks = [Block(width).to(HALF).eval() for _ in range(n(5, 2))]
    x = torch.randn(2, n(2048, 16), width, device=DEVICE, dtype=HALF)
    held = [dict(block.to(DEVICE if fixed else "cpu").named_parameters()) for block in blocks]

    def step() -> torch.Tensor:
        with torch.inference_mode():
            y = x
            for block, weights in zip(blocks, held, strict=True):
                here = {name: weight.to(DEVICE) for name, weight in weights.items()}
                y = torch.func.functional_call(block, here, (y,))
        return y

    return step


class Priorities:
    """Sums of priorities in a tree, leaves last: what has much priority is drawn often."""

    def __init__(self, leaves: int) -> None:
        self.leaves, self.tree, self.chance = leaves, np.ones(2 * leaves), np.random.default_rng(0)
        for node in range(leaves - 1, 0, -1):
            self.tree[node] = self.tree[2 * node] + self.tree[2 * node + 1]

    def draw(self, many: int) -> list[int]:
        """Leaves by priority."""
        drawn = []
        for rest in self.chance.random(many) * self.tree[1]:
            node = 1
            while node < self.leaves:
                node *= 2
                if rest > self.tree[node]:
                    rest -= self.tree[node]
                    node += 1
            drawn.append(node - self.leaves)
        return drawn

    def change(self, drawn: list[int], priorities: np.ndarray) -> None:
        """New priorities of leaves, summed up to the root."""
        for leaf, priority in zip(drawn, priorities, strict=True):
            node = leaf + self.leaves
            self.tree[node] = priority
            while node > 1:
                node //= 2
                self.tree[node] = self.tree[2 * node] + self.tree[2 * node + 1]


def replay_tree_in_python(fixed: bool) -> Step:
    """A Q network learns from 512 memories, drawn by priority from a tree in Python; the remedy draws on the GPU."""
    many, batch, width = n(2**16, 2**6), n(512, 8), n(512, 32)
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 18))
    model.to(DEVICE)
    seen, wanted = torch.randn(many, 64, device=DEVICE), torch.randn(many, 18, device=DEVICE)
    memory, there = None if fixed else Priorities(many), torch.ones(many, device=DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, fused=True)

    def step() -> None:
        if memory is None:
            sums = there.cumsum(0)
            places = torch.searchsorted(sums, torch.rand(batch, device=DEVICE) * sums[-1]).clamp_(max=many - 1)
        else:
            drawn = memory.draw(batch)
            places = torch.tensor(drawn).to(DEVICE)
        error = (model(seen[places]) - wanted[places]).square().mean(1)
        error.mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if memory is None:
            there[places] = error.detach() + 1e-3
        else:
            memory.change(drawn, error.detach().cpu().numpy() + 1e-3)

    return step


class Clouds(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """Shapes of 1024 points, of which those that are farthest from each other are kept."""

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        chance = np.random.default_rng(index)
        points = chance.standard_normal((n(1024, 64), 3), np.float32)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        kept, far, last = [], np.full(len(points), np.inf, np.float32), int(chance.integers(len(points)))
        for _ in range(n(96, 16)):
            kept.append(last)
            np.minimum(far, np.square(points - points[last]).sum(1), out=far)
            last = int(far.argmax())
        return torch.from_numpy(points[kept].T.copy()), index % 40


def farthest_points_in_the_loop(fixed: bool) -> Step:
    """A network of point clouds learns from 16 at a time, whose farthest points numpy finds in the main process."""
    sizes = (3, 64, 128, 256, 1024)
    layers = [x for a, b in itertools.pairwise(sizes) for x in (nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU())]
    model = nn.Sequential(*layers, nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(1024, 40)).to(DEVICE)
    more: dict[str, Any] = {"num_workers": n(12, 1), "persistent_workers": True, "prefetch_factor": 4} if fixed else {}
    batches = iter(torch.utils.data.DataLoader(Clouds(), 16, pin_memory=DEVICE == "cuda", **more))

    def loss() -> Any:
        x, y = (one.to(DEVICE, non_blocking=True) for one in next(batches))
        return cross_entropy(model(x), y)

    return train(model, loss)


PAIRS = (
    Pair("batch_calls", guidance_in_two_calls, libraries=()),
    Pair("batched_matmul", forecast_channel_by_channel, found=True, libraries=()),
    Pair("keep_on_device", blocks_left_offloaded, libraries=()),
    Pair("move_host_work", replay_tree_in_python, found=True, libraries=()),
    Pair("data_loader_workers", farthest_points_in_the_loop, found=True, libraries=()),
)
