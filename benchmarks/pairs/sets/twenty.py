"""Twenty programs with one thing wrong each, made for a test of the remedies: they are called as
their remedies are."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Module, autocast, n, pair, train

TIMM = ("timm",)


class Block(Module):  # A transformer block
    def __init__(self, width, heads, *, written_out=False):
        self.heads = heads
        self.written_out = written_out
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            self.qkv(self.norm1(x))
            .view(b, t, 3, self.heads, c // self.heads)
            .permute(2, 0, 3, 1, 4)
        )
        if self.written_out:
            y = torch.softmax(q @ k.transpose(-1, -2) / (c // self.heads) ** 0.5, -1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


def blocks(count, width, heads, **how):
    return nn.Sequential(*(Block(width, heads, **how) for _ in range(n(count, 1)))).to(DEVICE)


def trained(model, loss):  # With the learning rate that AdamW comes with
    return train(torch.optim.AdamW(model.parameters(), fused=True), loss)


def wide_layers():
    model = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(n(8, 1)))).to(DEVICE)
    x = torch.randn(n(4096, 4), 2048, device=DEVICE)
    return trained(model, lambda: model(x).square().mean())


@pair("remove_syncs")
def remove_syncs(fixed):
    """A norm is read after every layer."""
    layers = nn.ModuleList(nn.Linear(1024, 1024) for _ in range(24)).to(DEVICE)
    x = torch.randn(256, 1024, device=DEVICE)

    def step():
        y = x
        norms = []
        with torch.no_grad():
            for layer in layers:
                y = torch.relu(layer(y))
                if not fixed:
                    norms.append(y.norm().item())

    return step


@pair("batch_calls")
def batch_calls(fixed):
    """Texts are encoded one by one."""
    model = blocks(6, 384, 6).eval()
    texts = torch.randn(24, 64, 384, device=DEVICE)

    def step():
        with torch.inference_mode():
            if fixed:
                model(texts)
            else:
                for text in texts:
                    model(text[None])

    return step


@pair("fused_optimizer")
def fused_optimizer(fixed):
    """AdamW loops over parameters."""
    model = blocks(12, 512, 8)
    x = torch.randn(8, 128, 512, device=DEVICE)
    how = {"fused": True} if fixed else {"foreach": False}
    return train(torch.optim.AdamW(model.parameters(), **how), lambda: model(x).square().mean())


@pair("fuse_elementwise")
def fuse_elementwise(fixed):
    """RMS norm and SiLU gate are written out."""
    x = torch.randn(n(8192, 4), 4096, device=DEVICE)
    w = torch.randn(4096, device=DEVICE)

    def norm(t):
        return (
            F.rms_norm(t, (4096,), w, 1e-6)
            if fixed
            else t * torch.rsqrt(t.pow(2).mean(-1, keepdim=True) + 1e-6) * w
        )

    def step():
        with torch.no_grad():
            y = x
            for _ in range(6):
                y = norm(y)

    return step


@pair("fused_attention")
def fused_attention(fixed):
    """Attention is written out."""
    model = blocks(4, 1024, 16, written_out=not fixed).to(torch.bfloat16)
    x = torch.randn(n(4, 1), n(2048, 16), 1024, device=DEVICE, dtype=torch.bfloat16)
    return trained(model, lambda: model(x).float().square().mean())


@pair("tf32", libraries=TIMM)
def tf32(fixed):
    """A ViT in fp32 without TF32."""
    import timm

    model = timm.create_model("vit_small_patch16_224").to(DEVICE)
    x = torch.randn(n(64, 1), 3, 224, 224, device=DEVICE)
    inner = trained(model, lambda: model(x).square().mean())

    def step():
        torch.set_float32_matmul_precision("high" if fixed else "highest")
        inner()
        torch.set_float32_matmul_precision("highest")

    return step


@pair("low_precision", libraries=TIMM)
def low_precision(fixed):
    """A ViT in fp32 with TF32; the remedy is bf16 autocast."""
    import timm

    model = timm.create_model("vit_base_patch16_224").to(DEVICE)
    x = torch.randn(n(48, 1), 3, 224, 224, device=DEVICE)

    def loss():
        torch.set_float32_matmul_precision("high")
        with torch.autocast(DEVICE, torch.bfloat16, enabled=fixed):
            return model(x).float().square().mean()

    return trained(model, loss)


@pair("channels_last", libraries=TIMM)
def channels_last(fixed):
    """ResNet-50 in bf16 with NCHW tensors."""
    import timm

    form = torch.channels_last if fixed else torch.contiguous_format
    model = timm.create_model("resnet50").to(DEVICE, memory_format=form)
    x = torch.randn(n(96, 1), 3, 224, 224, device=DEVICE).to(memory_format=form)
    return trained(model, autocast()(lambda: model(x).float().square().mean()))


@pair("pad_shapes")
def pad_shapes(fixed):
    """A vocabulary of 50257."""
    words = 50304 if fixed else 50257
    size = (n(8, 1), n(1024, 8))
    trunk = blocks(4, 768, 12)
    model = nn.Sequential(trunk, nn.Linear(768, words, bias=False)).to(DEVICE, torch.bfloat16)
    x = torch.randn(*size, 768, device=DEVICE, dtype=torch.bfloat16)
    y = torch.randint(0, 50257, (size[0] * size[1],), device=DEVICE)
    return trained(model, lambda: F.cross_entropy(model(x).view(-1, words), y))


class Slow(Dataset):  # Samples that take CPU time to decode
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        return torch.from_numpy(np.sort(rng.random((3, 128, 128), np.float32), axis=-1))


@pair("data_loader_workers", libraries=TIMM)
def data_loader_workers(fixed):
    """A loader without workers."""
    import timm

    model = timm.create_model("resnet18").to(DEVICE)
    more = (
        {"num_workers": n(8, 1), "persistent_workers": True, "prefetch_factor": 4} if fixed else {}
    )
    batches = iter(DataLoader(Slow(), batch_size=n(32, 2), pin_memory=DEVICE == "cuda", **more))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return train(
        optimizer, lambda: model(next(batches).to(DEVICE, non_blocking=True)).square().mean()
    )


@pair("no_recompute")
def no_recompute(fixed):
    """Every block is checkpointed although memory is free."""
    model = blocks(8, 1024, 16).to(torch.bfloat16)
    x = torch.randn(
        n(8, 1), n(1024, 8), 1024, device=DEVICE, dtype=torch.bfloat16, requires_grad=True
    )

    def loss():
        y = x
        for block in model:
            y = block(y) if fixed else checkpoint(block, y, use_reentrant=False)
        return y.float().square().mean()

    return trained(model, loss)


@pair("cuda_graph")
def cuda_graph(fixed):
    """Inference of many tiny layers."""
    model = (
        nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(48)))
        .to(DEVICE)
        .eval()
    )
    x = torch.randn(8, 256, device=DEVICE)
    with torch.inference_mode():
        model(x)
    if not fixed or DEVICE != "cuda":
        return lambda: torch.inference_mode()(model)(x)
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph):
        model(x)
    return graph.replay


@pair("pinned_memory")
def pinned_memory(fixed):
    """Large batches come from pageable memory."""
    batch = torch.randn(n(256, 1), 3, 224, 224)
    batch = batch.pin_memory() if fixed and DEVICE == "cuda" else batch
    net = nn.Sequential(
        nn.Conv2d(3, 64, 7, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.AdaptiveAvgPool2d(1)
    ).to(DEVICE)
    return torch.no_grad()(lambda: net(batch.to(DEVICE, non_blocking=fixed)))


@pair("keep_on_device")
def keep_on_device(fixed):
    """A constant table is copied to the GPU in every step."""
    table = torch.randn(16384, 1024)
    table = table.to(DEVICE) if fixed else table
    index = torch.randint(0, 16384, (8192,), device=DEVICE)
    layer = nn.Linear(1024, 1024).to(DEVICE)
    return torch.no_grad()(lambda: layer(table.to(DEVICE)[index]))


@pair("fused_rnn")
def fused_rnn(fixed):
    """A loop over LSTM cells."""
    x = torch.randn(n(96, 6), 32, 256, device=DEVICE)
    cell = nn.LSTMCell(256, 256).to(DEVICE)
    whole = nn.LSTM(256, 256).to(DEVICE)

    def loss():
        if fixed:
            return whole(x)[0].square().mean()
        state = (torch.zeros(32, 256, device=DEVICE), torch.zeros(32, 256, device=DEVICE))
        out = []
        for row in x:
            state = cell(row, state)
            out.append(state[0])
        return torch.stack(out).square().mean()

    return trained(whole if fixed else cell, loss)


@pair("batched_matmul")
def batched_matmul(fixed):
    """Experts are multiplied one by one."""
    experts = torch.randn(64, 256, 256, device=DEVICE)
    tokens = torch.randn(64, 32, 256, device=DEVICE)
    if fixed:
        return lambda: torch.bmm(tokens, experts)
    return lambda: torch.stack([t @ e for t, e in zip(tokens, experts, strict=True)])


@pair("compile", early=("fix",))
def compiled(fixed):
    """Convolutions with group norm and SiLU, eager."""
    layers = [
        nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.GroupNorm(8, 64), nn.SiLU())
        for _ in range(n(8, 1))
    ]
    model = nn.Sequential(*layers).to(DEVICE)
    x = torch.randn(n(16, 1), 64, n(128, 8), n(128, 8), device=DEVICE)
    forward = torch.compile(model) if fixed else model
    return trained(model, lambda: forward(x).square().mean())


@pair("avoid_allocations")
def avoid_allocations(fixed):
    """The cache is emptied in every step."""
    inner = wide_layers()

    def step():
        inner()
        if not fixed:
            torch.cuda.empty_cache()

    return step


@pair("move_host_work")
def move_host_work(fixed):
    """Python computes statistics between steps."""
    inner = wide_layers()
    log = np.random.default_rng(0).random(300_000)

    def step():
        inner()
        if not fixed:
            np.sort(log)

    return step


@pair("fixed_shapes")
def fixed_shapes(fixed):
    """cuDNN's benchmark mode meets a new width in every step."""
    net = nn.Sequential(*(nn.Conv2d(32, 32, 3, padding=1) for _ in range(4))).to(DEVICE)
    widths = iter(range(64, 4000))

    def step():
        torch.backends.cudnn.benchmark = True
        with torch.no_grad():
            net(torch.zeros(n(8, 1), 32, n(64, 8), 512 if fixed else next(widths), device=DEVICE))

    return step
