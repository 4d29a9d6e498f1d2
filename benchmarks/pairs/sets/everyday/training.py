"""Training as it is often written: pictures, texts, sounds and tables, each with one thing left undone."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, one_hot, scaled_dot_product_attention

from benchmarks.pairs.program import DEVICE, Pair, autocast, n, train

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


def efficientnet_sgd_loop(fixed: bool) -> Step:
    """timm's EfficientNetV2 trained in bf16; SGD with momentum goes from tensor to tensor."""
    import timm

    model = timm.create_model("tf_efficientnetv2_b0", num_classes=100)
    model = model.to(DEVICE, memory_format=torch.channels_last)
    x = torch.randn(n(32, 2), 3, n(160, 32), n(160, 32), device=DEVICE).to(memory_format=torch.channels_last)
    y = torch.randint(0, 100, (len(x),), device=DEVICE)
    how: dict[str, Any] = {"fused": True} if fixed else {"foreach": False}
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, nesterov=True, weight_decay=1e-4, **how)

    def loss() -> Any:
        with autocast():
            return cross_entropy(model(x), y)

    return train(model, loss, optimizer)


def convnext_fp32(fixed: bool) -> Step:
    """timm's ConvNeXt (tiny) fine-tuned in fp32, matrix products at PyTorch's default precision."""
    import timm

    torch.set_float32_matmul_precision("high" if fixed else "highest")
    model = timm.create_model("convnext_tiny", num_classes=20).to(DEVICE)
    x = torch.randn(n(32, 2), 3, n(192, 32), n(192, 32), device=DEVICE)
    y = torch.randint(0, 20, (len(x),), device=DEVICE)
    return train(model, lambda: cross_entropy(model(x), y))


def t5_fp32(fixed: bool) -> Step:
    """T5 (small) trained to translate in fp32, TF32 allowed; the remedy is bf16 autocast."""
    from transformers import T5Config, T5ForConditionalGeneration

    torch.set_float32_matmul_precision("high")
    config = T5Config(
        vocab_size=n(32128, 128), num_layers=n(6, 1), num_decoder_layers=n(6, 1), decoder_start_token_id=0
    )
    model = T5ForConditionalGeneration(config).to(DEVICE)
    source = torch.randint(2, n(32000, 100), (n(32, 1), n(384, 8)), device=DEVICE)
    target = torch.randint(2, n(32000, 100), (n(32, 1), n(128, 8)), device=DEVICE)

    def loss() -> Any:
        with torch.autocast(DEVICE, torch.bfloat16, enabled=fixed):
            return model(input_ids=source, labels=target).loss

    return train(model, loss)


def vit_checkpointed(fixed: bool) -> Step:
    """timm's ViT (small) trained in bf16 with checkpointed blocks on a GPU that has memory to spare."""
    import timm

    model = timm.create_model("vit_small_patch16_224", num_classes=100).to(DEVICE)
    model.set_grad_checkpointing(not fixed)
    x, y = torch.randn(n(128, 1), 3, 224, 224, device=DEVICE), torch.randint(0, 100, (n(128, 1),), device=DEVICE)

    def loss() -> Any:
        with autocast():
            return cross_entropy(model(x), y)

    return train(model, loss)


