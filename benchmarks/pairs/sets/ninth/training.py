"""Training loops: their data, their losses, their optimizers."""

import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, autocast, good, n, pair, train


def perceptron(width, layers):
    blocks = [m for _ in range(layers) for m in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(*blocks).to(DEVICE)


def optimize(model, optimizer, loss_of, after=lambda loss: None):
    """A step of training that calls `after` with its loss."""

    def step():
        loss = loss_of()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        after(loss)

    return step


@pair("remove_syncs", found=True)
def norms_clipped_by_hand(fixed):
    """Gradients of 64 layers clipped layer by layer, each norm read; the remedy is PyTorch's
    `clip_grad_norm_`."""
    model = perceptron(n(512, 16), n(64, 2))
    x = torch.randn(n(1024, 8), n(512, 16), device=DEVICE)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, 1e-5, fused=True)

    def step():
        model(x).square().mean().backward()
        if fixed:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        else:
            total = sum(p.grad.norm().item() ** 2 for p in parameters) ** 0.5
            for p in parameters:
                p.grad.mul_(min(1.0, 1.0 / (total + 1e-6)))
        optimizer.step()
        optimizer.zero_grad()

    return step


@pair("remove_syncs", found=True)
def critics_scores_logged(fixed):
    """A generator and a critic take turns; six scores are read in each step, then none."""
    maker = perceptron(n(768, 16), n(8, 2))
    critic = perceptron(n(768, 16), n(8, 2))
    real = torch.randn(n(512, 8), n(768, 16), device=DEVICE)
    first = torch.optim.Adam(maker.parameters(), 1e-5, fused=True)
    second = torch.optim.Adam(critic.parameters(), 1e-5, fused=True)
    log = []

    def step():
        noise = torch.randn_like(real)
        fake = maker(noise)
        scores = critic(real).mean() - critic(fake.detach()).mean()
        scores.backward()
        second.step()
        second.zero_grad()
        if not fixed:
            log[:] = [scores.item(), fake.mean().item(), fake.std().item(), real.std().item()]
        loss = critic(fake).mean()
        loss.backward()
        first.step()
        first.zero_grad()
        if not fixed:
            log[:] = [loss.item(), noise.mean().item()]

    return step


@pair("batch_calls", found=True)
def averages_kept_tensor_by_tensor(fixed):
    """An average of 400 weights is kept, tensor by tensor; the remedy keeps it for all at once."""
    model = perceptron(n(384, 16), n(200, 2))
    x = torch.randn(n(4096, 8), n(384, 16), device=DEVICE)
    weights = list(model.parameters())
    average = [p.detach().clone() for p in weights]
    optimizer = torch.optim.SGD(weights, 1e-6, foreach=True)

    @torch.no_grad()
    def keep(_):
        if fixed:
            torch._foreach_lerp_(average, weights, 0.01)
            return
        for kept, p in zip(average, weights, strict=True):
            kept.mul_(0.99).add_(p, alpha=0.01)

    return optimize(model, optimizer, lambda: model(x).square().mean(), keep)


@pair("fused_optimizer", found=True)
def towers_adagrad_loop(fixed):
    """Two towers of 120 small layers under RMSprop from tensor to tensor; the remedy is its
    version for many tensors."""
    model = perceptron(n(256, 16), n(120, 2))
    x = torch.randn(n(2048, 8), n(256, 16), device=DEVICE)
    optimizer = torch.optim.RMSprop(model.parameters(), 1e-6, foreach=fixed)
    return optimize(model, optimizer, lambda: model(x).square().mean())


class _Cards(torch.utils.data.Dataset):  # Cards drawn by NumPy, one by one
    def __len__(self):
        return n(200_000, 400)

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        board = rng.random((32, 32))
        for _ in range(6):
            board = np.maximum(board, np.roll(board, 1, 0) * 0.9)
        return torch.from_numpy(board.astype("float32").ravel())


def forever(loader):
    while True:
        yield from loader


@pair("data_loader_workers", found=True)
def cards_drawn_in_the_loop(fixed):
    """A network sees 96 cards a step that its loader draws in the loop; the remedy is 8 workers."""
    workers = n(8, 1) if fixed else 0
    loader = torch.utils.data.DataLoader(
        _Cards(), n(96, 4), num_workers=workers, persistent_workers=fixed
    )
    batches = forever(loader)
    model = nn.Sequential(*perceptron(1024, n(10, 1)))
    return train(model, lambda: model(next(batches).to(DEVICE)).square().mean(), cast=True)


