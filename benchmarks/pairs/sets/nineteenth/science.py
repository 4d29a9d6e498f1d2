"""Science, sound and games: violins, antibodies, solvents, footballers, worlds, hearts; good: racers."""

import math

import torch
from torch import distributions, nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, good, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import Layer, layers, mlp, noise, on_device, whole

ESM = "transformers.models.esm.modeling_esm"
RATE = 16_000
"""Samples in a second of sound."""


def _harmonics(pitch, loud, shares):
    """Sound of harmonics of a pitch, without those that are too high: [rows, time] of pitch [rows, 1, time], of
    how loud it is, and of the harmonics' shares [rows, count, time]."""
    numbers = torch.arange(1, shares.shape[1] + 1, device=shares.device)[:, None]
    shares = shares * (pitch * numbers < RATE / 2)
    shares = shares / shares.sum(1, keepdim=True)
    phases = (2 * math.pi / RATE * pitch).cumsum(-1)
    return (torch.sin(phases * numbers) * shares * loud).sum(1)


class _Violin(Module):
    """Tells from pitch and loudness which harmonics sound (DDSP), and makes the sound."""

    def __init__(self, width, count, *, compiled):
        self.first, self.body = mlp(2, width), layers(width, n(4, 1))
        self.last = mlp(width, count + 1)
        self.harmonics = torch.compile(_harmonics, dynamic=False) if compiled else _harmonics

    def forward(self, pitch, loud, long):
        told = torch.stack((pitch.log() / 8, loud), -1)
        told = F.softplus(self.last(self.body(self.first(told)))).transpose(1, 2) + 1e-6
        told = F.interpolate(told, size=long, mode="linear")
        pitch = F.interpolate(pitch[:, None], size=long, mode="linear")
        return self.harmonics(pitch, told[:, :1], told[:, 1:])


