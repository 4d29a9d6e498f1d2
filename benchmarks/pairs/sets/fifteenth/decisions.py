"""Decisions and measurements: drones, sales, films, adverts, proteins, citations."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, autocast, good, graphed, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import noise, on_device, whole


def _turned(q, v):
    """Vectors turned by quaternions."""
    real, rest = q[:, :1], q[:, 1:]
    crossed = 2 * torch.linalg.cross(rest, v)
    return v + real * crossed + torch.linalg.cross(rest, crossed)


def _flown(state, push, dt=0.01):
    """Where drones are a moment later: place, speed, quaternion, spin."""
    place, speed, q, spin = state.split((3, 3, 4, 3), 1)
    lift = torch.zeros_like(speed)
    lift[:, 2] = 4 * push.mean(1)
    force = _turned(q, lift) - 0.1 * speed
    force[:, 2] -= 9.81
    roll = push[:, 0] - push[:, 2]
    pitch = push[:, 1] - push[:, 3]
    yaw = push[:, 0] - push[:, 1] + push[:, 2] - push[:, 3]
    torque = torch.stack((roll, pitch, 0.1 * yaw), 1) - 0.05 * spin
    a, b, c, d = q.unbind(1)
    x, y, z = spin.unbind(1)
    change = (
        -b * x - c * y - d * z,
        a * x + c * z - d * y,
        a * y - b * z + d * x,
        a * z + b * y - c * x,
    )
    q = F.normalize(q + 0.5 * dt * torch.stack(change, 1), dim=1)
    parts = place + dt * speed, speed + dt * force, q, spin + dt * torque
    return torch.cat(parts, 1)


@pair("cuda_graph")
def drones_simulated_kernel_by_kernel(fixed):
    """A policy flies 4096 simulated drones on the GPU for PPO, 16 moments a step: it is asked, noise is
    added, the physics are integrated, what flew away begins again, and all is stored. Every moment
    is some hundred small kernels. The remedy captures the 16 moments in a CUDA graph."""
    rows, moments, wide = n(4096, 4), n(16, 2), n(128, 8)
    nets = [(13, wide), (wide, wide), (wide, 5)]

    def policy():
        parts = [part for size in nets for part in (nn.Linear(*size), nn.ELU())]
        return nn.Sequential(*parts[:-1])

    policy = on_device(policy)
    home = torch.zeros(1, 13, device=DEVICE)
    home[:, 2] = home[:, 6] = 1
    state = home.repeat(rows, 1)
    stored = torch.zeros(moments, rows, 13 + 4 + 4, device=DEVICE)

    @torch.no_grad()
    def step():
        now = state
        for kept in stored:
            told = policy(now)
            mean, value = told[:, :4], told[:, 4:]
            action = mean + 0.3 * torch.randn_like(mean)
            chance = -(((action - mean) / 0.3) ** 2).sum(1, keepdim=True) / 2
            later = _flown(now, 2.45 + action.clamp(-1, 1))
            off = (later[:, :3] - home[:, :3]).norm(dim=1, keepdim=True)
            reward = torch.exp(-off) - 0.01 * action.square().sum(1, keepdim=True)
            done = (off > 3) | (later[:, 2:3] < 0.1)
            kept.copy_(torch.cat((now, action, chance, value, reward, done.float()), 1))
            now = torch.where(done, home, later)
        state.copy_(now)
        return stored

    return graphed(step) if fixed else step


class _Foretold(Module):
    """What is sold later, as DeepAR tells it: an LSTM, then mean and spread."""

    def __init__(self, told, width, fused):
        self.whole = nn.LSTM(told, width, 2, batch_first=True)
        self.last = nn.Linear(width, 2)
        self.cells = None
        if not fused:
            self.cells = nn.ModuleList((nn.LSTMCell(told, width), nn.LSTMCell(width, width)))
            for number, cell in enumerate(self.cells):
                for name, weight in cell.named_parameters():
                    weight.data.copy_(getattr(self.whole, f"{name}_l{number}"))
            self.whole = None

    def forward(self, x):
        if self.whole:
            return self.last(self.whole(x)[0])
        states, told = [None, None], []
        for now in x.unbind(1):
            for number, cell in enumerate(self.cells):
                states[number] = cell(now, states[number])
                now = states[number][0]
            told.append(self.last(now))
        return torch.stack(told, 1)


@pair("fused_rnn", found=True)
def sales_foretold_cell_by_cell(fixed):
    """A model like DeepAR learns from 256 series of sales a step (96 days, known as it learns) what is sold
    next day: two layers of `nn.LSTMCell` that a loop calls day by day. The remedy is `nn.LSTM`."""
    rows, days, told, width = n(256, 2), n(96, 5), n(24, 3), n(128, 8)
    known, sold = noise(rows, days, told), noise(rows, days)
    model = on_device(lambda: _Foretold(told, width, fixed)).train()

    def loss():
        mean, spread = model(known).unbind(-1)
        return F.gaussian_nll_loss(mean, sold, F.softplus(spread) + 1e-3)

    return train(model, loss)


class _Taste(Module):
    """SASRec: what somebody watches next."""

    def __init__(self, films, width, long):
        self.films = nn.Embedding(films, width)
        self.places = nn.Parameter(torch.zeros(long, width))
        self.heads = n(4, 2)
        sizes = (width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)
        self.body = nn.ModuleList(
            nn.ModuleList(
                (nn.LayerNorm(width), nn.LayerNorm(width), *(nn.Linear(*s) for s in sizes))
            )
            for _ in range(2)
        )
        self.calm = nn.LayerNorm(width)

    def forward(self, watched):
        x = self.films(watched) + self.places
        for before, after, asked, joined, lifted, lowered in self.body:
            told = asked(before(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            seen = F.scaled_dot_product_attention(*told, is_causal=True)
            x = x + joined(seen.transpose(1, 2).flatten(2))
            x = x + lowered(F.gelu(lifted(after(x))))
        return F.linear(self.calm(x), self.films.weight)


@pair("pad_shapes", found=True)
def films_scored_for_an_odd_catalogue(fixed):
    """A SASRec (two layers, 256 wide) learns in bf16 autocast which film 64 people watch next, after each
    of 200: all films of MovieLens-20M are scored, and one more that stands for none: 26745. Rows of
    an odd length suit no Tensor Core. The remedy has 26752 rows, of which some never are a film."""
    films = n(26745, 51)
    rows, long, width = n(64, 2), n(200, 5), n(256, 16)
    padded = (films + 63) // 64 * 64 if fixed else films
    model = on_device(lambda: _Taste(padded, width, long)).train()
    watched = whole(films - 1, rows, long + 1) + 1

    def loss():
        scores = model(watched[:, :-1])
        return F.cross_entropy(scores.flatten(0, 1), watched[:, 1:].flatten(), ignore_index=0)

    return train(model, loss, cast=True)


def _expert(told, width):
    """A small net of a mixture."""
    return nn.Sequential(nn.Linear(told, width), nn.ReLU(), nn.Linear(width, width // 2), nn.ReLU())


class _Mixture(Module):
    """MMoE: experts that several tasks share, each by a gate of its own."""

    def __init__(self, told, width, experts, tasks, together):
        nets = [_expert(told, width) for _ in range(experts)]
        self.gates = nn.ModuleList(nn.Linear(told, experts) for _ in range(tasks))
        self.towers = nn.ModuleList(nn.Linear(width // 2, 1) for _ in range(tasks))
        self.experts = None if together else nn.ModuleList(nets)
        if together:
            stacked = [torch.stack([net[i].weight.detach().T for net in nets]) for i in (0, 2)]
            added = [torch.stack([net[i].bias.detach()[None] for net in nets]) for i in (0, 2)]
            self.weights, self.biases = nn.ParameterList(stacked), nn.ParameterList(added)

    def known(self, x):
        """What each expert says: rows, experts, width."""
        if self.experts:
            return torch.stack([expert(x) for expert in self.experts], 1)
        h = x.expand(len(self.weights[0]), *x.shape)
        for weight, bias in zip(self.weights, self.biases, strict=True):
            h = torch.baddbmm(bias, h, weight).relu()
        return h.transpose(0, 1)

    def forward(self, x):
        known, told = self.known(x), []
        for gate, tower in zip(self.gates, self.towers, strict=True):
            mixed = torch.bmm(gate(x).softmax(-1)[:, None].to(known.dtype), known)
            told.append(tower(mixed.squeeze(1)))
        return torch.cat(told, 1)


@pair("batched_matmul", found=True)
def adverts_experts_called_one_by_one(fixed):
    """A recommender learns in bf16 autocast six things about 4096 shown adverts a step: clicked, liked,
    bought and so on. Its 32 experts (MMoE) are small nets in a list, called one by one. The remedy
    stacks their weights, for one batched product a layer."""
    rows, fields, each, experts, tasks = n(4096, 4), n(26, 3), 16, n(32, 3), n(6, 2)
    kinds = n(10_000, 10)
    table = on_device(lambda: nn.Embedding(fields * kinds, each))
    model = on_device(lambda: _Mixture(fields * each, n(256, 16), experts, tasks, fixed)).train()
    shown = whole(kinds, rows, fields) + kinds * torch.arange(fields, device=DEVICE)
    wanted = whole(2, rows, tasks).float()

    def loss():
        with autocast():
            told = model(table(shown).flatten(1))
        return F.binary_cross_entropy_with_logits(told.float(), wanted)

    return train(nn.ModuleList((table, model)), loss)


class _Triangle(Module):
    """AlphaFold's product over triangles of residues, gated."""

    def __init__(self, width, outgoing):
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.left, self.right = nn.Linear(width, width), nn.Linear(width, width)
        self.left_gate, self.right_gate = nn.Linear(width, width), nn.Linear(width, width)
        self.last, self.gate = nn.Linear(width, width), nn.Linear(width, width)
        self.product = "bikc,bjkc->bijc" if outgoing else "bkic,bkjc->bijc"

    def forward(self, pairs, mask):
        x = self.before(pairs)
        left = mask * torch.sigmoid(self.left_gate(x)) * self.left(x)
        right = mask * torch.sigmoid(self.right_gate(x)) * self.right(x)
        told = self.after(torch.einsum(self.product, left, right))
        return pairs + torch.sigmoid(self.gate(x)) * self.last(told)


