"""Space, cells and equations: fields, clouds and graphs that are learnt."""

import itertools

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Module, autocast, good, graphed, n, pair, train
from benchmarks.pairs.sets.eleventh.parts import dense, ids_below, normal


class Field(Module):
    """A radiance field: density and colour of points that are seen from directions. `multiple`:
    widths are padded to multiples of it."""

    def __init__(self, width, multiple):
        self.multiple = multiple
        place, direction = self.padded(63), self.padded(27)
        self.low = dense(place, width, width, width, width)
        self.high = dense(width + place, width, width, width, width)
        self.density = nn.Linear(width, self.padded(1))
        self.seen = nn.Linear(width, width)
        self.colour = dense(width + direction, width // 2, self.padded(3))

    def padded(self, width):
        return -(-width // self.multiple) * self.multiple

    def waves(self, x, octaves):
        """Of 3 numbers 3 + 6 x octaves."""
        angles = (x[..., None] * 2.0 ** torch.arange(octaves, device=DEVICE)).flatten(-2)
        told = [x, angles.sin(), angles.cos()]
        width = 3 + 6 * octaves
        if self.padded(width) > width:
            told.append(x.new_zeros(*x.shape[:-1], self.padded(width) - width))
        return torch.cat(told, -1).bfloat16()

    def forward(self, points, directions):
        place = self.waves(points, 10)
        h = self.low(place).relu()
        h = self.high(torch.cat((h, place), -1)).relu()
        seen = torch.cat((self.seen(h), self.waves(directions, 4)), -1)
        return self.density(h)[..., 0].float().relu(), self.colour(seen)[..., :3].float().sigmoid()


@pair("pad_shapes", found=True)
def statues_waves_63_wide(fixed):
    """A radiance field in bf16 autocast learns a statue from 4096 rays of 64 points; waves tell the
    points in 63 numbers and the directions in 27, and its layers are 63, 319 and 283 wide. The
    remedy pads widths to multiples of 8."""
    rays, depth = n(4096, 8), n(64, 4)
    with torch.device(DEVICE):
        field = Field(n(256, 16), 8 if fixed else 1)
    start = normal(rays, 1, 3)
    direction = F.normalize(normal(rays, 1, 3), dim=-1)
    wanted = torch.rand(rays, 3, device=DEVICE)
    edges = torch.linspace(2, 6, depth + 1, device=DEVICE)

    def loss():
        far = edges[:-1] + torch.rand(rays, depth, device=DEVICE) * edges.diff()
        points = start + far[..., None] * direction
        with autocast():
            density, colour = field(points, direction.expand_as(points))
        through = torch.exp(-density * (4 / depth))
        left = torch.cat((torch.ones_like(through[:, :1]), through[:, :-1]), 1).cumprod(1)
        seen = ((left * (1 - through))[..., None] * colour).sum(1)
        return F.mse_loss(seen, wanted)

    return train(field, loss)


class Scans(Dataset):
    """Scanned things, cut out and made ready with numpy when they are asked for."""

    def __init__(self, things, points, kept):
        rng = np.random.default_rng(3)
        self.clouds = rng.standard_normal((things, points, 3), dtype=np.float32)
        self.kept = kept

    def __len__(self):
        return n(100_000, 64)

    def __getitem__(self, number):
        rng = np.random.default_rng(number)
        cloud = self.clouds[number % len(self.clouds)]
        # a view of the thing: what is nearest to a viewpoint
        far = np.square(cloud - cloud[rng.integers(len(cloud))]).sum(1)
        cloud = cloud[np.argpartition(far, len(cloud) // 2)[: len(cloud) // 2]]
        # a point in each cell of a grid
        cells = np.floor(cloud / 0.02).astype(np.int64) @ np.array([1, 4096, 4096 * 4096])
        cloud = cloud[np.unique(cells, return_index=True)[1]]
        cloud = cloud[rng.choice(len(cloud), self.kept, replace=len(cloud) < self.kept)]
        turn = rng.uniform(0, 2 * np.pi)
        sin, cos = np.sin(turn), np.cos(turn)
        cloud = cloud @ np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]], np.float32)
        cloud = (cloud - cloud.mean(0)) / np.abs(cloud).max()
        cloud += rng.normal(0, 0.01, cloud.shape)
        return cloud.astype(np.float32), number % n(40, 5)


@pair("data_loader_workers", found=True)
def scans_made_ready_in_line(fixed):
    """A network tells 32 scanned things from 2048 points of each; numpy cuts, thins and turns the
    clouds in the loop that trains. The remedy has eight processes do it."""
    width = n(256, 8)
    loader = DataLoader(
        Scans(n(64, 4), n(8000, 200), n(2048, 32)),
        batch_size=n(32, 2),
        shuffle=True,
        drop_last=True,
        num_workers=n(8, 1) if fixed else 0,
        persistent_workers=fixed,
        pin_memory=DEVICE == "cuda",
    )
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    points = dense(3, 64, 128, width, 4 * width)
    head = dense(4 * width, 2 * width, n(40, 5))

    def loss():
        clouds, kinds = (one.to(DEVICE, non_blocking=True) for one in next(batches))
        told = head(points(clouds).amax(1))
        return F.cross_entropy(told.float(), kinds)

    return train(nn.ModuleList((points, head)), loss, cast=True)


def _sampled(nodes, edges):
    """What a sampler has found around some papers: their numbers, and who cites whom."""
    return ids_below(n(400_000, 100), nodes), ids_below(nodes, 2, edges)


@pair("avoid_allocations", found=True, libraries=("torch_geometric",))
def papers_cache_emptied(fixed):
    """A GraphSAGE of torch_geometric tells the subjects of 1024 papers from their neighbourhoods,
    which are not alike in size; the cache of memory is emptied after each step, lest it run out.
    The remedy leaves it."""
    from torch_geometric.nn import SAGEConv

    width, subjects, asked = n(256, 8), n(172, 5), n(1024, 4)
    table = normal(n(400_000, 100), n(128, 8))
    sizes = np.random.default_rng(5).integers(n(40_000, 20), n(90_000, 40), n(16, 2))
    found = [_sampled(int(size), 5 * int(size)) for size in sizes]
    with torch.device(DEVICE):
        layers = nn.ModuleList(
            SAGEConv(a, b) for a, b in itertools.pairwise((table.shape[1], width, width, subjects))
        )
    subject = ids_below(subjects, asked)
    optimizer = torch.optim.Adam(layers.parameters(), 1e-4, fused=True)
    around = itertools.cycle(found)

    def step():
        papers, cites = next(around)
        h = table[papers]
        for layer in layers[:-1]:
            h = layer(h, cites).relu()
        F.cross_entropy(layers[-1](h, cites)[:asked], subject).backward()
        optimizer.step()
        optimizer.zero_grad()
        if not fixed:
            torch.cuda.empty_cache()

    return step


def _counts_likely(counts, mean, spread):
    """How likely counts are under negative binomial distributions."""
    total = torch.log(spread + mean + 1e-8)
    return (
        spread * (torch.log(spread + 1e-8) - total)
        + counts * (torch.log(mean + 1e-8) - total)
        + torch.lgamma(counts + spread)
        - torch.lgamma(spread)
        - torch.lgamma(counts + 1)
    )


@pair("tf32", found=True)
def cells_genes_in_full_fp32(fixed):
    """A variational autoencoder learns the counts of 16 384 genes in 2048 cells, all products in
    full fp32; the remedy allows TF32."""
    torch.backends.cuda.matmul.allow_tf32 = fixed
    genes, width, latent = n(16_384, 32), n(2048, 16), n(64, 4)
    encoder = dense(genes, width, width, 2 * latent)
    decoder = dense(latent, width, width, genes)
    spread = nn.Parameter(torch.zeros(genes, device=DEVICE))
    counts = torch.poisson(torch.rand(n(2048, 4), genes, device=DEVICE) * 3)
    size = counts.sum(1, keepdim=True)

    def loss():
        mean, scale = encoder(torch.log1p(counts)).chunk(2, 1)
        z = mean + torch.randn_like(mean) * torch.exp(scale / 2)
        expected = decoder(z).softmax(1) * size
        apart = 0.5 * (mean.square() + scale.exp() - 1 - scale).sum(1)
        return (apart - _counts_likely(counts, expected, spread.exp()).sum(1)).mean()

    return train(nn.ModuleList((encoder, decoder, nn.ParameterList([spread]))), loss)


def _slopes(of, at):
    return torch.autograd.grad(of.sum(), at, create_graph=True)[0]


@good("cuda_graph", "fused_optimizer", found=True)
def good_plates(version):
    """A network learns how heat spreads in a plate, from second derivatives at 32 768 points, in
    fp32 that the physics needs: small operations, but large enough to keep the GPU full."""
    width = n(512, 8)
    network = dense(3, *[width] * n(6, 2), 1, between=nn.Tanh)
    weights = [*network.parameters()]
    points = torch.rand(n(32_768, 8), 3, device=DEVICE).requires_grad_()
    edge = torch.rand(n(4096, 4), 3, device=DEVICE)
    whole = version == "cuda_graph" and DEVICE == "cuda"
    optimizer = torch.optim.Adam(
        weights, 1e-4, fused=version == "fused_optimizer" or None, capturable=whole
    )

    def step():
        slope = _slopes(network(points), points)
        spread = sum(_slopes(slope[:, axis], points)[:, axis] for axis in range(2))
        inside = (slope[:, 2] - 0.1 * spread).square().mean()
        loss = inside + network(edge).square().mean()
        loss.backward(inputs=weights)
        optimizer.step()
        optimizer.zero_grad(set_to_none=not whole)

    return graphed(step) if whole else step
