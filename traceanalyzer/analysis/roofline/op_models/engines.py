"""Operators of serving engines (vLLM's `_C`, sgl_kernel, aiter), which are given their results as
tensors.

Signatures: vllm csrc/torch_bindings.cpp, sgl-kernel's elementwise.py, aiter's ops. The largest
tensor is the input or as large as it, whatever the order."""

from traceanalyzer.analysis.roofline.op_models.call import Call, UnmodelledError, Work, read_bytes
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor

ENGINES = ("_C", "_C_cache_ops", "vllm", "sgl_kernel", "sglang", "aiter")


def gated(call: Call, flops: float) -> Work:
    """`silu_and_mul(out, x)`: reads both halves of x, writes as much as one; so many FLOPs a result
    element."""
    x = _largest(call)
    return Work(flops * x.numel / 2, 1.5 * x.dense_bytes, x.dtype.precision)


def normalised(call: Call, flops: float, passes: int) -> Work:
    """`rms_norm(out, x, weight, eps)` and its kin, which read and write tensors as large as x so
    many times (with a residual that is added: also that, and the sum)."""
    x = _largest(call)
    weights = [t for t in call.tensors if len(t.shape) == 1]
    return Work(flops * x.numel, passes * x.dense_bytes + read_bytes(*weights), x.dtype.precision)


def rotary(call: Call) -> Work:
    """`rotary_embedding(positions, query, key, head_size, cache, neox)`: turns query and key in
    place; 3 FLOPs an element. The rows of the cache that it looks up are left out."""
    turned = call.optionals((1, 2))
    if not turned:
        raise UnmodelledError("no query")
    elements = sum(tensor.numel for tensor in turned)
    return Work(3.0 * elements, 2 * read_bytes(*turned), turned[0].dtype.precision)


def store(call: Call) -> Work:
    """`reshape_and_cache_flash(key, value, key_cache, value_cache, slots, ..)`: copies both to
    their slots."""
    key = call.tensor(0)
    value = call.tensor(1)
    cache = call.tensor(2)
    return Work(0.0, read_bytes(key, value) + (key.numel + value.numel) * cache.dtype.bytes)


def quantise(call: Call) -> Work:
    """`static_scaled_fp8_quant(out, x, scale)`: reads x, writes the result; one FLOP an element."""
    out = call.tensor(0)
    x = call.tensor(1)
    return Work(float(x.numel), read_bytes(out, x), x.dtype.precision)


def attention(call: Call) -> Work:
    """`unified_attention_with_output(query, key, value, ..)` of tokens by [token, head, d] over a
    cache. How long the requests are the marker of the iteration says: 2·pairs·(d + dv) FLOPs a
    head, the cache read once a request. Layers that see a window alone, which is not recorded, do
    less."""
    query, key, value = (call.tensor(i) for i in range(3))
    iteration = call.iteration
    if (
        iteration is None
        or iteration.pairs is None
        or iteration.tokens is None
        or min(map(len, (query.shape, key.shape))) < 2
    ):
        raise UnmodelledError("the lengths of the requests are not recorded")
    heads, d = query.shape[-2:]
    kept = key.shape[-2]
    dv = value.shape[-1]
    cached = (
        max(iteration.kv_tokens or 0, iteration.tokens)
        * kept
        * (d * key.dtype.bytes + dv * value.dtype.bytes)
    )
    moved = iteration.tokens * heads * (d + dv) * query.dtype.bytes
    return Work(2.0 * iteration.pairs * heads * (d + dv), moved + cached, query.dtype.precision)


def _largest(call: Call) -> Tensor:
    if not call.tensors:
        raise UnmodelledError("no tensor")
    return max(call.tensors, key=lambda t: t.numel)
