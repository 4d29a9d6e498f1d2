"""Graphs and games: enzymes, mazes, racers; good: bridges."""

import itertools

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, good, graphed, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import mlp, noise, on_device, whole

PINNED = DEVICE == "cuda"


class _Deep(Module):
    """A DeeperGCN of torch_geometric, as its example for proteins has it."""

    def __init__(self, seen, along, width, depth, tasks, *, again):
        from torch_geometric.nn import DeepGCNLayer, GENConv

        self.first, self.edge = nn.Linear(seen, width), nn.Linear(along, width)
        self.body = nn.ModuleList(
            DeepGCNLayer(
                GENConv(
                    width,
                    width,
                    aggr="softmax",
                    t=1.0,
                    learn_t=True,
                    num_layers=2,
                    norm="layer",
                ),
                nn.LayerNorm(width),
                nn.ReLU(),
                block="res+",
                dropout=0.0,
                ckpt_grad=again and number % 3 > 0,
            )
            for number in range(depth)
        )
        self.last = nn.Linear(width, tasks)

    def forward(self, x, edges, along):
        x, along = self.first(x), self.edge(along)
        x = self.body[0].conv(x, edges, along)
        for layer in self.body[1:]:
            x = layer(x, edges, along)
        return self.last(self.body[0].act(self.body[0].norm(x)))


@pair("no_recompute", found=True, libraries=("torch_geometric",))
def enzymes_graph_layers_computed_again(fixed):
    """A DeeperGCN of torch_geometric (28 layers, 64 wide) learns 112 tasks of enzymes, from a part of their graph with
    2000 enzymes and 24 000 likenesses a step, TF32 allowed. Its kernels are short, and launches set the pace. The
    example that it comes from has `ckpt_grad=i % 3`: two layers of three are computed again in the backward pass,
    although memory is free. The remedy is `ckpt_grad=False`."""
    torch.set_float32_matmul_precision("high")
    count, edges, tasks = n(2000, 20), n(24_000, 60), n(112, 3)
    model = on_device(lambda: _Deep(8, 8, n(64, 8), n(28, 4), tasks, again=not fixed)).train()
    seen, along, between = noise(count, 8), noise(edges, 8), whole(count, 2, edges)
    true = torch.randint(0, 2, (count, tasks), device=DEVICE).float()

    def loss():
        return F.binary_cross_entropy_with_logits(model(seen, between, along), true)

    return train(model, loss)


class _SumTree:
    """How surprising memories were, in a tree whose nodes know the sum below them."""

    def __init__(self, surprises):
        self.count = len(surprises)
        self.sums = np.zeros(2 * self.count)
        self.sums[self.count :] = surprises
        for node in range(self.count - 1, 0, -1):
            self.sums[node] = self.sums[2 * node] + self.sums[2 * node + 1]

    def update(self, place, surprise):
        """Tell a memory's surprise, and all sums above it."""
        node = place + self.count
        change = surprise - self.sums[node]
        while node:
            self.sums[node] += change
            node //= 2

    def find(self, amount):
        """The memory at which the surprises of it and all before it reach an amount."""
        node = 1
        while node < self.count:
            node *= 2
            if amount > self.sums[node]:
                amount -= self.sums[node]
                node += 1
        return node - self.count


class _Sums:
    """The same on the device: sums of all before, in which many amounts are looked up at once."""

    def __init__(self, surprises):
        self.surprises = torch.from_numpy(surprises).to(DEVICE)

    def total(self):
        """Sums of each surprise and all before it."""
        return self.surprises.cumsum(0)

    def update(self, places, surprises):
        """Tell the surprises of some memories."""
        self.surprises.index_put_((places,), surprises)


@pair("move_host_work", found=True)
def mazes_sum_tree_climbed_in_python(fixed):
    """A robot learns by Q-learning (three layers, 512 wide) to leave mazes, from 512 of 131 072 memories on the GPU a
    step, TF32 allowed, drawn by how surprising they were. A tree of sums is climbed down in Python for each
    memory that is drawn, and up for each surprise that changes, 17 nodes each time, while the GPU waits. The
    remedy has surprises on the GPU: `cumsum`, `searchsorted`, and one write for all."""
    torch.set_float32_matmul_precision("high")
    rows, seen, moves, width, count = n(512, 8), n(64, 5), n(6, 3), n(512, 16), n(131_072, 64)
    model, target = (mlp(seen, width, width, width, moves, between=nn.ReLU) for _ in "ab")
    target.requires_grad_(requires_grad=False)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    now, after = noise(2, count, seen)
    did, reward = whole(moves, count), noise(count)
    random = np.random.default_rng(0)
    surprises = random.uniform(0.1, 1.0, count)
    tree = None if fixed else _SumTree(surprises)
    sums = _Sums(surprises) if fixed else None

    def drawn():
        share = (np.arange(rows) + random.random(rows)) / rows
        if sums:
            total = sums.total()
            amounts = torch.from_numpy(share).to(DEVICE) * total[-1]
            return torch.searchsorted(total, amounts).clamp_(max=count - 1)
        found = [tree.find(amount) for amount in share * tree.sums[1]]
        return torch.tensor(found, device=DEVICE)

    def tell(places, wrong):
        told = wrong.abs().double() + 1e-3
        if sums:
            sums.update(places, told)
            return
        for place, one in zip(places.tolist(), told.tolist(), strict=True):
            tree.update(place, one)

    def step():
        places = drawn()
        with torch.no_grad():
            best = model(after[places]).argmax(1, keepdim=True)
            wanted = reward[places] + 0.99 * target(after[places]).gather(1, best)[:, 0]
        wrong = model(now[places]).gather(1, did[places, None])[:, 0] - wanted
        F.smooth_l1_loss(wrong, torch.zeros_like(wrong)).backward()
        tell(places, wrong.detach())
        optimizer.step()
        optimizer.zero_grad()

    return step


