"""Programs of two ranks: under DDP, divided over the ranks, and under FSDP."""

import contextlib

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, autocast, n, pair, train
from benchmarks.pairs.sets.ranks import RANK, parallel


def encoder_layers(count, width):  # Layers of an encoder, on the device, for `batch, place, width`
    how = {
        "dropout": 0.0,
        "activation": "gelu",
        "batch_first": True,
        "norm_first": True,
        "device": DEVICE,
    }
    return [
        nn.TransformerEncoderLayer(width, width // n(128, 16), 4 * width, **how)
        for _ in range(count)
    ]


@pair("no_sync_accumulation", found=True)
def proteins_of_four_lengths(fixed):
    """A wide encoder of proteins under DDP, a backward pass for each of four lengths, gradients
    reduced in all four."""
    width = n(4096, 32)
    letters = 33
    with torch.device(DEVICE):
        model = nn.Sequential(
            nn.Embedding(letters, width), *encoder_layers(n(3, 1), width), nn.Linear(width, letters)
        )
    ddp = parallel(model, gradient_as_bucket_view=True)
    shapes = (8, n(64, 4)), (4, n(128, 8)), (2, n(256, 12)), (1, n(512, 16))
    proteins = [torch.randint(0, letters, shape, device=DEVICE) for shape in shapes]
    optimizer = torch.optim.AdamW(ddp.parameters(), 1e-5, fused=True)

    def learn(protein):
        with autocast():
            loss = F.cross_entropy(ddp(protein).flatten(0, 1), protein.flatten())
        (loss / len(proteins)).backward()

    def step():
        for protein in proteins[:-1]:
            with ddp.no_sync() if fixed else contextlib.nullcontext():
                learn(protein)
        learn(proteins[-1])
        optimizer.step()
        optimizer.zero_grad()

    return step


class Messages(Module):  # Atoms hear from their neighbours, as far away as each is
    def __init__(self, width):
        self.near, self.filter = nn.Linear(32, width), nn.Linear(width, width)
        self.sent, self.heard, self.out = (nn.Linear(width, width) for _ in range(3))

    def forward(self, atoms, pairs, distances):
        weights = self.filter(F.silu(self.near(distances)))
        messages = self.sent(atoms).index_select(0, pairs[0]) * weights
        return atoms + self.out(
            F.silu(self.heard(torch.zeros_like(atoms).index_add(0, pairs[1], messages)))
        )


class Molecules(Module):  # The energy of molecules
    def __init__(self, layers, width):
        self.kinds, self.layers = (
            nn.Embedding(100, width),
            nn.ModuleList(Messages(width) for _ in range(layers)),
        )
        self.energy = nn.Linear(width, 1)

    def forward(self, kinds, pairs, distances):
        atoms = self.kinds(kinds)
        for layer in self.layers:
            atoms = layer(atoms, pairs, distances)
        return self.energy(atoms)


@pair("larger_buckets", found=True)
def molecules_bucket_per_weight(fixed):
    """A deep network of molecules under DDP, its buckets so small that each weight has its own; the
    remedy is 25 MB."""
    atoms = n(1024, 16)
    near = 8
    width = n(256, 16)
    with torch.device(DEVICE):
        model = Molecules(n(40, 2), width)
        kinds = torch.randint(0, 100, (atoms,))
        pairs = torch.stack(
            (torch.randint(0, atoms, (atoms * near,)), torch.arange(atoms).repeat_interleave(near))
        )
        distances = torch.rand(atoms * near, 32)
    ddp = parallel(model, bucket_cap_mb=25 if fixed else 0.2)
    return train(ddp, lambda: ddp(kinds, pairs, distances).square().mean())


class Tower(Module):  # What a user saw lately, and films, as vectors: how well they fit
    def __init__(self, films, width):
        self.films = nn.EmbeddingBag(films, 64, mode="mean")
        self.user, self.film = (
            nn.Sequential(
                nn.Linear(64, width),
                nn.ReLU(),
                nn.Linear(width, width),
                nn.ReLU(),
                nn.Linear(width, 64),
            )
            for _ in range(2)
        )

    def forward(self, seen, shown):
        films = self.film(self.films(shown.reshape(-1, 1)).view(*shown.shape, -1))
        return torch.einsum("uw,ufw->uf", self.user(self.films(seen)), films)


@pair("move_host_work", found=True)
def films_unseen_drawn_in_numpy(fixed):
    """A network of films under DDP whose loop draws films that a user has not seen, user by user;
    or the GPU draws."""
    films = n(50_000, 5000)
    users = n(384, 8)
    past = 50
    many = n(30, 4)
    ddp = parallel(Tower(films, n(1024, 16)).to(DEVICE))
    random = np.random.default_rng(RANK)
    histories = random.integers(0, films, (users, past))
    seen = torch.from_numpy(histories).to(DEVICE)
    liked = torch.from_numpy(histories[:, :1].copy()).to(DEVICE)

    def unseen(history):
        drawn = random.integers(0, films, 2 * many)
        return drawn[~np.isin(drawn, history)][:many]

    def drawn_on_device():
        first, other = torch.randint(0, films, (2, users, many), device=DEVICE)
        return torch.where((first[:, :, None] == seen[:, None]).any(-1), other, first)

    def loss():
        if fixed:
            others = drawn_on_device()
        else:
            others = torch.from_numpy(np.stack([unseen(history) for history in histories])).to(
                DEVICE
            )
        fit = ddp(seen, torch.cat((liked, others), 1))
        return -(F.logsigmoid(fit[:, :1]) + F.logsigmoid(-fit[:, 1:]).mean(1, keepdim=True)).mean()

    return train(ddp, loss)


def _resampled(clips, samples):  # Clips at another rate: their spectra cut off
    spectra = np.fft.rfft(clips)[:, : samples // 2 + 1]
    return (np.fft.irfft(spectra, samples) * (samples / clips.shape[1])).astype(np.float32)


@pair("fix_straggler", found=True)
def clips_resampled_on_one_rank(fixed):
    """Sounds are named under DDP; rank 1's files are at 44.1 kHz and resampled in every step, or
    were beforehand."""
    width = n(512, 64)
    batch = n(8, 2)
    samples = n(32_000, 800)
    recorded = n(88_200, 2205)
    layers = [nn.Linear(n(257, 17), width), *encoder_layers(n(4, 1), width), nn.Linear(width, 50)]
    ddp = parallel(nn.Sequential(*layers).to(DEVICE))
    files = (
        np.random.default_rng(RANK)
        .standard_normal((batch, samples if RANK == 0 else recorded))
        .astype(np.float32)
    )
    files = _resampled(files, samples) if fixed and RANK == 1 else files
    kinds = torch.randint(0, 50, (batch,), device=DEVICE)
    frame = n(512, 32)
    window = torch.hann_window(frame, device=DEVICE)

    def loss():
        sounds = torch.from_numpy(
            files if files.shape[1] == samples else _resampled(files, samples)
        ).to(DEVICE)
        spectra = (
            torch.stft(sounds, frame, frame // 2, window=window, return_complex=True).abs().log1p()
        )
        with autocast():
            return F.cross_entropy(ddp(spectra.transpose(1, 2)).mean(1), kinds)

    return train(ddp, loss)


RANKS = 2


def _weights(*shape):
    return torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16) * shape[-2] ** (-0.5)


@pair("overlap_communication")
def two_halves_wait_in_turn(fixed):
    """A tensor-parallel model answers two half batches; each waits for its sums before the other
    half may compute."""
    width = n(4096, 32)
    inner = n(2048, 16) // RANKS
    rows = n(8192, 8)
    layers = [(_weights(width, inner), _weights(inner, width)) for _ in range(n(16, 2))]
    halves = [torch.randn(rows, width, device=DEVICE, dtype=torch.bfloat16) for _ in range(2)]

    def step():
        x = list(halves)
        sums = [torch.zeros_like(half) for half in halves]
        under_way = [None, None]

        def finish(half):
            if under_way[half]:
                under_way[half].wait()
            x[half] = x[half] + sums[half]

        with torch.no_grad():
            for up, down in layers:
                for half in (0, 1):
                    finish(half)
                    sums[half] = F.gelu(F.layer_norm(x[half], (width,)) @ up) @ down
                    under_way[half] = dist.all_reduce(sums[half], async_op=fixed)
            finish(0)
            finish(1)
        return x

    return step


@pair("smaller_messages")
def experts_with_room_for_twice(fixed):
    """Texts are read by experts on two ranks, by hash; what is sent has room for twice the tokens,
    or just for all."""
    width = n(4096, 32)
    inner = n(512, 16)
    tokens = n(16_384, 32)
    experts = n(16, 4)
    layers = [
        (_weights(experts // RANKS, width, inner), _weights(experts // RANKS, inner, width))
        for _ in range(n(8, 2))
    ]
    room = tokens // experts * (1 if fixed else 2)
    slot = (
        torch.arange(tokens, device=DEVICE) % experts * room
        + torch.arange(tokens, device=DEVICE) // experts
    )
    slot = slot[torch.randperm(tokens, device=DEVICE)]
    texts = torch.randn(tokens, width, device=DEVICE, dtype=torch.bfloat16)

    def exchanged(x):
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x)
        return out

    def read(x, up, down):
        sent = x.new_zeros(experts * room, width)
        sent[slot] = F.layer_norm(x, (width,))
        mine = (
            exchanged(sent)
            .view(RANKS, -1, room, width)
            .transpose(0, 1)
            .reshape(-1, RANKS * room, width)
        )
        read = torch.bmm(F.gelu(torch.bmm(mine, up)), down)
        return (
            x
            + exchanged(read.view(-1, RANKS, room, width).transpose(0, 1).reshape(-1, width))[slot]
        )

    def step():
        x = texts
        with torch.no_grad():
            for up, down in layers:
                x = read(x, up, down)
        return x

    return step


@pair("fix_straggler", found=True)
def pipeline_cut_unevenly(fixed):
    """A pipeline of two stages of two and six layers, four parts at a time; the remedy is four
    layers each."""
    width = n(3072, 32)
    many = n(4, 2)
    stage = nn.Sequential(
        *encoder_layers(((n(4, 2), n(4, 2)) if fixed else (n(2, 1), n(6, 3)))[RANK], width)
    )
    optimizer = torch.optim.AdamW(stage.parameters(), 1e-5, fused=True)
    parts = [torch.randn(n(4, 1), n(512, 8), width, device=DEVICE) for _ in range(many)]

    def computed(x):
        with autocast():
            return stage(x)

    def first():
        results = []
        sent = []
        for part in parts:
            results.append(computed(part).to(torch.bfloat16))
            sent.append(dist.isend(results[-1].detach(), 1))
        for result in results:
            gradient = torch.empty_like(result)
            dist.recv(gradient, 1)
            result.backward(gradient)
        for one in sent:
            one.wait()

    def second():
        received = []
        losses = []
        sent = []
        for part in parts:
            x = torch.empty_like(part, dtype=torch.bfloat16)
            dist.recv(x, 0)
            received.append(x.requires_grad_())
            losses.append(F.mse_loss(computed(x.float()), part) / many)
        for x, loss in zip(received, losses, strict=True):
            loss.backward()
            sent.append(dist.isend(x.grad, 0))
        for one in sent:
            one.wait()

    def step():
        first() if RANK == 0 else second()
        optimizer.step()
        optimizer.zero_grad()

    return step


FSDP = ("torch.distributed.fsdp",)
HERE = torch.device("cuda", RANK) if DEVICE == "cuda" else torch.device("cpu")


class Residual(Module):  # A wide residual layer
    def __init__(self, width):
        self.norm = nn.LayerNorm(width)
        self.up, self.down = (
            nn.Linear(width, 2 * width, bias=False),
            nn.Linear(2 * width, width, bias=False),
        )

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))))


