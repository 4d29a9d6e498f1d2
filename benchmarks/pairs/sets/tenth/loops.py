"""Programs without an optimizer: sampling, simulation, what follows a detector."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, good, graphed, n, pair
from benchmarks.pairs.sets.tenth.blocks import Layer, draw, perceptron


class Coupling(Module):
    """An invertible layer of a normalising flow: one half shifts and scales the other."""

    def __init__(self, width):
        hidden = n(256, 8)
        self.net = perceptron(width // 2, hidden, hidden, width)
        self.register_buffer("order", torch.randperm(width))

    def inverse(self, y):
        kept, moved = y.chunk(2, 1)
        scale, shift = self.net(kept).chunk(2, 1)
        scale = torch.tanh(scale)
        moved = (moved - shift) * torch.exp(-scale)
        return torch.cat((kept, moved), 1)[:, self.order], -scale.sum(1)


@pair("cuda_graph")
def flows_sampled_layer_by_layer(fixed):
    """512 samples are drawn from a normalising flow of 32 couplings, kernel by kernel; the remedy
    replays a CUDA graph."""
    width = n(64, 4)
    flow = nn.ModuleList(Coupling(width) for _ in range(n(32, 2))).to(DEVICE)

    @torch.no_grad()
    def step():
        x = draw(n(512, 4), width)
        density = -0.5 * x.square().sum(1)
        for layer in flow:
            x, change = layer.inverse(x)
            density = density - change
        return x, density

    return graphed(step) if fixed else step


def _day(price, variance, shock, other):
    kappa, theta, xi, rho, dt = 2.0, 0.04, 0.3, -0.7, 1 / 252
    positive = variance.clamp(min=0.0)
    root = torch.sqrt(positive * dt)
    mixed = rho * shock + (1 - rho * rho) ** 0.5 * other
    price = price * torch.exp((0.02 - 0.5 * positive) * dt + root * mixed)
    variance = variance + kappa * (theta - positive) * dt + xi * root * shock
    return price, variance


@pair("compile", early=("fix",))
def options_priced_day_by_day(fixed):
    """An option is priced on four million paths of 40 days, the formula of a day run operator by
    operator; the remedy compiles it."""
    paths = n(4_000_000, 100)
    day = torch.compile(_day, dynamic=False) if fixed else _day

    @torch.no_grad()
    def step():
        price = torch.full((paths,), 100.0, device=DEVICE)
        variance = torch.full((paths,), 0.04, device=DEVICE)
        for _ in range(n(40, 3)):
            price, variance = day(price, variance, draw(paths), draw(paths))
        return (price - 105.0).clamp(min=0.0).mean()

    return step


@pair("low_precision")
def holograms_propagated_in_doubles(fixed):
    """Light passes ten planes by Fourier transforms, in complex128 since NumPy made the transfer
    function; the remedy makes it complex64."""
    side = n(1024, 16)
    fields = torch.polar(torch.ones(n(8, 2), side, side), torch.rand(n(8, 2), side, side))
    fields = fields.to(DEVICE)
    lens = torch.rand(side, side, device=DEVICE)
    frequency = np.fft.fftfreq(side, 4e-6)
    squared = frequency[:, None] ** 2 + frequency[None] ** 2
    wave = 633e-9
    phase = 2 * np.pi * 0.01 * np.sqrt(np.maximum(1 / wave**2 - squared, 0.0))
    transfer = torch.from_numpy(np.exp(1j * phase)).to(DEVICE)
    transfer = transfer.to(torch.complex64) if fixed else transfer

    @torch.no_grad()
    def step():
        light = fields
        for _ in range(n(10, 2)):
            light = torch.fft.ifft2(torch.fft.fft2(light) * transfer) * lens
        return light.abs().square().mean(0)

    return step


@pair("batch_calls", libraries=("torchvision.ops",))
def boxes_suppressed_class_by_class(fixed):
    """Overlapping boxes are removed in a loop over 80 classes; the remedy is torchvision's
    `batched_nms`."""
    from torchvision.ops import batched_nms, nms

    boxes_count = n(1000, 20)
    kinds = n(80, 3)
    head = perceptron(n(1024, 16), n(1024, 16), kinds).requires_grad_(False)
    features = draw(boxes_count, n(1024, 16))
    corner = torch.rand(boxes_count, 2, device=DEVICE) * 500
    size = torch.rand(boxes_count, 2, device=DEVICE) * 100 + 10
    boxes = torch.cat((corner, corner + size), 1)
    noise = 2 * draw(boxes_count, kinds)

    def in_turn(scores):
        found = []
        for kind in range(kinds):
            likely = scores[:, kind] > 0.05
            some = boxes[likely]
            sure = scores[likely, kind]
            kept = nms(some, sure, 0.5)
            label = torch.full((len(kept), 1), float(kind), device=DEVICE)
            found.append(torch.cat((some[kept], sure[kept, None], label), 1))
        return torch.cat(found)

    def at_once(scores):
        number, kind = (scores > 0.05).nonzero(as_tuple=True)
        some = boxes[number]
        sure = scores[number, kind]
        kept = batched_nms(some, sure, kind, 0.5)
        return torch.cat((some[kept], sure[kept, None], kind[kept, None].float()), 1)

    @torch.no_grad()
    def step():
        scores = (head(features) + noise).softmax(1)
        found = at_once(scores) if fixed else in_turn(scores)
        return found[found[:, 4].argsort(descending=True)[:100]].cpu()

    return step


@pair("remove_syncs")
def prompts_masks_compared(fixed):
    """A decoder reads four prompts; each of 24 layers asks `torch.equal` whether its mask is the
    causal one. The remedy asks no more."""
    width = n(768, 16)
    length = n(512, 8)
    stack = nn.ModuleList(Layer(width) for _ in range(n(24, 2)))
    stack = stack.to(DEVICE, torch.bfloat16).requires_grad_(False)
    x = draw(n(4, 1), length, width).bfloat16()
    causal = torch.ones(length, length, dtype=torch.bool, device=DEVICE).tril()
    mask = causal.clone()

    @torch.no_grad()
    def step():
        h = x
        for layer in stack:
            is_causal = fixed or torch.equal(mask, causal)
            h = layer(h, mask=None if is_causal else mask, causal=is_causal)
        return h

    return step


@good("tf32", "cuda_graph")
def good_road_network(version):
    """Speeds spread over the edges of a large road network, by sums that are bound by memory; it
    has no products, and few kernels."""
    torch.backends.cuda.matmul.allow_tf32 = version == "tf32"
    nodes = n(400_000, 50)
    edges = n(2_000_000, 200)
    state = draw(nodes, n(64, 4))
    start = torch.randint(0, nodes, (edges,), device=DEVICE)
    end = torch.randint(0, nodes, (edges,), device=DEVICE)
    weight = torch.rand(edges, 1, device=DEVICE)

    @torch.no_grad()
    def step():
        h = state
        for _ in range(3):
            sums = torch.zeros_like(h).index_add_(0, end, h[start] * weight)
            h = F.normalize(h + 0.1 * sums, dim=1)
        return h

    return graphed(step) if version == "cuda_graph" else step
