"""Programs that act, recommend and serve: reinforcement learning, graphs, experts, first
requests."""

import itertools

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, LIBRARIES, graphed, n, pair, train


def _policy(inputs, width, outputs):
    layers = [
        nn.Linear(inputs, width),
        nn.Tanh(),
        nn.Linear(width, width),
        nn.Tanh(),
        nn.Linear(width, outputs),
    ]
    return nn.Sequential(*layers).to(DEVICE)


@pair("batch_calls", libraries=LIBRARIES)
def environments_one_by_one(fixed):
    """A policy acts for 32 environments, one call and one read each."""
    policy = _policy(64, 256, 8).eval()
    seen = torch.randn(32, 64)

    def step():
        with torch.inference_mode():
            if fixed:
                policy(seen.to(DEVICE)).argmax(-1).tolist()
            else:
                for one in seen:
                    policy(one.to(DEVICE)).argmax(-1).item()

    return step


@pair("remove_syncs", found=True, libraries=LIBRARIES)
def ppo_reads_losses(fixed):
    """PPO's update reads five statistics of each minibatch to log them."""
    policy = _policy(128, 512, 16)
    value = _policy(128, 512, 1)
    both = nn.ModuleList((policy, value))
    optimizer = torch.optim.Adam(both.parameters(), 0.0001, fused=True)
    seen = torch.randn(2048, 128, device=DEVICE)
    taken = torch.randint(0, 16, (2048, 1), device=DEVICE)
    before = torch.full((2048, 1), -2.8, device=DEVICE)
    gain = torch.randn(2048, 1, device=DEVICE)

    def step():
        chance = policy(seen).log_softmax(-1)
        ratio = (chance.gather(1, taken) - before).exp()
        first = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        second = (value(seen) - gain).square().mean()
        entropy = -(chance.exp() * chance).sum(-1).mean()
        log = [] if fixed else [first.item(), second.item(), entropy.item(), ratio.mean().item()]
        (first + 0.5 * second - 0.01 * entropy).backward()
        norm = nn.utils.clip_grad_norm_(both.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        return log if fixed else [*log, norm.item()]

    return step


@pair("move_host_work", found=True, libraries=LIBRARIES)
def environment_in_the_loop(fixed):
    """An environment in numpy runs between the updates of a Q network."""
    network = _policy(128, 1024, 32)
    seen = torch.randn(8192, 128, device=DEVICE)
    target = torch.randn(8192, 32, device=DEVICE)
    world = np.random.default_rng(0).random((400, 400))
    update = train(network, lambda: (network(seen) - target).square().mean())

    def step():
        update()
        if not fixed:
            for _ in range(n(6, 1)):
                world[1:-1] = (world[:-2] + world[2:]) / 2 + 0.01 * np.sin(world[1:-1])

    return step


@pair("cuda_graph", found=True, libraries=LIBRARIES)
def sac_small_networks(fixed):
    """Soft actor-critic's small networks, updated in a CUDA graph or not."""
    actor = _policy(32, 256, 8)
    critics = nn.ModuleList(_policy(40, 256, 1) for _ in range(2))
    whole = nn.ModuleList((actor, critics))
    optimizer = torch.optim.Adam(
        whole.parameters(), 0.0001, foreach=True, capturable=DEVICE == "cuda"
    )
    seen = torch.randn(256, 32, device=DEVICE)
    wanted = torch.randn(256, 1, device=DEVICE)

    def step():
        optimizer.zero_grad(set_to_none=False)
        act = actor(seen).tanh()
        values = [critic(torch.cat((seen, act), 1)) for critic in critics]
        (sum((v - wanted).square().mean() for v in values) - torch.min(*values).mean()).backward()
        optimizer.step()

    return graphed(step) if fixed else step


@pair("remove_syncs", found=True, libraries=LIBRARIES)
def graph_network_reads(fixed):
    """torch_geometric's GraphSAGE whose loop picks labelled nodes by a mask and reads the
    accuracy."""
    from torch_geometric.nn import GraphSAGE

    nodes = n(50_000, 200)
    model = GraphSAGE(128, 256, 4, 40).to(DEVICE)
    x = torch.randn(nodes, 128, device=DEVICE)
    edges = torch.randint(0, nodes, (2, 8 * nodes), device=DEVICE)
    y = torch.randint(0, 40, (nodes,), device=DEVICE)
    mask = torch.rand(nodes, device=DEVICE) < 0.5
    chosen = mask.nonzero()[:, 0]
    optimizer = torch.optim.Adam(model.parameters(), 0.001, fused=True)

    def step():
        out = model(x, edges)
        if fixed:
            F.cross_entropy(out[chosen], y[chosen]).backward()
        else:
            F.cross_entropy(out[mask], y[mask]).backward()
            (out.argmax(-1) == y)[mask].float().mean().item()
        optimizer.step()
        optimizer.zero_grad()

    return step


@pair("batched_matmul", libraries=LIBRARIES)
def experts_one_by_one(fixed):
    """A layer of 48 adapters (LoRA for 48 users) that are applied one after the other."""
    down = torch.randn(48, 512, 64, device=DEVICE, dtype=torch.bfloat16)
    up = torch.randn(48, 64, 512, device=DEVICE, dtype=torch.bfloat16)
    x = torch.randn(48, 64, 512, device=DEVICE, dtype=torch.bfloat16)

    def step():
        with torch.inference_mode():
            if fixed:
                torch.bmm(torch.bmm(x, down), up)
            else:
                middle = [a @ b for a, b in zip(x, down, strict=True)]
                torch.stack([a @ b for a, b in zip(middle, up, strict=True)])

    return step


@pair("pad_shapes", found=True, libraries=LIBRARIES)
def ranking_odd_sizes(fixed):
    """A ranking network whose layers are 2001 wide, in bf16."""
    width = n(2048 if fixed else 2001, 32 if fixed else 31)
    layers = [layer for _ in range(6) for layer in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*layers).to(DEVICE, torch.bfloat16)
    x = torch.randn(n(16_384, 64), width, device=DEVICE, dtype=torch.bfloat16)
    return train(
        torch.optim.SGD(model.parameters(), 0.001), lambda: model(x).float().square().mean()
    )


@pair("avoid_allocations", libraries=LIBRARIES)
def cache_emptied(fixed):
    """A generator of images whose loop empties the allocator's cache after every one."""
    sizes = 512, 256, 128, 64, 32
    layers = [
        x
        for a, b in itertools.pairwise(sizes)
        for x in (nn.ConvTranspose2d(a, b, 4, 2, 1), nn.SiLU())
    ]
    model = nn.Sequential(*layers, nn.Conv2d(32, 3, 3, padding=1)).to(DEVICE).eval()
    z = torch.randn(n(16, 1), 512, 16, 16, device=DEVICE)

    def step():
        with torch.inference_mode():
            model(z)
        if not fixed and DEVICE == "cuda":
            torch.cuda.empty_cache()

    return step


RARE = (
    "exp2 expm1 log1p log2 log10 sinh cosh asinh acosh atanh tan asin acos atan frac trunc floor ceil round sgn "
    "signbit logit nan_to_num neg reciprocal rsqrt sqrt square sigmoid tanh relu erf erfc abs sin cos exp log "
    "deg2rad"
)
"""Operators that a service may meet for the first time in any request."""


@pair("warm_up", once=True, libraries=LIBRARIES)
def first_requests(fixed):
    """A service whose requests call operators that have not run yet: their device code is loaded
    then."""
    kinds = torch.float32, torch.float64, torch.float16, torch.bfloat16
    calls = [(getattr(torch, name), kind) for name in RARE.split() for kind in kinds]
    inputs = {kind: torch.rand(n(1 << 20, 64), device=DEVICE).to(kind) for kind in kinds}
    layer = nn.Linear(1024, 1024, device=DEVICE)
    matrix = torch.randn(n(4096, 8), 1024, device=DEVICE)
    with torch.inference_mode():
        for call, kind in calls if fixed else ():
            call(inputs[kind])
    queue = itertools.cycle(calls)

    def step():
        with torch.inference_mode():
            y = matrix
            for _ in range(2):
                y = layer(y)
            for call, kind in itertools.islice(queue, 2):
                call(inputs[kind])

    return step