@pair("pinned_memory", found=True)
def volumes_from_pageable_memory(fixed):
    """Volumes of 100 MB are copied from pageable memory before each step; then from pinned
    memory, while the step before runs."""
    x = torch.randn(n(64, 2), n(400_000, 100))
    x = x.pin_memory() if fixed and DEVICE == "cuda" else x
    first = nn.Conv1d(1, 8, 9, stride=4).to(DEVICE)
    model = nn.Sequential(first, nn.ReLU(), nn.Conv1d(8, 8, 9, stride=4).to(DEVICE))

    def loss():
        return model(x.to(DEVICE, non_blocking=fixed)[:, None]).square().mean()

    return train(model, loss)


@pair("low_precision", found=True)
def captions_matched_fp32(fixed):
    """Pictures and captions are matched by two encoders in fp32, TF32 allowed; the remedy is
    bf16 autocast."""
    torch.backends.cuda.matmul.allow_tf32 = True
    width = n(768, 32)
    layer = nn.TransformerEncoderLayer(width, n(12, 2), 4 * width, 0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, n(6, 1), enable_nested_tensor=False).to(DEVICE)
    pictures = torch.randn(n(64, 2), n(196, 4), width, device=DEVICE)
    texts = torch.randn(n(64, 2), n(77, 4), width, device=DEVICE)

    def loss():
        a = F.normalize(model(pictures).mean(1), dim=1)
        b = F.normalize(model(texts).mean(1), dim=1)
        return F.cross_entropy(a @ b.t() * 20, torch.arange(len(a), device=DEVICE))

    return train(model, loss, cast=fixed)


@pair("fused_attention", found=True)
def tables_attend_eagerly(fixed):
    """Rows of tables attend to each other, attention written out in bf16; the remedy is
    `scaled_dot_product_attention`."""
    width = n(768, 32)
    heads = n(12, 2)

    class Rows(Module):
        def __init__(self):
            self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(n(6, 1)))

        def forward(self, x):
            for qkv in self.qkv:
                q, k, v = (
                    part.view(*x.shape[:2], heads, -1).transpose(1, 2)
                    for part in qkv(x).chunk(3, -1)
                )
                if fixed:
                    y = F.scaled_dot_product_attention(q, k, v)
                else:
                    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
                    y = torch.softmax(scores, -1) @ v
                x = x + y.transpose(1, 2).reshape(x.shape)
            return x

    model = Rows().to(DEVICE)
    x = torch.randn(n(16, 2), n(1024, 8), width, device=DEVICE)
    return train(model, lambda: model(x).float().square().mean(), cast=True)


@pair("fused_rnn", found=True)
def tides_lstm_cells(fixed):
    """Tides are foretold by a loop of 96 LSTM cells; the remedy is `nn.LSTM`."""
    width = n(256, 8)
    cell = nn.LSTMCell(width, width).to(DEVICE)
    whole = nn.LSTM(width, width, batch_first=True).to(DEVICE)
    x = torch.randn(n(128, 2), n(96, 4), width, device=DEVICE)

    def by_hand():
        h = c = torch.zeros(len(x), width, device=DEVICE)
        out = []
        for moment in x.unbind(1):
            h, c = cell(moment, (h, c))
            out.append(h)
        return torch.stack(out, 1)

    model = whole if fixed else cell
    return train(model, lambda: (whole(x)[0] if fixed else by_hand()).square().mean())