@pair("no_sync_accumulation", found=True, libraries=FSDP)
def expression_parts_reduced(fixed):
    """Very wide layers on cells under FSDP2, six parts a step: parameters are kept over them, but
    all are reduced."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    width = n(7168, 32)
    with torch.device(DEVICE):
        model = nn.Sequential(*(Residual(width) for _ in range(n(3, 1))))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model:
        fully_shard(layer, mp_policy=policy, reshard_after_forward=False)
    sharded = fully_shard(model, mp_policy=policy)
    parts = [torch.randn(n(512, 4), width, device=DEVICE) for _ in range(n(6, 3))]
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)

    def step():
        for number, part in enumerate(parts, 1):
            last = number == len(parts)
            sharded.set_reshard_after_backward(last)
            sharded.set_requires_gradient_sync(last or not fixed)
            (F.mse_loss(sharded(part).float(), part) / len(parts)).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


@pair("overlap_communication", found=True, libraries=FSDP)
def sharded_as_one(fixed):
    """An encoder of radar patches under FSDP2, sharded as one unit: gathered first, reduced last;
    or layer by layer."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    width = n(3072, 32)
    model = nn.Sequential(*encoder_layers(n(4, 2), width))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model if fixed else ():
        fully_shard(layer, mp_policy=policy, reshard_after_forward=False)
    fully_shard(model, mp_policy=policy)
    patches = torch.randn(n(3, 1), n(512, 8), width, device=DEVICE)
    return train(model, lambda: F.mse_loss(model(patches).float(), patches))