class _Racer(Module):
    """What a racing car sees, what it may do, and what that is worth."""

    def __init__(self, frames, side, width, inner, moves):
        side = ((side - 8) // 4 - 3) // 2 - 1
        self.eye = nn.Sequential(
            nn.Conv2d(frames, width, 8, 4),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 4, 2),
            nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, 1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * width * side**2, inner),
            nn.ReLU(),
        )
        self.actor, self.critic = nn.Linear(inner, moves), nn.Linear(inner, 1)

    def act(self, seen):
        """How likely each move is."""
        return self.actor(self.eye(seen)).log_softmax(-1)

    def worth(self, seen):
        """What the moment is worth."""
        return self.critic(self.eye(seen))[:, 0]

    def both(self, seen):
        """The same, of one look."""
        seen = self.eye(seen)
        return self.actor(seen).log_softmax(-1), self.critic(seen)[:, 0]


@pair("no_recompute", found=True)
def racers_look_twice_at_each_picture(fixed):
    """PPO teaches a racing car from 256 memories a step (four pictures of 84 x 84 each, which lie on the GPU), TF32
    allowed. The actor and the critic share the convolutions that see, but `act(seen)` and `worth(seen)` each
    call them, so that they are computed twice, there and back. Kernels are short, and launches set the pace for
    much of the step. The remedy calls them once for both."""
    torch.set_float32_matmul_precision("high")
    rows, frames, side, moves = n(256, 3), n(4, 2), n(84, 40), n(9, 3)
    model = on_device(lambda: _Racer(frames, side, n(32, 4), n(512, 16), moves)).train()
    seen = torch.rand(n(8, 2), rows, frames, side, side, device=DEVICE)
    did, gained, wanted = whole(moves, rows, 1), noise(rows), noise(rows)
    before = noise(rows).mul(0.1).sub(2.0)
    weights = list(model.parameters())
    optimizer = torch.optim.AdamW(weights, 1e-5, fused=True)
    order = itertools.cycle(range(len(seen)))

    def loss():
        now = seen[next(order)]
        odds, worth = model.both(now) if fixed else (model.act(now), model.worth(now))
        share = (odds.gather(1, did)[:, 0] - before).exp()
        better = torch.minimum(share * gained, share.clamp(0.8, 1.2) * gained).mean()
        unsure = -(odds.exp() * odds).sum(1).mean()
        return F.mse_loss(worth, wanted) - better - 0.01 * unsure

    def step():
        loss().backward()
        torch.nn.utils.clip_grad_norm_(weights, 0.5)
        optimizer.step()
        optimizer.zero_grad()

    return step


class _Bridge(Module):
    """Rounds of a MeshGraphNet: edges learn from their ends, and nodes from their edges."""

    def __init__(self, width, depth):
        self.edges = nn.ModuleList(mlp(3 * width, width, width) for _ in range(depth))
        self.nodes = nn.ModuleList(mlp(2 * width, width, width) for _ in range(depth))

    def forward(self, x, along, ends):
        begin, end = ends
        for edge, node in zip(self.edges, self.nodes, strict=True):
            both = torch.cat((along, x.index_select(0, begin), x.index_select(0, end)), 1)
            along = along + edge(both)
            told = torch.zeros_like(x).index_add(0, end, along)
            x = x + node(torch.cat((x, told), 1))
        return x


@good("cuda_graph", "fused_optimizer", found=True)
def good_bridges(version):
    """A MeshGraphNet (five rounds, 128 wide) learns how bridges bend, from a mesh of 60 000 places and 240 000 edges a
    step, TF32 allowed, with AdamW as it comes. Passes over the edges are long, and weights are few: the host is
    ahead of the GPU. Neither a CUDA graph nor the fused AdamW brings much."""
    torch.set_float32_matmul_precision("high")
    count, edges, width = n(60_000, 20), n(240_000, 60), n(128, 8)
    first, last = mlp(6, width), mlp(width, 3)
    model = nn.ModuleList((first, on_device(lambda: _Bridge(width, n(5, 1))), last)).train()
    captured = version == "cuda_graph"
    fused = True if version == "fused_optimizer" else None
    optimizer = torch.optim.AdamW(
        model.parameters(), 1e-5, fused=fused, capturable=captured and PINNED
    )
    seen, along = noise(count, 6), noise(edges, width)
    ends, true = whole(count, 2, edges), noise(count, 3)
    step = train(optimizer, lambda: F.mse_loss(last(model[1](first(seen), along, ends)), true))
    return graphed(step) if captured else step
