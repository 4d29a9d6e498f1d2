"""Models of well-known libraries, with and without a remedy: `python -m benchmarks.real_models NAME [REMEDY]`.

For a host with a GPU, timm and transformers (random weights, nothing is downloaded). Prints step times, ms, of rounds
timed with a stopwatch. Recorded by `traceanalyzer collect torch -- python -m benchmarks.real_models NAME`, the report's
predictions can be held against the remedies: docs/accuracy.md has what that gave.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import cross_entropy

if TYPE_CHECKING:
    from collections.abc import Callable

DEVICE = "cuda"
WARM_UP, ROUNDS, STEPS = 15, 7, 15


def resnet50(remedy: str) -> Callable[[], object]:
    """ResNet-50 in bf16 and channels-last, batch 128. Remedies: compile."""
    import timm

    model = timm.create_model("resnet50").to(DEVICE, memory_format=torch.channels_last)
    x = torch.randn(128, 3, 224, 224, device=DEVICE).to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (128,), device=DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    forward = torch.compile(model) if remedy == "compile" else model

    def step() -> None:
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def gpt2_train(remedy: str) -> Callable[[], object]:
    """A GPT-2 of width 1024 in bf16, 8 sequences of 1024 tokens. Remedies: compile (which pads the vocabulary, too)."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=12, n_embd=1024, n_head=16)).to(DEVICE)
    tokens = torch.randint(0, 50000, (8, 1024), device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    forward = torch.compile(model) if remedy == "compile" else model

    def step() -> None:
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = forward(tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def bert_fp32(remedy: str) -> Callable[[], object]:
    """BERT-base trained in fp32, 32 sequences of 128 tokens, its loss read every step. Remedies: tf32."""
    from transformers import BertConfig, BertForSequenceClassification

    if remedy == "tf32":
        torch.set_float32_matmul_precision("high")
    model = BertForSequenceClassification(BertConfig()).to(DEVICE)
    tokens, y = torch.randint(0, 30000, (32, 128), device=DEVICE), torch.randint(0, 2, (32,), device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        loss = model(tokens, labels=y).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()

    return step


def gpt2_generate(remedy: str) -> Callable[[], object]:
    """GPT-2 generating token by token, its KV cache growing; a step is a token. Remedies: no_cudnn_sdp."""
    from transformers import GPT2Config, GPT2LMHeadModel

    if remedy == "no_cudnn_sdp":
        torch.backends.cuda.enable_cudnn_sdp(False)
    model = GPT2LMHeadModel(GPT2Config(n_positions=2048)).to(DEVICE, torch.bfloat16).eval()
    tokens, cache = torch.randint(0, 50000, (4, 64), device=DEVICE), None

    def step() -> None:
        nonlocal tokens, cache
        with torch.inference_mode():
            result = model(tokens, past_key_values=cache, use_cache=True)
        tokens, cache = result.logits[:, -1:].argmax(-1), result.past_key_values

    return step


MODELS = {f.__name__: f for f in (resnet50, gpt2_train, bert_fp32, gpt2_generate)}


def round_ms(step: Callable[[], object]) -> float:
    """Mean step time of a round, the device waited for at both ends."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / STEPS * 1e3


def main() -> None:
    """Time one model."""
    name, remedy = sys.argv[1], (sys.argv[2:] or ["plain"])[0]
    torch.manual_seed(0)
    step = MODELS[name](remedy)
    for _ in range(WARM_UP):
        step()
    rounds = [round_ms(step) for _ in range(ROUNDS)]
    print(f"{name} {remedy}: median {statistics.median(rounds):.2f} ms of", *(f"{r:.2f}" for r in rounds))


if __name__ == "__main__":
    main()