class Reader(nn.Module):
    """A decoder's layer whose attention is a masked softmax, as the paper has it."""

    def __init__(self, width: int, heads: int, length: int, *, fixed: bool) -> None:
        super().__init__()
        self.heads, self.fixed = heads, fixed
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("hidden", torch.ones(length, length, dtype=torch.bool).triu(1))

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Of (batch, heads, length, width)."""
        if self.fixed:
            return scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        return scores.masked_fill(self.hidden, float("-inf")).softmax(-1) @ v

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, length, width = x.shape
        parts = self.qkv(self.before(x)).view(b, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(self.attend(*parts).transpose(1, 2).reshape(b, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.after(x))))


def decoder_masked_softmax(fixed: bool) -> Step:
    """A decoder in bf16 on 1024 tokens whose attention is products, a mask and a softmax."""
    width, length = n(768, 64), n(1024, 16)
    layers = [Reader(width, n(12, 2), length, fixed=fixed) for _ in range(n(5, 1))]
    model = nn.Sequential(nn.Embedding(8192, width), *layers, nn.Linear(width, 8192)).to(DEVICE, torch.bfloat16)
    tokens = torch.randint(0, 8192, (n(8, 2), length), device=DEVICE)
    return train(model, lambda: cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()))


def label_smoothing_by_hand(fixed: bool) -> Step:
    """A language model whose smoothed loss over 32,000 words is written out in Python."""
    words, width = n(32000, 100), n(512, 32)
    layer = nn.TransformerEncoderLayer(width, 8, 4 * width, 0.0, batch_first=True)
    body = nn.TransformerEncoder(layer, n(3, 1), enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(words, width), body, nn.Linear(width, words)).to(DEVICE)
    tokens = torch.randint(0, words, (n(8, 2), n(512, 16)), device=DEVICE)

    def loss() -> Any:
        with autocast():
            logits = model(tokens).flatten(0, 1).float()
        if fixed:
            return cross_entropy(logits, tokens.flatten(), label_smoothing=0.1)
        wanted = one_hot(tokens.flatten(), words).float() * 0.9 + 0.1 / words
        return -(wanted * (logits.softmax(-1) + 1e-9).log()).sum(-1).mean()

    return train(model, loss)


class KeywordSpotter(nn.Module):
    """Convolutions over a spectrogram, then an LSTM that a stream would feed frame by frame."""

    def __init__(self, fixed: bool) -> None:
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(40, 192, 5, 2, 2), nn.BatchNorm1d(192), nn.ReLU())
        self.layer, self.head, self.fixed = nn.LSTM(192, 384, 2, batch_first=True), nn.Linear(384, 36), fixed

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        x = self.front(sound).transpose(1, 2)
        if self.fixed:
            return self.head(self.layer(x)[0][:, -1])
        state, out = None, x[:, 0]
        for frame in x.split(1, 1):
            out, state = self.layer(frame, state)
        return self.head(out[:, -1])


def keywords_frame_by_frame(fixed: bool) -> Step:
    """A keyword spotter that is trained as it streams: its LSTM is called for every frame."""
    model = KeywordSpotter(fixed).to(DEVICE)
    sound, y = torch.randn(n(64, 2), 40, n(200, 20), device=DEVICE), torch.randint(0, 36, (n(64, 2),), device=DEVICE)
    return train(model, lambda: cross_entropy(model(sound), y))


def tables_small_batch(fixed: bool) -> Step:
    """A transformer over the 32 columns of a table, 64 rows at a time; the remedy is eight times as many."""
    layer = nn.TransformerEncoderLayer(128, 8, 256, 0.1, batch_first=True, norm_first=True)
    body = nn.TransformerEncoder(layer, n(4, 1), enable_nested_tensor=False)
    model = nn.Sequential(nn.Linear(16, 128), body, nn.Flatten(), nn.Linear(32 * 128, 2)).to(DEVICE)
    rows = n(64, 4) * (8 if fixed else 1)
    x, y = torch.randn(rows, 32, 16, device=DEVICE), torch.randint(0, 2, (rows,), device=DEVICE)
    return train(model, lambda: cross_entropy(model(x), y))


def gpt2_odd_vocabulary(fixed: bool) -> Step:
    """A small GPT-2 in bf16 with the tokenizer's 50,257 words."""
    from transformers import GPT2Config, GPT2LMHeadModel

    words = n(50304 if fixed else 50257, 104 if fixed else 101)
    model = GPT2LMHeadModel(GPT2Config(n_layer=n(2, 1), n_embd=n(768, 24), vocab_size=words))
    model = model.to(DEVICE, torch.bfloat16)
    tokens = torch.randint(0, 100, (n(12, 1), n(1024, 16)), device=DEVICE)
    return train(model, lambda: model(input_ids=tokens, labels=tokens).loss)