class _Folding(Module):
    """Triangles both ways, and a gated transition."""

    def __init__(self, width):
        self.out, self.back = _Triangle(width, True), _Triangle(width, False)
        self.calm = nn.LayerNorm(width)
        self.lifted, self.lowered = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)

    def forward(self, pairs, mask):
        pairs = self.back(self.out(pairs, mask), mask)
        gate, lifted = self.lifted(self.calm(pairs)).chunk(2, -1)
        return pairs + self.lowered(F.silu(gate) * lifted)


@pair("compile", found=True, early=("fix",))
def proteins_pairs_gated_in_eager(fixed):
    """A stack like AlphaFold's (two blocks of triangles, 128 wide) learns distances of the residues of a
    protein of 384 from their pairs, in bf16 autocast: gates, masks and normalisation of a big
    tensor, a kernel each. The remedy compiles the blocks."""
    long, width, kinds = n(384, 5), n(128, 8), n(64, 4)
    blocks = on_device(lambda: nn.ModuleList(_Folding(width) for _ in range(n(2, 1))))
    if fixed:
        for block in blocks:
            block.compile()
    last = on_device(lambda: nn.Linear(width, kinds))
    pairs = noise(1, long, long, width)
    there = torch.arange(long, device=DEVICE) < long - n(16, 1)
    mask = (there[:, None] & there)[None, :, :, None].float()
    apart = whole(kinds, 1, long, long)

    def loss():
        x = pairs
        for block in blocks:
            x = block(x, mask)
        told = last(x + x.transpose(1, 2))
        return F.cross_entropy(told.flatten(0, 2).float(), apart.flatten())

    return train(nn.ModuleList((*blocks, last)), loss, cast=True)


