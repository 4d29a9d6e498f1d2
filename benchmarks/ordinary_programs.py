"""Ordinary programs of well-known libraries, each as a function that makes a step: for `benchmarks.collect_light`.

Random weights, nothing is downloaded. They are launch-bound, compute-bound and between, on purpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

if TYPE_CHECKING:
    from collections.abc import Callable

DEVICE = "cuda"


def _training(model: nn.Module, loss_of: Callable[[], torch.Tensor], optimizer: Any) -> Callable[[], object]:
    def step() -> None:
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = loss_of()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def bert_adam_loop() -> Callable[[], object]:
    """BERT-base, 32 sequences of 128 tokens, an AdamW that updates one parameter after the other."""
    from transformers import BertConfig, BertForSequenceClassification

    model = BertForSequenceClassification(BertConfig()).to(DEVICE)
    tokens, labels = torch.randint(0, 30000, (32, 128), device=DEVICE), torch.randint(0, 2, (32,), device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    return _training(model, lambda: model(tokens, labels=labels).loss, optimizer)


def gpt2_checkpointed() -> Callable[[], object]:
    """A GPT-2 of width 1024 whose blocks are computed again in the backward pass."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=12, n_embd=1024, n_head=16)).to(DEVICE)
    model.gradient_checkpointing_enable()
    tokens = torch.randint(0, 50000, (8, 1024), device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    return _training(model, lambda: model(tokens, labels=tokens).loss, optimizer)


def mobilenet_item() -> Callable[[], object]:
    """MobileNetV3 that reads each gradient's norm with `.item()`."""
    import timm

    model = timm.create_model("mobilenetv3_large_100").to(DEVICE, memory_format=torch.channels_last)
    x = torch.randn(64, 3, 224, 224, device=DEVICE).to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (64,), device=DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def step() -> float:
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = cross_entropy(model(x), y)
        loss.backward()
        norm = sum(p.grad.norm().item() for p in model.parameters() if p.grad is not None)
        optimizer.step()
        optimizer.zero_grad()
        return norm

    return step


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        convolution = nn.Conv2d(width, width, 3, padding=1)
        self.body = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), convolution, nn.GroupNorm(8, width), nn.SiLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


def unet_groupnorm() -> Callable[[], object]:
    """A small U-Net with GroupNorm."""
    width, levels = 64, 3
    down = nn.ModuleList(_Block(width << i) for i in range(levels))
    shrink = nn.ModuleList(nn.Conv2d(width << i, width << (i + 1), 3, 2, 1) for i in range(levels))
    grow = nn.ModuleList(nn.ConvTranspose2d(width << (i + 1), width << i, 2, 2) for i in range(levels))
    up = nn.ModuleList(_Block(width << i) for i in range(levels))
    first, last, middle = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1), _Block(width << levels)
    model = nn.ModuleList([down, shrink, grow, up, first, last, middle]).to(DEVICE, memory_format=torch.channels_last)
    x = torch.randn(16, 3, 128, 128, device=DEVICE).to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def loss() -> torch.Tensor:
        h, skips = first(x), []
        for i in range(levels):
            h = down[i](h)
            skips.append(h)
            h = shrink[i](h)
        h = middle(h)
        for i in reversed(range(levels)):
            h = up[i](grow[i](h) + skips[i])
        return (last(h) - x).float().square().mean()

    return _training(model, loss, optimizer)


def policy_network() -> Callable[[], object]:
    """A small policy network, called 16 times a step, trained once."""
    model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 8)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), 3e-4)
    mix = torch.randn(8, 64, device=DEVICE)

    def step() -> None:
        state, chances = torch.randn(32, 64, device=DEVICE), []
        for _ in range(16):
            policy = torch.distributions.Categorical(logits=model(state), validate_args=False)
            action = policy.sample()
            chances.append(policy.log_prob(action))
            state = torch.tanh(state + mix[action])
        (-torch.stack(chances).mean()).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def lstm_cells() -> Callable[[], object]:
    """A loop of LSTM cells over 100 time steps."""
    cell, head = nn.LSTMCell(256, 512).to(DEVICE), nn.Linear(512, 10).to(DEVICE)
    x, y = torch.randn(100, 64, 256, device=DEVICE), torch.randint(0, 10, (64,), device=DEVICE)
    optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])

    def step() -> None:
        h = c = torch.zeros(64, 512, device=DEVICE)
        for row in x:
            h, c = cell(row, (h, c))
        cross_entropy(head(h), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def retinanet() -> Callable[[], object]:
    """RetinaNet with a ResNet-50, four images."""
    from torchvision.models.detection import retinanet_resnet50_fpn

    model = retinanet_resnet50_fpn(weights=None, weights_backbone=None).to(DEVICE).train()
    images = [torch.rand(3, 480, 640, device=DEVICE) for _ in range(4)]
    corners = torch.tensor([[20.0, 30.0, 200.0, 240.0], [300.0, 100.0, 460.0, 300.0]], device=DEVICE)
    targets = [{"boxes": corners, "labels": torch.tensor([1, 2], device=DEVICE)} for _ in images]
    optimizer = torch.optim.SGD(model.parameters(), 1e-4, momentum=0.9)

    def step() -> None:
        sum(model(images, targets).values()).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def llama_decode() -> Callable[[], object]:
    """A Llama of 1 B parameters that writes a token a step, its KV cache growing."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16}
    config = LlamaConfig(**sizes, num_attention_heads=32, num_key_value_heads=8, vocab_size=32000)
    with torch.device(DEVICE):
        model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
    tokens, cache = torch.randint(0, 30000, (4, 64), device=DEVICE), None

    @torch.inference_mode()
    def step() -> None:
        nonlocal tokens, cache
        result = model(tokens, past_key_values=cache, use_cache=True)
        tokens, cache = result.logits[:, -1:].argmax(-1), result.past_key_values

    return step


def graphed_layers() -> Callable[[], object]:
    """Layers captured in a CUDA graph: whatever switches CUPTI off must leave its replays alone."""
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(30))).to(DEVICE)
    x = torch.randn(8, 256, device=DEVICE)
    with torch.no_grad():
        for _ in range(3):
            model(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = model(x)
    head = nn.Linear(256, 1).to(DEVICE)

    @torch.inference_mode()
    def step() -> torch.Tensor:
        graph.replay()
        return head(y)

    return step


PROGRAMS: dict[str, Callable[[], Callable[[], object]]] = {
    f.__name__: f
    for f in (
        bert_adam_loop,
        gpt2_checkpointed,
        mobilenet_item,
        unet_groupnorm,
        policy_network,
        lstm_cells,
        retinanet,
        llama_decode,
        graphed_layers,
    )
}
