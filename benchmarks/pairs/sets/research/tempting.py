"""Programs with a remedy that everybody would name, and that brings nothing there: a stopwatch says so."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss, softplus

from benchmarks.pairs.program import DEVICE, Pair, n, train

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


def phases_timed(fixed: bool) -> Step:
    """A wide encoder in bf16; the device is waited for after each phase to time it, which costs next to nothing."""
    width = n(2048, 64)
    layer = nn.TransformerEncoderLayer(width, 16, 4 * width, 0.0, batch_first=True, norm_first=True)
    body = nn.TransformerEncoder(layer, n(6, 1), enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(4096, width), body, nn.Linear(width, 4096)).to(DEVICE, torch.bfloat16)
    tokens = torch.randint(0, 4096, (n(16, 2), n(1024, 16)), device=DEVICE)
    optimizer, spent = torch.optim.AdamW(model.parameters(), 1e-5, fused=True), dict.fromkeys("fbo", 0.0)

    def lap(phase: str, begin: float) -> float:
        if not fixed and DEVICE == "cuda":
            torch.cuda.synchronize()
        now = time.perf_counter()
        spent[phase] += now - begin
        return now

    def step() -> None:
        begin = time.perf_counter()
        loss = cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        begin = lap("f", begin)
        loss.backward()
        begin = lap("b", begin)
        optimizer.step()
        optimizer.zero_grad()
        lap("o", begin)

    return step


def autoencoder_wide(fixed: bool) -> Step:
    """Four layers 8192 wide clean noisy profiles in bf16; compiling sounds right, but products take all the time."""
    width = n(8192, 32)
    with torch.device(DEVICE):
        layers = [x for _ in range(3) for x in (nn.Linear(width, width, bias=False), nn.ReLU(inplace=True))]
        model = nn.Sequential(*layers, nn.Linear(width, n(1024, 32), bias=False)).to(torch.bfloat16)
    forward = torch.compile(model) if fixed else model
    noisy = torch.randn(width, width, device=DEVICE, dtype=torch.bfloat16)
    clean = torch.randn(width, n(1024, 32), device=DEVICE, dtype=torch.bfloat16)
    return train(model, lambda: mse_loss(forward(noisy), clean), torch.optim.SGD(model.parameters(), 1e-3, fused=True))


def tables_generator_fp32(fixed: bool) -> Step:
    """A GAN of small layers invents rows of a table, in fp32; bf16 sounds right, but launches take all the time."""
    maker = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 40))
    judge = nn.Sequential(nn.Linear(40, 128), nn.LeakyReLU(0.2), nn.Linear(128, 128), nn.LeakyReLU(0.2))
    maker, judge = maker.to(DEVICE), judge.append(nn.Linear(128, 1)).to(DEVICE)
    making, judging = (torch.optim.Adam(net.parameters(), 2e-4, (0.5, 0.9)) for net in (maker, judge))
    rows = torch.randn(256, 40, device=DEVICE)

    def step() -> None:
        with torch.autocast(DEVICE, torch.bfloat16, enabled=fixed):
            false = maker(torch.randn(256, 32, device=DEVICE))
            loss = softplus(-judge(rows)).mean() + softplus(judge(false.detach())).mean()
        judging.zero_grad()
        loss.backward()
        judging.step()
        with torch.autocast(DEVICE, torch.bfloat16, enabled=fixed):
            loss = softplus(-judge(false)).mean()
        making.zero_grad()
        loss.backward()
        making.step()

    return step


PAIRS = (
    Pair("remove_syncs", phases_timed, found=True, libraries=(), fixed_too=False),
    Pair("compile", autoencoder_wide, found=True, libraries=(), fixed_too=False, early=("fix",)),
    Pair("low_precision", tables_generator_fp32, libraries=(), fixed_too=False),
)
