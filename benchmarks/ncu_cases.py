"""Kernels that the roofline is held against Nsight Compute on: each case makes its tensors and
returns what to run.

`CASES` and `IMAGES` are measured with cold caches, on more data than a cache holds unless the name
says small; `WARM` with the caches as they are, on data that fits them. `HELD_OUT` took no part when
figures of kernels were derived from the measurement (`traceanalyzer/analysis/roofline/traffic.py`):
only they say how well the roofline does on kernels it has not seen.
"""

from collections.abc import Callable
from typing import Any

Run = Callable[[], object]
Case = Callable[[], Run]
Tensor = Any
"""PyTorch is imported where a case is made: what is compared needs the names alone."""

DEVICE = "cuda"


def made(*shape: int, dtype: str = "bfloat16", grad: bool = False) -> Tensor:
    """Random values on the GPU."""
    import torch

    return torch.randn(*shape, device=DEVICE, dtype=getattr(torch, dtype)).requires_grad_(grad)


def unary(name: str, *shape: int, dtype: str = "bfloat16", **options: Any) -> Case:
    """A function of one tensor, from `torch.nn.functional`, `torch` or a method."""

    def case() -> Run:
        import torch
        from torch.nn import functional as f

        x = made(*shape, dtype=dtype)
        function = (
            getattr(f, name, None) or getattr(torch, name, None) or getattr(torch.Tensor, name)
        )
        return lambda: function(x, **options)

    return case


def binary(
    name: str, left: tuple[int, ...], right: tuple[int, ...], dtype: str = "bfloat16"
) -> Case:
    """A function of two tensors from `torch`."""

    def case() -> Run:
        import torch

        a = made(*left, dtype=dtype)
        b = made(*right, dtype=dtype)
        return lambda: getattr(torch, name)(a, b)

    return case


def product(
    m: int, k: int, n: int, dtype: str = "bfloat16", layout: str = "nn", tf32: bool = False
) -> Case:
    """`a @ b` of [m,k] and [k,n]; `layout` says which of both are transposed views."""

    def case() -> Run:
        import torch

        a = made(m, k, dtype=dtype) if layout[0] == "n" else made(k, m, dtype=dtype).t()
        b = made(k, n, dtype=dtype) if layout[1] == "n" else made(n, k, dtype=dtype).t()

        def run() -> object:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            return a @ b

        return run

    return case


def batched(batch: int, m: int, k: int, n: int, dtype: str = "bfloat16") -> Case:
    """A batched product."""
    return binary("bmm", (batch, m, k), (batch, k, n), dtype)


def backward(
    forward: Callable[..., Tensor], *shapes: tuple[int, ...], dtype: str = "bfloat16"
) -> Case:
    """The backward pass alone of a function of tensors of these shapes."""

    def case() -> Run:
        import torch

        inputs = [made(*shape, dtype=dtype, grad=True) for shape in shapes]
        result = forward(*inputs)
        gradient = torch.randn_like(result)
        return lambda: torch.autograd.grad(result, inputs, gradient, retain_graph=True)

    return case


def attention(
    batch: int, heads: int, length: int, d: int, causal: bool, *, back: bool = False
) -> Case:
    """Fused attention, forward or its backward alone."""

    def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        from torch.nn import functional as f

        return f.scaled_dot_product_attention(q, k, v, is_causal=causal)

    if back:
        return backward(forward, *[(batch, heads, length, d)] * 3)

    def case() -> Run:
        q, k, v = (made(batch, heads, length, d) for _ in range(3))
        return lambda: forward(q, k, v)

    return case