@pair("keep_parameters", libraries=FSDP)
def judge_gathered_for_each_batch(fixed):
    """A frozen judge under FSDP2 scores six batches of answers; its layers are given back after
    each, or kept."""
    from torch.distributed.fsdp import fully_shard

    width = n(4096, 32)
    model = nn.Sequential(*encoder_layers(n(4, 2), width), nn.Linear(width, 1, device=DEVICE)).to(
        torch.bfloat16
    )
    for layer in model[:-1]:
        fully_shard(layer, reshard_after_forward=not fixed)
    fully_shard(model)
    model.requires_grad_(False)
    answers = [
        torch.randn(n(4, 1), n(128, 8), width, device=DEVICE, dtype=torch.bfloat16)
        for _ in range(n(6, 2))
    ]
    return torch.no_grad()(lambda: [model(answer).mean(1) for answer in answers])


@pair("prefetch_parameters", found=True, libraries=FSDP)
def climate_encoder_gathered_late(fixed):
    """A wide encoder of climate under FSDP1 that gathers no layer ahead in the backward pass, as it
    saves memory."""
    from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel, MixedPrecision
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    width = n(4096, 32)
    model = FullyShardedDataParallel(
        nn.Sequential(*encoder_layers(n(5, 2), width)),
        device_id=HERE,
        auto_wrap_policy=ModuleWrapPolicy({nn.TransformerEncoderLayer}),
        use_orig_params=True,
        mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16),
        backward_prefetch=BackwardPrefetch.BACKWARD_PRE if fixed else None,
    )
    fields = torch.randn(n(2, 1), n(512, 8), width, device=DEVICE)
    return train(model, lambda: F.mse_loss(model(fields).float(), fields))
