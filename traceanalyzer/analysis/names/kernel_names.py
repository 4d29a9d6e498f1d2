"""Kernel names short enough for a table: what the kernel is, and the functor that tells it from its kin."""

from __future__ import annotations

import re
from functools import lru_cache

from traceanalyzer.base.figures import cut

MAX_LENGTH = 120
"""A row of a table with such a name still fits a wide terminal or an issue."""
MAX_FUNCTORS = 2
"""`multi_tensor_apply_kernel<BinaryOpScalarFunctor, multiplies>` takes two to say what it does."""
MAX_LOOKED_AT = 1000
"""Names of 10,000 characters exist; what tells a kernel apart stands near the front."""

_UNNAMED = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\{lambda\([^}]*\}|\[lambda\([^\]]*\]")
_PARENTHESES = re.compile(r"\([^()]*(\)|$)")
_NAMESPACE = re.compile(r"\b(?:at|native|cuda|c10|std|cub|thrust|detail|binary_internal)::")
_IDENTIFIER = re.compile(r"(?<![\w:])(?:\w+::)*([A-Za-z_]\w*)")
_SAYS_NOTHING = re.compile(
    r"""^(?:
        (?:un)?signed|int|long|short|float\d?|double\d?|bool|char|void|const|volatile|true|false|half\d?|size_t
      | (?:__nv_|__hip_)?b?float\d*|__half\d?|BFloat16|Half|Float8\w*|complex|tf?32|operator|lambda|instance|T\d+
      | \w*_t|OpaqueType|array|tuple|pair|Scalar|Tensor\w*|\w*(?:Metadata|Params|Args|_args|traits\w*)|Policy\d*
      | gpu_kernel_impl\w*|ReduceOp|func_wrapper_t|[AB]?(?:Unary|Binary)Functor|Kernel|MatrixShape|GemmShape|policy_hub
      | \w*OffsetCalculator|(?:Load|Store)WithCast|SortOrder|ScanTileState|counting_iterator|use_default|cublasGemv\w+
    )$""",
    re.VERBOSE,
)


@lru_cache(maxsize=8192)
def short_name(name: str) -> str:
    """The name without namespaces of the common libraries, parameters and template arguments, but with what of
    these tells kernels of one template apart (`elementwise_kernel<MulFunctor>`); at most 120 characters."""
    plain, nested = _UNNAMED.sub("", name[:MAX_LOOKED_AT]), 1
    while nested:
        plain, nested = _PARENTHESES.subn("", plain)
    base, _, arguments = _NAMESPACE.sub("", plain).removeprefix("void ").partition("<")
    base = base.strip()
    telling = [m[1] for m in _IDENTIFIER.finditer(arguments) if not _SAYS_NOTHING.match(m[1])]
    functors = list(dict.fromkeys(telling))[:MAX_FUNCTORS]
    result = f"{base}<{', '.join(functors)}>" if base and functors else base or name
    return cut(result, MAX_LENGTH)