def convolution(
    image: tuple[int, ...],
    filters: tuple[int, ...],
    *,
    last: bool,
    back: bool = False,
    dtype: str = "bfloat16",
    **options: Any,
) -> Case:
    """A convolution, or its backward alone, channels last or first."""

    def case() -> Run:
        import torch
        from torch.nn import functional as f

        layout = torch.channels_last if last else torch.contiguous_format
        x = made(*image, dtype=dtype).to(memory_format=layout).requires_grad_(back)
        w = made(*filters, dtype=dtype).to(memory_format=layout).requires_grad_(back)

        def forward() -> Tensor:
            return f.conv2d(x, w, padding=filters[-1] // 2, **options)

        if not back:
            return forward
        y = forward()
        gradient = torch.randn_like(y)
        return lambda: torch.autograd.grad(y, (x, w), gradient, retain_graph=True)

    return case


def optimizer(name: str, sizes: list[tuple[int, ...]], **options: Any) -> Case:
    """A step of an optimizer on fp32 parameters."""

    def case() -> Run:
        import torch

        parameters = [made(*size, dtype="float32", grad=True) for size in sizes]
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        step: Run = getattr(torch.optim, name)(parameters, **options).step
        return step

    return case


def looked_up(rows: int, columns: int, count: int, how: str, dtype: str = "float32") -> Case:
    """Rows of a table by random numbers: embedding, its backward, gather, scatter_add, index."""

    def case() -> Run:
        import torch
        from torch.nn import functional as f

        table = made(rows, columns, dtype=dtype, grad=how == "backward")
        index = torch.randint(0, rows, (count,), device=DEVICE)
        places = index[:, None].expand(-1, columns)
        source = made(count, columns, dtype=dtype)
        if how == "backward":
            result = f.embedding(index, table)
            return lambda: torch.autograd.grad(result, table, source, retain_graph=True)
        runs: dict[str, Run] = {
            "embedding": lambda: f.embedding(index, table),
            "gather": lambda: torch.gather(table, 0, places),
            "scatter_add": lambda: table.scatter_add_(0, places, source),
            "index": lambda: table[index],
        }
        return runs[how]

    return case


def normalised(
    kind: str, *shape: int, dtype: str = "bfloat16", back: bool = False, last: bool = False
) -> Case:
    """Layer, RMS, group or batch normalisation with weights, or its backward alone."""

    def case() -> Run:
        import torch
        from torch import nn

        channels = shape[-1] if kind in ("LayerNorm", "RMSNorm") else shape[1]
        arguments = (32, channels) if kind == "GroupNorm" else (channels,)
        typed = getattr(torch, "float32" if kind == "BatchNorm2d" else dtype)
        module = getattr(nn, kind)(*arguments).to(device=DEVICE, dtype=typed)
        x = made(*shape, dtype=dtype)
        x = x.to(memory_format=torch.channels_last) if last else x
        if not back:
            return torch.no_grad()(lambda: module(x))
        x.requires_grad_()
        y = module(x)
        gradient = torch.randn_like(y)
        inputs = (x, *module.parameters())
        return lambda: torch.autograd.grad(y, inputs, gradient, retain_graph=True)

    return case


def entropy(rows: int, classes: int, dtype: str = "float32", *, back: bool = False) -> Case:
    """Cross entropy, forward or its backward alone."""

    def case() -> Run:
        import torch
        from torch.nn import functional as f

        logits = made(rows, classes, dtype=dtype, grad=back)
        wanted = torch.randint(0, classes, (rows,), device=DEVICE)
        if not back:
            return lambda: f.cross_entropy(logits, wanted)
        loss = f.cross_entropy(logits, wanted)
        return lambda: torch.autograd.grad(loss, logits, retain_graph=True)

    return case


def other(make: Callable[[Tensor], object], *shape: int, dtype: str = "bfloat16") -> Case:
    """Anything done to one tensor."""

    def case() -> Run:
        x = made(*shape, dtype=dtype)
        return lambda: make(x)

    return case


def _functional(name: str, **options: Any) -> Callable[..., Tensor]:
    def call(*inputs: Tensor) -> Tensor:
        from torch.nn import functional as f

        result: Tensor = getattr(f, name)(*inputs, **options)
        return result

    return call


def _cat(x: Tensor, dim: int) -> Tensor:
    import torch

    return torch.cat((x, x), dim)


SQUARE = (16384, 16384)
LONG = (65536, 4096)
PARAMETERS = [(4096, 4096)] * 4 + [(4096,)] * 8
MANY = [(1024, 1024)] * 24 + [(1024,)] * 48

CASES: dict[str, Case] = {
    # matrix products
    "mm bf16 8192": product(8192, 8192, 8192),
    "mm bf16 4096": product(4096, 4096, 4096),
    "mm bf16 thin": product(16384, 16384, 8),
    "mm fp32 4096": product(4096, 4096, 4096, "float32"),
    "mm tf32 8192": product(8192, 8192, 8192, "float32", tf32=True),
    "linear bf16 16384x4096x11008": product(16384, 4096, 11008, layout="nt"),
    "weight gradient bf16 4096x16384x4096": product(4096, 16384, 4096, layout="tn"),
    "bmm bf16 128x1024x64": batched(128, 1024, 64, 1024),
    "mm bf16 small": product(512, 512, 512),
    # attention
    "attention causal 4096x128": attention(8, 32, 4096, 128, True),
    "attention causal 4096x128 backward": attention(4, 32, 4096, 128, True, back=True),
    "attention 2048x64": attention(16, 16, 2048, 64, False),
    # normalisation and softmax
    "layer norm 4096": normalised("LayerNorm", *LONG),
    "layer norm 4096 backward": normalised("LayerNorm", *LONG, back=True),
    "layer norm 1024 fp32": normalised("LayerNorm", 131072, 1024, dtype="float32"),
    "batch norm": normalised("BatchNorm2d", 128, 256, 56, 56),
    "batch norm channels last": normalised("BatchNorm2d", 128, 256, 56, 56, last=True),
    "batch norm backward": normalised("BatchNorm2d", 128, 256, 56, 56, back=True),
    "batch norm channels last backward": normalised(
        "BatchNorm2d", 128, 256, 56, 56, back=True, last=True
    ),
    "group norm": normalised("GroupNorm", 128, 256, 56, 56),
    "softmax 4096": unary("softmax", *LONG, dim=-1),
    "softmax 512": unary("softmax", 524288, 512, dim=-1),
    "softmax 4096 backward": backward(_functional("softmax", dim=-1), LONG),
    "softmax 512 backward": backward(_functional("softmax", dim=-1), (524288, 512)),
    "log softmax 32768 fp32": unary("log_softmax", 16384, 32768, dtype="float32", dim=-1),
    "cross entropy 32768 backward": entropy(16384, 32768, back=True),
    # elementwise
    "add": binary("add", SQUARE, SQUARE),
    "mul row": binary("mul", SQUARE, (16384,)),
    "mul column": binary("mul", SQUARE, (16384, 1)),
    "add transposed": other(lambda x: x + x.t(), *SQUARE),
    "gelu": unary("gelu", *LONG),
    "gelu fp32": unary("gelu", *LONG, dtype="float32"),
    "gelu tanh": unary("gelu", *LONG, approximate="tanh"),
    "gelu backward": backward(_functional("gelu"), LONG),
    "silu": unary("silu", *LONG),
    "relu": unary("relu", *LONG),
    "tanh": unary("tanh", *LONG),
    "exp": unary("exp", *LONG),
    "sqrt fp32": unary("sqrt", *LONG, dtype="float32"),
    "pow 3": unary("pow", *LONG, exponent=3.0),
    "div": binary("div", SQUARE, SQUARE),
    "to fp32": other(lambda x: x.float(), *LONG),
    "to bf16": other(lambda x: x.bfloat16(), *LONG, dtype="float32"),
    "dropout": unary("dropout", *LONG, p=0.1, training=True),
    "where": other(lambda x: x.where(x > 0, x), *SQUARE),
    "masked fill": other(lambda x: x.masked_fill(x > 0, 0.0), *SQUARE),
    "randn": other(lambda x: x.normal_(), *LONG),
    "uniform fp32": other(lambda x: x.uniform_(), *LONG, dtype="float32"),
    "fill": other(lambda x: x.fill_(1.0), *LONG),
    # layout
    "flip": other(lambda x: x.flip(0), *LONG),
    "transposed copy": other(lambda x: x.t().contiguous(), *SQUARE),
    "permuted copy": other(lambda x: x.permute(0, 2, 1, 3).contiguous(), 32, 2048, 32, 128),
    "cat rows": other(lambda x: _cat(x, 0), *SQUARE),
    "cat columns": other(lambda x: _cat(x, 1), *SQUARE),
    "channels last copy": other(lambda x: x.permute(0, 2, 3, 1).contiguous(), 64, 256, 56, 56),
    # reductions
    "sum": other(lambda x: x.sum(), *SQUARE),
    "sum rows": other(lambda x: x.sum(0), *SQUARE),
    "sum columns": other(lambda x: x.sum(1), *SQUARE),
    "argmax": other(lambda x: x.argmax(1), *SQUARE),
    "norm fp32": other(lambda x: x.norm(), *LONG, dtype="float32"),
    "cumsum": other(lambda x: x.cumsum(1), *SQUARE),
    "topk": other(lambda x: x.topk(10, -1), 16384, 4096),
    # look-ups
    "embedding": looked_up(1_000_000, 256, 1_000_000, "embedding"),
    "embedding backward": looked_up(50_000, 1024, 65_536, "backward"),
    "gather": looked_up(500_000, 256, 500_000, "gather"),
    "scatter add": looked_up(500_000, 256, 500_000, "scatter_add"),
    "index": looked_up(1_000_000, 256, 1_000_000, "index"),
    # optimizers
    "Adam fused": optimizer("AdamW", [(8192, 8192)] * 2, fused=True),
    "Adam foreach": optimizer("AdamW", PARAMETERS, foreach=True),
    "SGD fused": optimizer("SGD", [(8192, 8192)] * 2, fused=True, momentum=0.9),
}

IMAGES: dict[str, Case] = {
    "convolution 3x3": convolution((64, 256, 56, 56), (256, 256, 3, 3), last=False),
    "convolution 3x3 channels last": convolution((64, 256, 56, 56), (256, 256, 3, 3), last=True),
    "convolution 3x3 channels last backward": convolution(
        (64, 256, 56, 56), (256, 256, 3, 3), last=True, back=True
    ),
    "convolution 1x1 channels last": convolution((256, 256, 56, 56), (64, 256, 1, 1), last=True),
    "convolution 7x7": convolution((256, 3, 224, 224), (64, 3, 7, 7), last=False, stride=2),
    "max pool": unary("max_pool2d", 256, 64, 112, 112, kernel_size=3, stride=2, padding=1),
    "average pool": unary("avg_pool2d", 256, 64, 112, 112, kernel_size=2),
    "nearest": unary("interpolate", 64, 128, 64, 64, scale_factor=2, mode="nearest"),
}

HELD_OUT: dict[str, Case] = {
    "mm bf16 16384x8192x16384": product(16384, 8192, 16384),
    "mm bf16 6144": product(6144, 6144, 6144),
    "mm fp16 8192x2048x8192": product(8192, 2048, 8192, "float16", layout="nt"),
    "mm fp32 6144x2048x6144": product(6144, 2048, 6144, "float32"),
    "mm tf32 4096x16384x4096": product(4096, 16384, 4096, "float32", layout="tn", tf32=True),
    "bmm bf16 64x2048": batched(64, 2048, 2048, 2048),
    "bmm bf16 256x2048x128": batched(256, 2048, 128, 512),
    "attention 4096x64 causal": attention(8, 24, 4096, 64, True),
    "attention 2048x128 backward": attention(8, 16, 2048, 128, False, back=True),
    "attention 1024x64 causal backward": attention(32, 16, 1024, 64, True, back=True),
    "layer norm 1024": normalised("LayerNorm", 262144, 1024),
    "layer norm 768 fp32 backward": normalised(
        "LayerNorm", 131072, 768, dtype="float32", back=True
    ),
    "layer norm 8192": normalised("LayerNorm", 32768, 8192),
    "RMS norm 2048": normalised("RMSNorm", 131072, 2048),
    "softmax 2048 fp32": unary("softmax", 65536, 2048, dtype="float32", dim=-1),
    "softmax 1024": unary("softmax", 262144, 1024, dim=-1),
    "softmax 8192": unary("softmax", 32768, 8192, dim=-1),
    "log softmax 50304": unary("log_softmax", 8192, 50304, dim=-1),
    "softmax 1024 backward": backward(_functional("softmax", dim=-1), (262144, 1024)),
    "cross entropy 50304": entropy(8192, 50304),
    "gelu 3072": unary("gelu", 131072, 3072),
    "gelu fp16": unary("gelu", 65536, 3072, dtype="float16"),
    "gelu backward fp32": backward(_functional("gelu"), LONG, dtype="float32"),
    "silu backward": backward(_functional("silu"), LONG),
    "sigmoid": unary("sigmoid", *LONG),
    "log fp32": unary("log", *LONG, dtype="float32"),
    "sub fp32": binary("sub", SQUARE, SQUARE, "float32"),
    "mul row fp32": binary("mul", SQUARE, (16384,), "float32"),
    "mul transposed fp32": other(lambda x: x * x.t(), 8192, 8192, dtype="float32"),
    "maximum": binary("maximum", SQUARE, SQUARE),
    "dropout fp32": unary("dropout", *LONG, dtype="float32", p=0.2, training=True),
    "flip columns fp32": other(lambda x: x.flip(1), *LONG, dtype="float32"),
    "roll": other(lambda x: x.roll(1, 0), *LONG),
    "transposed copy fp32": other(lambda x: x.t().contiguous(), 8192, 16384, dtype="float32"),
    "permuted copy fp32": other(
        lambda x: x.permute(2, 0, 1).contiguous(), 512, 512, 512, dtype="float32"
    ),
    "cat columns fp32": other(lambda x: _cat(x, 1), 16384, 4096, dtype="float32"),
    "mean columns fp32": other(lambda x: x.mean(1), *LONG, dtype="float32"),
    "sum rows fp32": other(lambda x: x.sum(0), *LONG, dtype="float32"),
    "amax": other(lambda x: x.amax(-1), *LONG),
    "embedding 1024": looked_up(50_304, 1024, 262_144, "embedding"),
    "embedding bf16": looked_up(50_304, 4096, 65_536, "embedding", "bfloat16"),
    "gather bf16": looked_up(1_000_000, 512, 500_000, "gather", "bfloat16"),
    "Adam fused many": optimizer("Adam", MANY, fused=True),
    "SGD foreach": optimizer("SGD", PARAMETERS, foreach=True, momentum=0.9),
    "convolution 3x3 512": convolution((32, 512, 28, 28), (512, 512, 3, 3), last=True),
    "convolution 1x1 512 backward": convolution(
        (128, 512, 28, 28), (128, 512, 1, 1), last=True, back=True
    ),
    "convolution 3x3 fp32": convolution(
        (32, 128, 56, 56), (128, 128, 3, 3), last=False, dtype="float32"
    ),
    "convolution depthwise": convolution((64, 384, 56, 56), (384, 1, 3, 3), last=False, groups=384),
    "max pool channels last": other(
        lambda x: _functional("max_pool2d", kernel_size=2)(x.permute(0, 3, 1, 2)), 256, 112, 112, 64
    ),
    "bilinear": unary("interpolate", 64, 64, 128, 128, scale_factor=2, mode="bilinear"),
}

WARM: dict[str, Case] = {
    "warm add 4 MB": binary("add", (1024, 2048), (1024, 2048)),
    "warm gelu 8 MB": unary("gelu", 2048, 2048),
    "warm relu 1 MB": unary("relu", 512, 1024),
    "warm layer norm 8 MB": normalised("LayerNorm", 4096, 1024),
    "warm softmax 16 MB": unary("softmax", 8192, 1024, dim=-1),
    "warm mm 1024": product(1024, 1024, 1024),
    "warm mm 2048": product(2048, 2048, 2048),
    "warm mm 256": product(256, 256, 256),
    "warm dropout 8 MB": unary("dropout", 4096, 1024, p=0.1, training=True),
    "warm attention 512x64": attention(4, 12, 512, 64, True),
    "warm sum 8 MB": other(lambda x: x.sum(1), 4096, 1024),
    "warm to fp32 8 MB": other(lambda x: x.float(), 4096, 1024),
    "warm embedding 8 MB": looked_up(4096, 512, 8192, "embedding"),
    "warm convolution": convolution((16, 64, 56, 56), (64, 64, 3, 3), last=True),
    "warm Adam": optimizer("AdamW", [(768, 768)] * 4, fused=True),
}
