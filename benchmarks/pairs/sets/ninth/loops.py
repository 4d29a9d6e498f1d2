"""Inference, simulation and search: loops without an optimizer."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, good, graphed, n, pair


@pair("cuda_graph")
def filters_tracked_eagerly(fixed):
    """A Kalman filter follows 4,000 objects for 24 moments, matrix by matrix; the remedy is a CUDA
    graph."""
    objects = n(4000, 8)
    state = torch.randn(objects, 8, 1, device=DEVICE)
    spread = torch.eye(8, device=DEVICE).repeat(objects, 1, 1)
    move = torch.randn(8, 8, device=DEVICE) * 0.1
    look = torch.randn(3, 8, device=DEVICE)
    seen = torch.randn(n(24, 2), objects, 3, 1, device=DEVICE)
    noise = torch.eye(3, device=DEVICE)

    @torch.no_grad()
    def step():
        x = state
        p = spread
        for y in seen:
            x = move @ x
            p = move @ p @ move.t() + 0.01
            s = look @ p @ look.t() + noise
            gain = p @ look.t() @ (s * 0.1)
            x = x + gain @ (y - look @ x)
            p = p - gain @ look @ p
        return x

    return graphed(step) if fixed else step


@pair("remove_syncs")
def means_asked_whether_they_moved(fixed):
    """K-means asks after each of 20 rounds whether its means still move; the remedy asks at the
    end."""
    points = torch.randn(n(100_000, 100), 16, device=DEVICE)
    first = points[: n(64, 4)].clone()

    @torch.no_grad()
    def step():
        means = first
        for _ in range(20):
            nearest = torch.cdist(points, means).argmin(1)
            shares = F.one_hot(nearest, len(means)).float()
            moved = (shares.t() @ points) / shares.sum(0)[:, None].clamp(min=1)
            shift = (moved - means).norm()
            means = moved
            if not fixed and shift.item() < 1e-12:
                break
        return shift.item()

    return step


@pair("batch_calls")
def questions_looked_up_singly(fixed):
    """The nearest of 200,000 vectors is sought for 64 questions one by one; the remedy seeks for
    all at once."""
    known = torch.randn(n(200_000, 100), 128, device=DEVICE)
    asked = torch.randn(n(64, 4), 128, device=DEVICE)

    @torch.no_grad()
    def step():
        if fixed:
            return (asked @ known.t()).topk(8, 1).indices
        return torch.stack([(known @ one).topk(8).indices for one in asked])

    return step


@pair("fuse_elementwise")
def bodies_pulled_term_by_term(fixed):
    """Forces among 3,000 bodies, each term written out; the remedy compiles the formula."""
    place = torch.randn(n(3000, 20), 3, device=DEVICE)
    mass = torch.rand(n(3000, 20), device=DEVICE)

    def pull(place, mass):
        away = place[None] - place[:, None]
        square = away.square().sum(-1) + 0.01
        strength = mass[None] / (square * square.sqrt())
        damped = strength * torch.exp(-square) + strength * 0.1
        return (away * damped[..., None]).sum(1)

    called = torch.compile(pull) if fixed else pull

    @torch.no_grad()
    def step():
        return called(place, mass)

    return step


@pair("low_precision")
def kernels_factored_in_doubles(fixed):
    """A Gaussian process multiplies its kernels in doubles that nobody asked for; the remedy is
    fp32."""
    kind = torch.float32 if fixed else torch.float64
    points = torch.randn(n(3000, 32), 64, device=DEVICE, dtype=kind)
    mix = torch.randn(n(3000, 32), n(3000, 32), device=DEVICE, dtype=kind)

    @torch.no_grad()
    def step():
        kernel = torch.exp(-torch.cdist(points, points).square() / 64)
        return (mix @ kernel @ mix.t()).diagonal().sum()

    return step


@pair("batched_matmul")
def experts_called_in_turn(fixed):
    """Thirty-two experts of one size are called in turn on their equal shares; the remedy is a
    batched matmul."""
    experts = n(32, 4)
    width = n(512, 8)
    up = torch.randn(experts, width, 2 * width, device=DEVICE, dtype=torch.bfloat16)
    down = torch.randn(experts, 2 * width, width, device=DEVICE, dtype=torch.bfloat16)
    x = torch.randn(experts, n(128, 4), width, device=DEVICE, dtype=torch.bfloat16)

    @torch.no_grad()
    def step():
        if fixed:
            return torch.relu(x @ up) @ down
        parts = zip(x, up, down, strict=True)
        return torch.stack([torch.relu(part @ a) @ b for part, a, b in parts])

    return step


@pair("cuda_graph")
def guided_and_free_in_turn(fixed):
    """A sampler calls its network twice a step, with and without guidance; the remedy is a CUDA
    graph of both."""
    width = n(384, 16)
    layer = nn.TransformerEncoderLayer(width, 6 if width == 384 else 2, 4 * width, 0.0)
    model = nn.TransformerEncoder(layer, n(8, 1), enable_nested_tensor=False)
    model = model.to(DEVICE, torch.bfloat16).eval()
    x = torch.randn(n(64, 4), 1, width, device=DEVICE, dtype=torch.bfloat16)
    hint = torch.randn_like(x)

    @torch.no_grad()
    def step():
        free = model(x)
        guided = model(x + hint)
        return x - 0.1 * (free + 3 * (guided - free))

    return graphed(step) if fixed else step


@pair("keep_on_device")
def tables_sent_for_each_query(fixed):
    """A table of 64 MB is sent to the GPU for each query; the remedy leaves it there."""
    table = torch.randn(n(16_000_000, 1000))
    there = table.to(DEVICE)
    asked = torch.randint(0, len(table), (n(1_000_000, 10),), device=DEVICE)

    @torch.no_grad()
    def step():
        whole = there if fixed else table.to(DEVICE)
        return whole[asked].view(-1, 10).sum(1).square().mean().item()

    return step


@pair("batch_calls")
def columns_embedded_one_by_one(fixed):
    """Eighty columns are looked up in eighty tables of one width; the remedy is one table."""
    columns = n(80, 4)
    rows = 1000
    tables = nn.ModuleList(nn.Embedding(rows, 32) for _ in range(columns)).to(DEVICE)
    one = nn.Embedding(rows * columns, 32).to(DEVICE)
    first = torch.arange(columns, device=DEVICE) * rows
    x = torch.randint(0, rows, (n(512, 4), columns), device=DEVICE)
    last = nn.Linear(columns * 32, 16).to(DEVICE)

    @torch.no_grad()
    def step():
        if fixed:
            return last(one(x + first).flatten(1))
        found = [table(x[:, i]) for i, table in enumerate(tables)]
        return last(torch.cat(found, 1))

    return step


@good("cuda_graph", "low_precision")
def good_solver(version):
    """A solver in bf16 whose products fill the GPU: launches are hidden, the type is small."""
    kind = torch.bfloat16
    weight = torch.randn(n(8192, 16), n(8192, 16), device=DEVICE, dtype=kind)
    x = torch.randn(n(8192, 16), n(8192, 16), device=DEVICE, dtype=kind)

    @torch.no_grad()
    def step():
        h = x
        for _ in range(6):
            h = torch.relu(weight @ h) * 0.01
        return h

    return graphed(step) if version == "cuda_graph" else step
