"""Run operators on working sets far above the L2, once each, on a GPU: `python benchmarks/op_bytes_run.py`.

`--trace FILE` records the run by torch.profiler; without it it is meant to run under Nsight Compute:
`ncu --csv --clock-control none --cache-control all --metrics dram__bytes.sum python benchmarks/op_bytes_run.py`.
Both runs launch the same kernels in the same order; `benchmarks/op_bytes.py` compares them.
"""

from __future__ import annotations

import argparse
import contextlib

import torch
from torch.nn import functional as f

BF16 = torch.bfloat16


def made(*shape: int, dtype: torch.dtype = BF16, grad: bool = False) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype).requires_grad_(grad)


def pointwise() -> None:
    x, y, row = made(16384, 16384), made(16384, 16384), made(16384)
    _ = x + y, x * row, f.gelu(x), f.silu(x), x.float(), x > y, torch.where(x > 0, x, y), x.exp()
    _ = x.t().contiguous(), torch.cat((x, y)), f.dropout(x, 0.1, training=True), x.masked_fill_(y > 0, 0)


def norms() -> None:
    x, w = made(65536, 4096, grad=True), made(4096, grad=True)
    f.layer_norm(x, (4096,), w, w).backward(x.detach())
    f.softmax(x, -1).backward(x.detach())
    f.log_softmax(x, -1).backward(x.detach())
    _ = x.detach().sum(0), x.detach().sum(1), x.detach().mean(), x.detach().amax(1), x.detach().float().cumsum(1)


def look_ups() -> None:
    table = made(1_000_000, 256, dtype=torch.float32, grad=True)
    index = torch.randperm(1_000_000, device="cuda")
    f.embedding(index, table).backward(table.detach())
    places = index[:, None].expand(-1, 256)
    _ = table.detach().gather(0, places), torch.zeros_like(table).scatter_add_(0, places, table.detach())
    logits = made(16384, 32768, dtype=torch.float32, grad=True)
    f.cross_entropy(logits, torch.randint(0, 32768, (16384,), device="cuda")).backward()
    _ = logits.detach().topk(10, -1)


def optimizers() -> None:
    for options in ({"fused": True}, {"foreach": True}):
        parameters = [made(8192, 8192, dtype=torch.float32, grad=True) for _ in range(4)]
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        torch.optim.AdamW(parameters, **options).step()


def products() -> None:
    for dtype in (BF16, torch.float32):
        a, b = made(16384, 8192, dtype=dtype), made(8192, 16384, dtype=dtype)
        _ = a @ b, torch.addmm(a[0], b, a)
    _ = torch.bmm(made(64, 2048, 2048), made(64, 2048, 2048))
    q, k, v = (made(16, 32, 4096, 128, grad=True) for _ in range(3))
    f.scaled_dot_product_attention(q, k, v, is_causal=True).backward(q.detach())


def images() -> None:
    x, w = made(128, 256, 56, 56, grad=True), made(256, 256, 3, 3, grad=True)
    for layout in (torch.contiguous_format, torch.channels_last):
        y = f.conv2d(x.to(memory_format=layout), w.to(memory_format=layout), padding=1)
        y.backward(torch.ones_like(y))
    channels = made(256, dtype=torch.float32)
    big = made(128, 256, 112, 112, grad=True)
    f.batch_norm(big, channels, channels, channels, channels, training=True).backward(big.detach())
    f.group_norm(big, 32, made(256), made(256)).backward(big.detach())
    f.max_pool2d(big, 2).sum().backward()
    f.interpolate(x, scale_factor=2, mode="nearest").sum().backward()
    _ = f.avg_pool2d(big, 2), f.relu(big)


PARTS = {part.__name__: part for part in (pointwise, norms, look_ups, optimizers, products, images)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace")
    parser.add_argument("parts", nargs="*", default=[*PARTS])
    options = parser.parse_args()
    with torch.profiler.profile(record_shapes=True) if options.trace else contextlib.nullcontext() as profiler:
        for part in options.parts:
            PARTS[part]()
            torch.cuda.synchronize()
    if options.trace:
        profiler.export_chrome_trace(options.trace)


if __name__ == "__main__":
    main()