@pair("move_host_work", found=True)
def features_smoothed_in_numpy(fixed):
    """Features of each batch come from NumPy filters on the host; the remedy computes them on
    the GPU."""
    model = perceptron(n(1024, 16), n(8, 1))
    raw = torch.randn(n(256, 4), n(4096, 64))
    width = n(1024, 16)
    on_device = raw.to(DEVICE)
    window = np.hanning(33).astype("float32")

    def host():
        smooth = np.stack([np.convolve(row, window, "same") for row in raw.numpy()])
        return torch.from_numpy(smooth[:, :: raw.shape[1] // width][:, :width].copy()).to(DEVICE)

    kernel = torch.from_numpy(window).to(DEVICE)[None, None]

    def device():
        smooth = F.conv1d(on_device[:, None], kernel, padding=16)[:, 0]
        return smooth[:, :: raw.shape[1] // width][:, :width]

    return train(model, lambda: model(device() if fixed else host()).square().mean(), cast=True)


@pair("avoid_allocations", found=True)
def cache_emptied_each_step(fixed):
    """A step that gives all cached memory back at its end, then one that keeps it."""
    model = perceptron(n(2048, 16), n(16, 2))
    x = torch.randn(n(4096, 8), n(2048, 16), device=DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 1e-6)

    def empty(_):
        if not fixed and DEVICE == "cuda":
            torch.cuda.empty_cache()

    return optimize(model, optimizer, lambda: model(x).square().mean(), empty)


@pair("larger_batch", found=True, as_much=8)
def genes_in_tiny_batches(fixed):
    """A deep network learns from 64 rows of genes a step; the remedy takes 512."""
    model = perceptron(n(1024, 16), n(30, 2))
    x = torch.randn(n(512 if fixed else 64, 4), n(1024, 16), device=DEVICE)
    return train(model, lambda: model(x).float().square().mean(), cast=True)


@pair("no_recompute", found=True)
def maps_checkpointed(fixed):
    """Twelve encoder layers are computed again in the backward pass although memory is free; the
    remedy keeps them."""
    from torch.utils.checkpoint import checkpoint

    width = n(1024, 32)
    layers = nn.ModuleList(
        nn.TransformerEncoderLayer(width, n(16, 2), 4 * width, 0.0, batch_first=True)
        for _ in range(n(12, 2))
    ).to(DEVICE)
    x = torch.randn(n(16, 2), n(512, 8), width, device=DEVICE)

    def loss():
        h = x.requires_grad_()
        for layer in layers:
            h = layer(h) if fixed else checkpoint(layer, h, use_reentrant=False)
        return h.float().square().mean()

    return train(layers, loss, cast=True)


@good("channels_last", "fused_optimizer", found=True)
def good_scans(version):
    """A volume network with group norms in bf16 autocast: its layout brings nothing in three
    dimensions."""
    width = n(32, 4)
    layers = [
        m
        for _ in range(n(8, 1))
        for m in (nn.Conv3d(width, width, 3, padding=1), nn.GroupNorm(4, width), nn.ReLU())
    ]
    model = nn.Sequential(*layers).to(DEVICE)
    x = torch.randn(n(4, 1), width, n(64, 4), n(64, 4), n(64, 4), device=DEVICE)
    if version == "channels_last":
        model = model.to(memory_format=torch.channels_last_3d)
        x = x.contiguous(memory_format=torch.channels_last_3d)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=version == "fused_optimizer")

    def loss():
        with autocast():
            return model(x).float().square().mean()

    return optimize(model, optimizer, loss)


@good("pinned_memory", "remove_syncs", found=True)
def good_wide_layers(version):
    """Wide layers in bf16 that fill the GPU; the loss is read once a step, the batch is small."""
    model = perceptron(n(8192, 16), n(8, 1))
    x = torch.randn(n(4096, 8), n(8192, 16))
    x = x.pin_memory() if version == "pinned_memory" and DEVICE == "cuda" else x
    optimizer = torch.optim.SGD(model.parameters(), 1e-6)

    def loss():
        with autocast():
            return model(x.to(DEVICE)).float().square().mean()

    def read(value):
        if version != "remove_syncs":
            value.item()

    return optimize(model, optimizer, loss, read)


@pair("move_host_work", found=True)
def rewards_summed_in_python(fixed):
    """Rewards of 256 games are discounted by a Python loop each step; the remedy is a product with
    a matrix on the GPU."""
    games = n(256, 4)
    moves = n(200, 8)
    model = perceptron(n(512, 16), n(6, 1))
    seen = torch.randn(games, n(512, 16), device=DEVICE)
    rewards = np.random.default_rng(0).random((games, moves))
    discount = torch.tensor(
        [[0.99 ** (j - i) if j >= i else 0.0 for j in range(moves)] for i in range(moves)],
        device=DEVICE,
    )
    on_device = torch.from_numpy(rewards.astype("float32")).to(DEVICE)

    def returns():
        if fixed:
            return on_device @ discount.t()
        found = []
        for game in rewards.tolist():
            total = 0.0
            row = []
            for reward in reversed(game):
                total = reward + 0.99 * total
                row.append(total)
            found.append(row[::-1])
        return torch.tensor(found, device=DEVICE)

    return train(model, lambda: (model(seen).mean(1) - returns().mean(1)).square().mean())


@pair("data_loader_workers", found=True)
def two_workers_too_few(fixed):
    """Two workers prepare batches for 40 ms each; the remedy is eight."""
    loader = torch.utils.data.DataLoader(
        _Slow(), batch_size=None, num_workers=n(8 if fixed else 2, 1), persistent_workers=True
    )
    batches = forever(loader)
    model = perceptron(n(1024, 16), n(6, 1))
    return train(model, lambda: model(next(batches).to(DEVICE)).square().mean(), cast=True)


class _Slow(torch.utils.data.Dataset):  # Batches that take 40 ms each
    def __len__(self):
        return 100_000

    def __getitem__(self, i):
        time.sleep(0.04)
        return torch.full((n(256, 4), n(1024, 16)), float(i % 7))
