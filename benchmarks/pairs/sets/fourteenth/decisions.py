"""Decisions and tables: hands, walkers, clicks, flights, hospitals; and citations."""

import itertools

import numpy as np
import torch
from torch import nn
from torch.autograd.functional import jacobian
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Module, autocast, good, graphed, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import layers, mlp, noise, on_device, whole


@pair("batch_calls")
def hands_slopes_row_by_row(fixed):
    """A robot's hand of 24 joints is posed so that 21 points of it are where a film shows them, by three
    rounds of Gauss and Newton a step, for 1024 hands at once. `jacobian` of PyTorch makes a backward
    pass for each of 63 coordinates, which is its default. The remedy is `vectorize=True`."""
    torch.set_float32_matmul_precision("high")
    rows, joints, told, width = n(1024, 3), n(24, 4), n(63, 6), n(256, 8)
    hand = mlp(joints, width, width, told).requires_grad_(requires_grad=False)
    film = itertools.cycle(noise(n(16, 2), rows, told))
    damping = 0.1 * torch.eye(joints, device=DEVICE)

    def all_told(pose):
        return hand(pose).sum(0)

    def step():
        seen = next(film)
        pose = torch.zeros(rows, joints, device=DEVICE)
        for _ in range(n(3, 1)):
            slopes = jacobian(all_told, pose, vectorize=fixed).transpose(0, 1)
            missed = (seen - hand(pose))[..., None]
            normal = slopes.mT @ slopes + damping
            moved, _ = torch.linalg.solve_ex(normal, slopes.mT @ missed)
            pose = pose + moved.squeeze(-1)
        return pose

    return step


def _drawn_memories(count, told, moves):
    """What a walker remembers: where it was, what it did, what that was worth, where it was then."""
    drawn = np.random.default_rng(3)
    widths = (told, moves, 1, told)
    parts = [drawn.standard_normal((count, width), np.float32) for width in widths]
    return list(zip(*parts, strict=True))


class Twins(Module):
    """Two judges of what a walker does, of which the stricter counts."""

    def __init__(self, told, moves, width):
        self.first = mlp(told + moves, width, width, 1, between=nn.ReLU)
        self.second = mlp(told + moves, width, width, 1, between=nn.ReLU)

    def forward(self, state, move):
        both = torch.cat((state, move), 1)
        return self.first(both), self.second(both)


@pair("move_host_work")
def walkers_memories_made_of_lists(fixed):
    """A walker of 376 numbers learns by TD3 from 256 memories a step. The memories are tuples of numpy
    arrays, and `torch.tensor` makes a tensor of a list of them, which it walks through number by
    number. The remedy has numpy stack the arrays first."""
    torch.set_float32_matmul_precision("high")
    rows, told, moves, width = n(256, 4), n(376, 6), n(17, 2), n(256, 8)
    memories = _drawn_memories(n(10_000, 20), told, moves)
    drawn = np.random.default_rng(5)
    actor, judge = mlp(told, width, width, moves, between=nn.ReLU), Twins(told, moves, width)
    slow_actor = mlp(told, width, width, moves, between=nn.ReLU)
    slow_judge = Twins(told, moves, width)
    of_actor = torch.optim.AdamW(actor.parameters(), 3e-4, fused=True)
    of_judge = torch.optim.AdamW(judge.parameters(), 3e-4, fused=True)
    followers = [*slow_actor.parameters(), *slow_judge.parameters()]
    leaders = [*actor.parameters(), *judge.parameters()]

    def on_gpu(arrays):
        if fixed:
            return torch.from_numpy(np.stack(arrays)).to(DEVICE)
        return torch.tensor(arrays, dtype=torch.float32, device=DEVICE)

    def step():
        some = [memories[number] for number in drawn.integers(len(memories), size=rows)]
        state, move, worth, later = map(on_gpu, zip(*some, strict=True))
        with torch.no_grad():
            planned = slow_actor(later).tanh()
            planned = planned + (0.2 * torch.randn_like(planned)).clamp(-0.5, 0.5)
            wanted = worth + 0.99 * torch.minimum(*slow_judge(later, planned.clamp(-1, 1)))
        sum(F.mse_loss(one, wanted) for one in judge(state, move)).backward()
        of_judge.step()
        (-judge(state, actor(state).tanh())[0].mean()).backward()
        of_actor.step()
        of_judge.zero_grad()
        of_actor.zero_grad()
        with torch.no_grad():
            torch._foreach_lerp_(followers, leaders, 0.005)

    return step


@pair("faster_kernels", found=True)
def clicks_gradients_of_the_whole_table(fixed):
    """A recommender learns by Adagrad who clicks, from 16 384 people a step with 26 ids each, which are
    looked up in a table of six million rows. The gradient of the table is dense: it is filled with
    zeros, and Adagrad goes through all rows, although few were looked up. The remedy is
    `sparse=True`, by which Adagrad learns the same."""
    torch.set_float32_matmul_precision("high")
    rows, columns, ids, width = n(16_384, 4), n(26, 3), n(6_000_000, 60), n(128, 8)
    table = on_device(lambda: nn.Embedding(ids, width, sparse=fixed))
    wide = columns * width
    top = mlp(wide + 13, n(1024, 8), n(512, 8), 1, between=nn.ReLU)
    known, numbers = whole(ids, n(4, 2), rows, columns), noise(rows, 13)
    clicked = (torch.rand(rows, device=DEVICE) < 0.03).float()
    people = itertools.cycle(known)
    optimizer = torch.optim.Adagrad([*table.parameters(), *top.parameters()], 0.01)

    def loss():
        seen = table(next(people)).flatten(1)
        told = top(torch.cat((seen, numbers), 1)).squeeze(-1)
        return F.binary_cross_entropy_with_logits(told, clicked)

    return train(optimizer, loss)