class _Spread(torch.autograd.Function):
    """The product with a symmetric sparse matrix, which is its own transposed."""

    @staticmethod
    def forward(ctx, links, x):
        ctx.links = links
        return links @ x

    @staticmethod
    def backward(ctx, grad):
        return None, ctx.links @ grad.contiguous()


def _links(papers, cited):
    """A symmetric graph as a sparse matrix, normalised by degrees as a GCN has it."""
    ends = torch.randint(0, papers, (2, papers * cited), device=DEVICE)
    own = torch.arange(papers, device=DEVICE)
    ends = torch.cat((ends, ends.flip(0), own.expand(2, -1)), 1)
    degree = torch.bincount(ends[0], minlength=papers).float()
    share = (degree[ends[0]] * degree[ends[1]]).rsqrt()
    return torch.sparse_coo_tensor(ends, share, (papers, papers)).coalesce().to_sparse_csr()


@good("remove_syncs", found=True)
def good_references(version):
    """A GCN of three layers (256 wide) learns the fields of 169343 papers from all of them and their
    citations (arXiv), TF32 allowed. The graph is a sparse matrix, used as it is for the way back;
    after each step the loss is read, to be printed."""
    torch.set_float32_matmul_precision("high")
    papers, width, kinds = n(169_343, 30), n(256, 8), n(40, 3)
    links = _links(papers, n(7, 2))
    sizes = [(n(128, 4), width), (width, width), (width, kinds)]
    layers = on_device(lambda: nn.ModuleList(nn.Linear(*size) for size in sizes)).train()
    optimizer = torch.optim.Adam(layers.parameters(), 0.01, fused=True)
    told, names = noise(papers, sizes[0][0]), whole(kinds, papers)

    def step():
        x = told
        for number, layer in enumerate(layers):
            x = F.relu(x) if number else x
            narrow = layer.out_features <= layer.in_features
            x = _Spread.apply(links, layer(x)) if narrow else layer(_Spread.apply(links, x))
        loss = F.cross_entropy(x, names)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach() if version == "remove_syncs" else loss.item()

    return step