def _spectra_apart(told, true, sizes):
    """How far spectra of several sizes are from each other."""
    apart = 0.0
    for size in sizes:
        window = torch.hann_window(size, device=told.device)
        one, other = (
            torch.stft(sound, size, size // 4, window=window, return_complex=True).abs()
            for sound in (told, true)
        )
        apart = apart + (one - other).abs().mean()
        apart = apart + ((one + 1e-5).log() - (other + 1e-5).log()).abs().mean()
    return apart


@pair("compile", found=True, early=("fix",))
def violins_harmonics_summed_in_eager(fixed):
    """A network (DDSP; four layers, 256 wide) learns to sound like 32 violins, four seconds each at 16 kHz, TF32
    allowed. Its synthesizer makes 100 harmonics of each, of which those above half the rate are left out, and
    sums them: a chain of elementwise operators on tensors of 0.8 GB, each a kernel of its own. The
    remedy is `torch.compile` of the synthesizer."""
    torch.set_float32_matmul_precision("high")
    rows, frames, long = n(32, 2), n(250, 5), n(4 * RATE, 600)
    violin = _Violin(n(256, 16), n(100, 4), compiled=fixed).train()
    pitch = 200 + 600 * torch.rand(rows, frames, device=DEVICE)
    loud, true = torch.rand(rows, frames, device=DEVICE), noise(rows, long)
    sizes = n((2048, 512, 128), (64,))
    return train(violin, lambda: _spectra_apart(violin(pitch, loud, long), true, sizes))


@pair("low_precision", found=True, libraries=(ESM,))
def antibodies_learnt_in_fp32(fixed):
    """An ESM-2 of transformers (12 layers, 640 wide) learns antibodies by masked language modelling, from 64
    chains of 256 a step. All is in fp32, TF32 allowed, for nothing was said about precision. The remedy is bf16
    autocast."""
    from transformers import EsmConfig, EsmForMaskedLM

    torch.set_float32_matmul_precision("high")
    rows, long, letters, width = n(64, 2), n(256, 8), 33, n(640, 32)
    config = EsmConfig(
        vocab_size=letters,
        hidden_size=width,
        num_hidden_layers=n(12, 1),
        num_attention_heads=n(20, 2),
        intermediate_size=4 * width,
        max_position_embeddings=n(1026, 12),
        position_embedding_type="rotary",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=1,
        mask_token_id=32,
    )
    model = on_device(lambda: EsmForMaskedLM(config)).train()
    chains = 4 + whole(20, rows, long)
    hidden = torch.rand(rows, long, device=DEVICE) < 0.15
    shown, true = chains.masked_fill(hidden, 32), chains.masked_fill(~hidden, -100)

    def loss():
        told = model(input_ids=shown).logits
        return F.cross_entropy(told.flatten(0, 1).float(), true.flatten())

    return train(model, loss, cast=fixed)


class _Solvents(Module):
    """A GINE of torch_geometric: tells how well each molecule dissolves."""

    def __init__(self, kinds, bonds, width, depth):
        from torch_geometric.nn import GINEConv

        self.atoms, self.bonds = nn.Embedding(kinds, width), nn.Embedding(bonds, width)
        self.body = nn.ModuleList(
            GINEConv(mlp(width, 2 * width, width, between=nn.ReLU)) for _ in range(depth)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(depth))
        self.last = mlp(width, width, 1, between=nn.ReLU)

    def forward(self, atoms, ends, bonds, of, count):
        from torch_geometric.nn import global_add_pool

        x, told = self.atoms(atoms), self.bonds(bonds)
        for layer, norm in zip(self.body, self.norms, strict=True):
            x = x + F.relu(norm(layer(x, ends, told)))
        return self.last(global_add_pool(x, of, size=count)).squeeze(-1)


@pair("larger_batch", found=True, as_much=16.0, libraries=("torch_geometric",))
def solvents_learnt_32_at_a_time(fixed):
    """A GINE of torch_geometric (five layers, 128 wide) learns how well molecules of 24 atoms dissolve, TF32
    allowed, from 32 of them a step, as the example that it was copied from. Its kernels are so short that the
    GPU waits for launches. The remedy takes 512 molecules a step."""
    torch.set_float32_matmul_precision("high")
    count, each, pairs, kinds = n(512, 4) if fixed else n(32, 2), n(24, 3), n(52, 4), n(40, 5)
    model = on_device(lambda: _Solvents(kinds, 5, n(128, 8), n(5, 2))).train()
    of = torch.arange(count, device=DEVICE).repeat_interleave(each)
    begins = torch.arange(count, device=DEVICE).repeat_interleave(pairs) * each
    ends = begins + whole(each, 2, count * pairs)
    atoms, bonds, true = whole(kinds, count * each), whole(5, count * pairs), noise(count)
    return train(model, lambda: F.l1_loss(model(atoms, ends, bonds, of, count), true))


class _Player(Module):
    """What a footballer does next and what that is worth, of all whom he sees on the field."""

    def __init__(self, seen, width, depth, moves):
        self.first = nn.Linear(seen, width)
        self.body = nn.Sequential(*(Layer(width) for _ in range(depth)))
        self.moves, self.worth = nn.Linear(width, moves), nn.Linear(width, 1)

    def forward(self, seen):
        told = self.body(self.first(seen)).mean(-2)
        return self.moves(told).log_softmax(-1), self.worth(told).squeeze(-1)


def _clipped(likely, before, better, share=0.2):
    """PPO's loss of moves: no more than a share more likely than before."""
    ratio = (likely - before).exp()
    return -torch.minimum(ratio * better, ratio.clamp(1 - share, 1 + share) * better).mean()


@pair("batch_calls", found=True)
def footballers_asked_in_turn(fixed):
    """Multi-agent PPO teaches 22 footballers who share a policy (a transformer of three layers, 128 wide, over 23
    whom each sees), from 128 moments a step, TF32 allowed. The policy is called for each footballer in a loop,
    each a batch of 128. The remedy is one call for all 22."""
    torch.set_float32_matmul_precision("high")
    players, rows, others, sees, moves = n(22, 3), n(128, 4), n(23, 3), n(12, 4), n(19, 3)
    policy = on_device(lambda: _Player(sees, n(128, 16), n(3, 1), moves)).train()
    seen, done = noise(players, rows, others, sees), whole(moves, players, rows, 1)
    before, better, worth = noise(3, players, rows).mul(0.1)

    def loss():
        if fixed:
            likely, told = (one.unflatten(0, (players, rows)) for one in policy(seen.flatten(0, 1)))
        else:
            asked = [policy(one) for one in seen]
            likely, told = (torch.stack(one) for one in zip(*asked, strict=True))
        chosen = likely.gather(-1, done).squeeze(-1)
        chance = -(likely.exp() * likely).sum(-1).mean()
        return _clipped(chosen, before - 3, better) + F.mse_loss(told, worth) - 0.01 * chance

    return train(policy, loss)


class _World(Module):
    """A recurrent model of a world, as Dreamer has it: what is known, what is guessed, what is paid."""

    def __init__(self, seen, moves, width, latent):
        self.first, self.eyes = mlp(latent + moves, width), mlp(seen, width, width)
        self.cell = nn.GRUCell(width, width)
        self.guess, self.know = mlp(width, width, 2 * latent), mlp(2 * width, width, 2 * latent)
        self.paid, self.shown = mlp(width + latent, width, 1), mlp(width + latent, width, seen)
        self.register_buffer("even", torch.ones(()))
        self.width, self.latent = width, latent

    @staticmethod
    def spread(told):
        """A distribution of a mean and a spread."""
        mean, spread = told.chunk(2, -1)
        return distributions.Normal(mean, F.softplus(spread) + 0.1)

    def loss(self, seen, moves, paid):
        known = seen.new_zeros(seen.shape[1], self.width)
        state, looked = seen.new_zeros(seen.shape[1], self.latent), self.eyes(seen)
        total = 0.0
        for now, move in enumerate(moves):
            known = self.cell(self.first(torch.cat((state, move), -1)), known)
            guess = self.spread(self.guess(known))
            true = self.spread(self.know(torch.cat((known, looked[now]), -1)))
            state = true.rsample()
            both = torch.cat((known, state), -1)
            of_paid = distributions.Normal(self.paid(both), self.even)
            of_seen = distributions.Normal(self.shown(both), self.even)
            total = total + distributions.kl_divergence(true, guess).sum(-1).clamp(min=1.0).mean()
            total = total - of_paid.log_prob(paid[now]).mean()
            total = total - of_seen.log_prob(seen[now]).sum(-1).mean()
        return total / len(moves)


@pair("remove_syncs", found=True)
def worlds_distributions_validated(fixed):
    """Dreamer's model of a world (a GRU cell, 1024 wide) learns from 1024 rows of 32 moments a step, TF32 allowed.
    In each moment it makes four `torch.distributions.Normal`, which check by default that means are
    numbers and spreads are positive, and `log_prob` checks values: ten times a moment the check waits for
    the GPU. The remedy is `Distribution.set_default_validate_args(False)`."""
    torch.set_float32_matmul_precision("high")
    distributions.Distribution.set_default_validate_args(not fixed)
    moments, rows, sees, does = n(32, 3), n(1024, 4), n(96, 6), n(12, 2)
    world = on_device(lambda: _World(sees, does, n(1024, 8), n(128, 4))).train()
    seen, moves = noise(moments, rows, sees), noise(moments, rows, does).tanh()
    paid = noise(moments, rows, 1)
    return train(world, lambda: world.loss(seen, moves, paid))


class _AdaBelief(torch.optim.Optimizer):
    """AdaBelief: a weight goes far where its gradient was foretold well."""

    def __init__(self, weights, rate, *, together, betas=(0.9, 0.999), eps=1e-12):
        super().__init__(weights, {"lr": rate, "betas": betas, "eps": eps})
        self.together, self.done = together, 0

    def kept(self, weight):
        """The mean of a weight's gradients, and how far they were from it."""
        if not self.state[weight]:
            self.state[weight] = {one: torch.zeros_like(weight) for one in ("mean", "apart")}
        return self.state[weight].values()

    @torch.no_grad()
    def step(self):
        self.done += 1
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if self.together:
                self.step_together(weights, group)
                continue
            for weight in weights:
                self.step_of(weight, group)

    def step_of(self, weight, group):
        (first, second), (mean, apart) = group["betas"], self.kept(weight)
        mean.mul_(first).add_(weight.grad, alpha=1 - first)
        off = weight.grad - mean
        apart.mul_(second).addcmul_(off, off, value=1 - second).add_(group["eps"])
        below = (apart / (1 - second**self.done)).sqrt_().add_(group["eps"])
        weight.addcdiv_(mean, below, value=-group["lr"] / (1 - first**self.done))

    def step_together(self, weights, group):
        first, second = group["betas"]
        means, aparts = zip(*map(self.kept, weights), strict=True)
        grads = [weight.grad for weight in weights]
        torch._foreach_mul_(means, first)
        torch._foreach_add_(means, grads, alpha=1 - first)
        off = torch._foreach_sub(grads, means)
        torch._foreach_mul_(aparts, second)
        torch._foreach_addcmul_(aparts, off, off, value=1 - second)
        torch._foreach_add_(aparts, group["eps"])
        below = torch._foreach_div(aparts, 1 - second**self.done)
        torch._foreach_sqrt_(below)
        torch._foreach_add_(below, group["eps"])
        rate = -group["lr"] / (1 - first**self.done)
        torch._foreach_addcdiv_(weights, means, below, value=rate)


@pair("fused_optimizer", found=True)
def hearts_adabelief_tensor_by_tensor(fixed):
    """A transformer (24 layers, 256 wide) learns in bf16 autocast which of 71 findings 64 electrocardiograms show,
    12 leads in 125 patches of 40. AdaBelief, copied from its repository, goes from tensor to tensor: some
    ten kernels for each of 290 weights. The remedy does the same for all at once, by
    `torch._foreach` functions."""
    rows, leads, patch, kinds = n(64, 2), n(12, 2), n(40, 4), n(71, 3)
    width = n(256, 16)
    first, body, last = mlp(leads * patch, width), layers(width, n(24, 2)), mlp(width, kinds)
    model = nn.ModuleList((first, body, last)).train()
    optimizer = _AdaBelief(model.parameters(), 1e-3, together=fixed)
    waves = noise(rows, n(125, 5), leads * patch)
    found = whole(2, rows, kinds).float()

    def loss():
        told = last(body(first(waves)).mean(1))
        return F.binary_cross_entropy_with_logits(told.float(), found)

    return train(optimizer, loss, cast=True)


@good("remove_syncs", "fused_optimizer", found=True)
def good_racers(version):
    """PPO teaches a racing car with 131 072 of the moments that it met, drawn anew in each step from half a
    million on the GPU, by an actor and a critic (1024 wide), TF32 allowed. How far the policy moved is read
    after each step, to stop in time. Kernels are long next to that, and the weights are few: neither not to
    read nor a fused AdamW brings anything."""
    torch.set_float32_matmul_precision("high")
    kept, rows, sees, moves = n(524_288, 40), n(131_072, 8), n(64, 5), n(3, 2)
    width = n(1024, 8)
    actor = mlp(sees, width, width, width, moves, between=nn.ReLU)
    critic = mlp(sees, width, width, width, 1, between=nn.ReLU)
    model = nn.ModuleList((actor, critic)).train()
    fused = version == "fused_optimizer" or None
    optimizer = torch.optim.AdamW(model.parameters(), 1e-6, fused=fused)
    seen, done = noise(kept, sees), noise(kept, moves)
    better, worth = noise(2, kept)
    before = -0.5 * done.square().sum(-1)

    def step():
        some = torch.randint(kept, (rows,), device=DEVICE)
        now = seen[some]
        likely = -0.5 * (done[some] - actor(now)).square().sum(-1)
        moved = before[some] - likely
        loss = _clipped(likely, before[some], better[some])
        loss = loss + F.mse_loss(critic(now).squeeze(-1), worth[some])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        away = moved.detach().mean()
        return away if version == "remove_syncs" else away.item() > 1e3

    return step