class Flights(Dataset):
    """Flights, each told by named numbers; `late` is what is to be learnt."""

    def __init__(self, count, fields):
        drawn = np.random.default_rng(8)
        names = (*(f"field_{number}" for number in range(fields)), "late")
        self.columns = {name: drawn.standard_normal(count, np.float32) for name in names}

    def __len__(self):
        return len(self.columns["late"])

    def __getitem__(self, number):
        return {name: column[number] for name, column in self.columns.items()}


class Fields(Module):
    """A place for each named number of a row: the number times a vector, and another vector."""

    def __init__(self, fields, width):
        self.weight = nn.Parameter(torch.randn(fields, width) * 0.1)
        self.bias = nn.Parameter(torch.randn(fields, width) * 0.1)

    def forward(self, numbers):
        return torch.addcmul(self.bias, numbers[..., None], self.weight)


@pair("data_loader_workers", found=True)
def flights_collated_field_by_field(fixed):
    """A transformer for tables learns in bf16 autocast how late 4096 flights a step are. A flight is a
    dict of 21 numbers, and the loader joins the flights of a batch field by field in the loop that
    trains. The remedy has eight workers do it."""
    rows, fields, width = n(4096, 4), n(20, 3), n(192, 16)
    loader = DataLoader(
        Flights(n(200_000, 16), fields),
        batch_size=rows,
        shuffle=True,
        num_workers=n(8, 1) if fixed else 0,
        persistent_workers=fixed,
        drop_last=True,
    )
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    first, body = on_device(lambda: Fields(fields, width)), layers(width, n(3, 1))
    last = mlp(width, 1)

    def loss():
        flights = next(batches)
        late = flights.pop("late").to(DEVICE)
        numbers = torch.stack([*flights.values()], 1).to(DEVICE)
        with autocast():
            told = last(body(first(numbers)).mean(1)).squeeze(-1)
        return F.mse_loss(told.float(), late)

    return train(nn.ModuleList((first, body, last)), loss)


@pair("keep_on_device")
def hospitals_weights_averaged_by_numpy(fixed):
    """Four hospitals learn from heartbeats by federated averaging, simulated on one GPU: each takes the
    common weights, and makes two steps in bf16 autocast. Weights go to the host and back as numpy
    arrays for each hospital, as a framework for many machines sends them, and numpy averages them.
    The remedy leaves them on the GPU."""
    rows, length, width, kinds = n(64, 2), n(256, 6), n(256, 16), n(27, 3)
    first, body, last = mlp(48, width), layers(width, n(6, 1)), mlp(width, kinds)
    weights = [*nn.ModuleList((first, body, last)).parameters()]
    hospitals = [(noise(rows, length, 48), whole(kinds, rows)) for _ in range(n(4, 2))]

    def given_away():
        if fixed:
            return [weight.detach().clone() for weight in weights]
        return [weight.detach().to("cpu", copy=True).numpy() for weight in weights]

    @torch.no_grad()
    def take(given):
        for weight, one in zip(weights, given, strict=True):
            weight.copy_(torch.as_tensor(one))

    def learn(beats, names):
        optimizer = torch.optim.SGD(weights, 1e-3)
        for _ in range(2):
            with autocast():
                told = last(body(first(beats)).mean(1))
            F.cross_entropy(told.float(), names).backward()
            optimizer.step()
            optimizer.zero_grad()

    common = given_away()

    def step():
        nonlocal common
        learnt = []
        for beats, names in hospitals:
            take(common)
            learn(beats, names)
            learnt.append(given_away())
        common = [sum(parts) / len(parts) for parts in zip(*learnt, strict=True)]

    return step


@good("cuda_graph", "fused_optimizer", found=True, libraries=("torch_geometric",))
def good_citations(version):
    """Three GraphSAGE layers of torch_geometric learn the subjects of 200,000 papers from all of two
    million citations at once, TF32 allowed. Kernels are few and large, for each citation has 256
    numbers to carry; the weights that AdamW steps through are small."""
    from torch_geometric.nn import SAGEConv

    torch.set_float32_matmul_precision("high")
    papers, citations, width, kinds = n(200_000, 20), n(2_000_000, 60), n(256, 8), n(40, 3)
    body = nn.ModuleList(SAGEConv(width, width) for _ in range(3)).to(DEVICE)
    last = mlp(width, kinds)
    known, ends = noise(papers, width), whole(papers, 2, citations)
    subjects = whole(kinds, papers)
    captured = version == "cuda_graph" and DEVICE == "cuda"
    optimizer = torch.optim.AdamW(
        [*body.parameters(), *last.parameters()],
        1e-4,
        capturable=captured,
        fused=version == "fused_optimizer" or None,
    )

    def step():
        x = known
        for layer in body:
            x = layer(x, ends).relu()
        F.cross_entropy(last(x), subjects).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=not captured)

    return graphed(step) if captured else step