class UNet(nn.Module):
    """Two steps down, two up, everything at full width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        sizes = (3, width, 2 * width, 4 * width)
        self.down = nn.ModuleList(self.pair(a, b) for a, b in itertools.pairwise(sizes))
        self.wider = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in ((width, 2 * width), sizes[2:]))
        self.up = nn.ModuleList(self.pair(2 * a, a) for a in sizes[1:3])
        self.head = nn.Conv2d(width, 4, 1)

    @staticmethod
    def pair(inputs: int, outputs: int) -> nn.Sequential:
        """Two convolutions."""
        layers = [
            (nn.Conv2d(a, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))
            for a in (inputs, outputs)
        ]
        return nn.Sequential(*(one for layer in layers for one in layer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.down[0](x)
        second = self.down[1](nn.functional.max_pool2d(first, 2))
        x = self.down[2](nn.functional.max_pool2d(second, 2))
        x = self.up[1](torch.cat((second, self.wider[1](x)), 1))
        return self.head(self.up[0](torch.cat((first, self.wider[0](x)), 1)))


def unet_nchw(fixed: bool) -> Step:
    """A U-Net that marks organs in slices, in bf16 autocast and PyTorch's default layout."""
    form = torch.channels_last if fixed else torch.contiguous_format
    model = UNet(n(64, 8)).to(DEVICE, memory_format=form)
    x = torch.randn(n(16, 1), 3, n(256, 32), n(256, 32), device=DEVICE).to(memory_format=form)
    y = torch.randint(0, 4, (len(x), *x.shape[2:]), device=DEVICE)

    def loss() -> Any:
        with autocast():
            return cross_entropy(model(x), y)

    return train(model, loss)


class Spectrograms(torch.utils.data.Dataset):
    """Recordings whose log spectrograms numpy computes and masks when they are asked for."""

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        chance = np.random.default_rng(index)
        sound = chance.standard_normal(n(64_000, 4_000), np.float32)
        frames = np.lib.stride_tricks.sliding_window_view(sound, 512)[::160] * np.hanning(512)
        power = np.log1p(np.abs(np.fft.rfft(frames))[:, :256].astype(np.float32))
        begin = int(chance.integers(0, len(power) - 8))
        power[begin : begin + 8] = 0
        return torch.from_numpy(power.T.copy()), index % 36


def speech_features_inline(fixed: bool) -> Step:
    """Convolutions and an LSTM learn from spectrograms that the main process computes."""
    front = nn.Sequential(nn.Conv1d(256, 256, 5, 2, 2), nn.ReLU(), nn.Conv1d(256, 256, 5, 2, 2), nn.ReLU()).to(DEVICE)
    layer, head = nn.LSTM(256, 256, 2, batch_first=True, bidirectional=True).to(DEVICE), nn.Linear(512, 36).to(DEVICE)
    more: dict[str, Any] = {"num_workers": n(10, 1), "persistent_workers": True, "prefetch_factor": 3} if fixed else {}
    batches = iter(torch.utils.data.DataLoader(Spectrograms(), n(32, 2), pin_memory=DEVICE == "cuda", **more))

    def loss() -> Any:
        x, y = (one.to(DEVICE, non_blocking=True) for one in next(batches))
        return cross_entropy(head(layer(front(x).transpose(1, 2))[0].mean(1)), y)

    return train(nn.ModuleList((front, layer, head)), loss)


TIMM, TRANSFORMERS = ("timm",), ("transformers.models.gpt2.modeling_gpt2", "transformers.models.t5.modeling_t5")
PAIRS = (
    Pair("fused_optimizer", efficientnet_sgd_loop, found=True, libraries=TIMM),
    Pair("tf32", convnext_fp32, found=True, libraries=TIMM, fixed_too=False),
    Pair("low_precision", t5_fp32, found=True, libraries=TRANSFORMERS, fixed_too=False),
    Pair("no_recompute", vit_checkpointed, found=True, libraries=TIMM),
    Pair("fused_attention", decoder_masked_softmax, found=True, libraries=()),
    Pair("fuse_elementwise", label_smoothing_by_hand, found=True, libraries=()),
    Pair("fused_rnn", keywords_frame_by_frame, found=True, libraries=()),
    Pair("larger_batch", tables_small_batch, found=True, as_much=8, libraries=(), fixed_too=False),
    Pair("pad_shapes", gpt2_odd_vocabulary, found=True, libraries=TRANSFORMERS),
    Pair("channels_last", unet_nchw, found=True, libraries=()),
    Pair("data_loader_workers", speech_features_inline, found=True, libraries=()),
)
