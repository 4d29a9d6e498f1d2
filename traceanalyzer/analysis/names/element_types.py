"""Element types that kernels' names tell, by PyTorch's names of them."""

import re
from functools import cache

from traceanalyzer.base import dataclass, regex

HALF = "c10::Half"
BFLOAT16 = "c10::BFloat16"
FP8 = "c10::Float8_e4m3fn"
COMPLEX = "c10::complex<float>"
COMPLEX_DOUBLE = "c10::complex<double>"
LONG = "long int"
FLOAT = "float"
NAMES_OF_TYPES = {
    0: "unsigned char",
    1: "signed char",
    2: "short int",
    3: "int",
    4: LONG,
    5: HALF,
    6: FLOAT,
    7: "double",
    9: COMPLEX,
    10: COMPLEX_DOUBLE,
    11: "bool",
    15: BFLOAT16,
    23: "c10::Float8_e5m2",
    24: FP8,
    45: "c10::Float4_e2m1fn_x2",
}
"""PyTorch's name of an element type by its number in `c10::ScalarType`."""
_NVJET = regex(r"^nvjet_(?:sm\d+_)?([a-z])[a-z]{2}_")
"""cuBLAS since CUDA 12: three letters are the types of operands, arithmetic and result."""
_BY_LETTER = {"t": BFLOAT16, "h": HALF, "s": "float", "d": "double", "q": FP8}
_XMMA = regex(r"_(bf16bf16|f16f16|tf32f32|f32f32|f64f64|cf32cf32|cf64cf64|e4m3e4m3)_")
_BY_OPERANDS = {
    "bf16bf16": BFLOAT16,
    "f16f16": HALF,
    "tf32f32": "float",
    "f32f32": "float",
    "f64f64": "double",
    "e4m3e4m3": FP8,
}
_LIBRARY = (
    (regex(r"bfloat16|(?<![a-z])bf16(?![a-z])"), BFLOAT16),
    (regex(r"half_t|__half|fp16|_f16_s?\d*gemm|fmha_cutlass[FB]_f16|hgemm|h\d+gemm"), HALF),
    (regex(r"(?<![a-z])sgemm|tensorop_s\d+gemm|tf32|fmha_cutlass[FB]_f32"), "float"),
    (regex(r"(?<![a-z])dgemm|d884gemm"), "double"),
)
"""Matrix products and attention of libraries, which are no templates of an element type. Those
of complex numbers are left out: they do convolutions of real ones by Fourier transforms, too."""
_NUMBERS = {
    "double": "double",
    "float": "float",
    "c10::Half": HALF,
    "__half": HALF,
    "c10::BFloat16": BFLOAT16,
    "__nv_bfloat16": BFLOAT16,
    COMPLEX: COMPLEX,
    COMPLEX_DOUBLE: COMPLEX_DOUBLE,
}
_OTHERS = {"long": LONG, "int": "int", "bool": "bool"}
_NAMED = "|".join(map(re.escape, (*_NUMBERS, *_OTHERS)))
_ARGUMENT = regex(rf"(?<=[<(, ])(?:const )?({_NAMED})(?=[,>]|\)(?!\d))")
"""A type among a kernel's template arguments, or among the parameters of its lambda; not that of a
number among them, which nsys writes `(int)4`."""
_SAYS_NOTHING = regex(
    r"vectorized_gather_kernel|cub::detail::|cudnn::fusion::|device_workspace|OpaqueType|LoadWithCast"
    r"|CatArrayBatchedCopy"
)
"""Kernels whose arguments are types of indices and counts or switches, those that move bytes, and
those that read another type than they work on."""
_SCANNED = regex(rf"cub::detail::scan::policy_hub<({_NAMED}),")
"""Sums over what is before (`cumsum`): the first type is that of the values."""
_OF_BYTES = regex(r"\bindex\w*_kernel_impl<at::native::OpaqueType<(?:\(int\))?(\d{1,3})>")
"""Kernels that pick or write rows by an index move bytes, and say how many an element has."""
SIXTEEN_BITS = (HALF, BFLOAT16)
_OF_16_BITS = regex(r"^cudnn_generated_(?>\w*?_sdpa_)\w*_f16_")
"""Attention that cuDNN generates: its names say `f16` of both types of 16 bits."""

_NARROWED = regex(r"(?<![a-z\d])(b?float16)_copy_kernel_cuda")
"""Copies of fp32 to a type of 16 bits, which have a kernel of their own."""
_BY_NAME = {"float16": HALF, "bfloat16": BFLOAT16}
_CAST = regex(rf"^(?>.*?direct_copy_kernel_cuda)(?>.*?lambda\(({_NAMED})\)).*LoadWithCast")
"""Copies to another type: the kernel works on that of its target."""


@dataclass(frozen=True)
class Cast:
    """A copy to another type, by PyTorch's names of them."""

    source: str  # empty where the name does not say
    target: str


@cache
def cast_told(kernel: str) -> Cast | None:
    """The types of a copy to another type; None for other kernels."""
    narrowed = _NARROWED.search(kernel)
    if narrowed:
        return Cast("float", _BY_NAME[narrowed[1]])
    cast = _CAST.search(kernel)
    return Cast("", (_NUMBERS | _OTHERS)[cast[1]]) if cast else None


@cache
def type_told(kernel: str) -> str:
    """The type of numbers that a kernel takes; empty where its name does not say."""
    of_nvjet = _NVJET.search(kernel)
    if of_nvjet:
        return _BY_LETTER.get(of_nvjet[1], "")
    of_xmma = _XMMA.search(kernel)
    if of_xmma:
        return _BY_OPERANDS.get(of_xmma[1], "")
    if "<" not in kernel or "cutlass" in kernel:
        return next((name for pattern, name in _LIBRARY if pattern.search(kernel)), "")
    scanned = _SCANNED.search(kernel)
    if scanned:
        return (_NUMBERS | _OTHERS)[scanned[1]]
    return "" if _SAYS_NOTHING.search(kernel) else _of_arguments(kernel)


@cache
def bytes_told(kernel: str) -> int:
    """How many bytes an element has that a kernel moves by an index; 0 for other kernels."""
    moved = _OF_BYTES.search(kernel)
    return int(moved[1]) if moved else 0


def is_of_16_bits(kernel: str) -> bool:
    """Whether a kernel takes numbers of 16 bits and does not say of which type."""
    return _OF_16_BITS.search(kernel) is not None


def _of_arguments(kernel: str) -> str:
    """The first type of numbers among the arguments, else the first of integers or truth values:
    conditions and indices stand before what they choose."""
    found = _ARGUMENT.findall(kernel)
    numbers = [_NUMBERS[name] for name in found if name in _NUMBERS]
    others = [_OTHERS[name] for name in found if name in _OTHERS]
    return next(iter(numbers or others), "")
