"""Kernel names short enough for a table: what the kernel is, and the functor that tells it from its
kin."""

import re
from functools import lru_cache

from traceanalyzer.base import cut, regex

FEW_ROWS = 32
"""A tile this narrow does at most 32 multiply-adds for each weight that it reads: a few tens of
FLOP a byte in 16 bits, where tensor cores take hundreds of FLOP a byte to be the limit."""
_TILE = regex(r"(?<![\d.])(?<!bf)(?<!f)(\d{1,3})x(\d{1,3})(?!\d)")
_ORDINARY_CORES = regex(r"sgemm|dgemm|simt|f64|fp64|ffma", re.IGNORECASE)
"""Products on the ordinary cores are limited by arithmetic from a few rows on."""


MAX_LENGTH = 120  # a row of a table with such a name still fits a wide terminal or an issue
MAX_FUNCTORS = 2
"""`multi_tensor_apply_kernel<BinaryOpScalarFunctor, multiplies>` takes two to say what it does."""
_IN_MANY_NAMES = (
    ("_elementwise_kernel<", "<"),
    ("_apply_kernel<", "<"),
    ("CUDAKernelImpl>", ">"),
    ("_kernel_cuda>", ">"),
    ("_kernel_impl>", ">"),
    ("_execute_kernel__5x_cublas", ""),
    ("_execute_kernel__5x_cubl\u2026", ""),
    ("_execute_kernel__5x_cudnn", ""),
    ("cutlass::Kernel2<cutlass_", "cutlass<"),
)
MAX_LOOKED_AT = 1000
"""Names of 10,000 characters exist; what tells a kernel apart stands near the front."""
LONGEST_NESTED = 4_000  # characters of a name that brackets within brackets are taken from
_UNNAMED = regex(r"\(anonymous namespace\)::|<unnamed>::|\{lambda\([^}]*\}|\[lambda\([^\]]*\]")
_PARENTHESES = regex(r"\([^()]*(\)|$)")
_NAMESPACE = regex(r"\b(?:at|native|cuda|c10|std|cub|thrust|detail|binary_internal)::")
_IDENTIFIER = regex(r"(?<![\w:])(?:\w+::)*([A-Za-z_]\w*)")
_SAYS_NOTHING = regex(
    r"""^(?:
        (?:un)?signed|int|long|short|float\d?|double\d?|bool|char|void|const|volatile|true|false|half\d?|size_t
      | (?:__nv_|__hip_)?b?float\d*|__half\d?|BFloat16|Half|Float8\w*|complex|tf?32|operator|lambda|instance|T\d+
      | \w*_t|OpaqueType|array|tuple|pair|Scalar|Tensor\w*|\w*(?:Metadata|Params|Args|_args|traits\w*)|Policy\d*
      | gpu_kernel_impl\w*|ReduceOp|func_wrapper_t|[AB]?(?:Unary|Binary)Functor|Kernel|MatrixShape|GemmShape|policy_hub
      | \w*OffsetCalculator|(?:Load|Store)WithCast|SortOrder|ScanTileState|counting_iterator|use_default|cublasGemv\w+
    )$""",
    re.VERBOSE,
)
_TOKENS = regex(r"\(anonymous namespace\)|operator\s?(?:\(\)|[<>=!-]+)|[<>() ]")
_VOID = "void "
_INTO = {"(": 1, ")": -1}
_DEEPER = {"<": 1, ">": -1}
_NESTED = regex(r"<[^<>]*>|\([^()]*\)|\{[^{}]*\}")
_NAME = regex(r"(?<!\w)([A-Za-z_]\w*)\s*$")


def streams_weights(kernel: str) -> bool:
    """Whether a matrix kernel's tile is so narrow that memory limits it on any GPU."""
    tile = None if _ORDINARY_CORES.search(kernel) else _TILE.search(kernel)
    return tile is not None and min(int(tile[1]), int(tile[2])) <= FEW_ROWS


def own_name(name: str) -> str:
    """The kernel's name and template arguments without what stands around them: its parameters, and
    a result other than void (`std::enable_if<...>::type gemv::kernel<float>(curandState*)`). Their
    types are not what it does."""
    depth = inside = begin = 0
    spaces = "" if name.startswith(_VOID) else " "
    for token in _TOKENS.finditer(name, 0, MAX_LOOKED_AT):
        if token[0] == "(" and depth == 0:
            return name[
                begin if begin != token.start() else 0 : token.start()
            ]  # all of `Memset (Device)`
        inside += _INTO.get(token[0], 0)
        if (
            not inside
        ):  # what stands in parentheses is a value in template arguments: its `>` closes nothing
            depth += _DEEPER.get(token[0], 0)
        if token[0] == spaces and depth == 0:
            begin = token.end()
    return name[begin:] if "<" in name[:begin] else name


def short_name(name: str) -> str:
    """The name without namespaces of the common libraries, parameters and template arguments, but
    with what of these tells kernels of one template apart (`elementwise_kernel<MulFunctor>`); at
    most 120 characters."""
    if name.isidentifier():  # as those of Triton and cuBLAS: there is nothing to leave out
        return cut(name, MAX_LENGTH)
    return _shortened(name)


@lru_cache(maxsize=8192)
def _shortened(name: str) -> str:
    plain = _UNNAMED.sub("", own_name(name)[:MAX_LOOKED_AT])
    nested = 1
    while nested:
        plain, nested = _PARENTHESES.subn("", plain)
    base, _, arguments = _NAMESPACE.sub("", plain).removeprefix(_VOID).partition("<")
    base = base.strip()
    found = (m[1] for m in _IDENTIFIER.finditer(arguments))
    functors = list(dict.fromkeys(one for one in found if not _SAYS_NOTHING.match(one)))[
        :MAX_FUNCTORS
    ]
    return cut(f"{base}<{', '.join(functors)}>" if base and functors else base or name, MAX_LENGTH)


def briefest_name(name: str) -> str:
    """A short name without what stands in many names and tells none apart: `vectorized<Gelu>` of
    `vectorized_elementwise_kernel<GeluCUDAKernelImpl>`."""
    for noise, instead in _IN_MANY_NAMES:
        name = name.replace(noise, instead)
    return name


def function_name(kernel: str) -> str:
    """What Nsight Compute filters by, the function's own name: `softmax` of `void
    at::native::softmax<4>(int)`."""
    plain = kernel[:LONGEST_NESTED].replace("(anonymous namespace)", "")
    nested = 1
    while nested:
        plain, nested = _NESTED.subn("", plain)
    found = _NAME.search(re.split(r"[<({\[]", plain)[0])
    return found[1] if found else kernel
