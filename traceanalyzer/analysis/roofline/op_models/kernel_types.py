"""Element types that only the kernel's name tells: recordings give the tensors of a list no type."""

import re

from traceanalyzer.analysis.roofline.op_models.tensors import DTYPES, LONG, UNKNOWN, DType

_TEMPLATE = re.compile(r"<(float|double|c10::Half|c10::BFloat16|long|int|bool)[,>]")
"""The first type in a kernel's template arguments, of `multi_tensor_apply_kernel`'s functor."""
_OPAQUE = re.compile(r"OpaqueType<(\d+)u?>")
"""`CatArrayBatchedCopy<OpaqueType<2>>`: only the size matters to a copy."""
_VECTORISED = re.compile(r"CatArrayBatchedCopy_vectorized<char(?:, [^,>]+){4}, (\d+), (\d+)>")
"""Its last arguments are the bytes of a vector and its elements."""


def element_type(kernel: str) -> DType:
    """The type that a kernel on lists of tensors works on."""
    if found := _OPAQUE.search(kernel):
        return DType(int(found[1]))
    if (found := _VECTORISED.search(kernel)) and int(found[2]):
        return DType(int(found[1]) / int(found[2]))
    if found := _TEMPLATE.search(kernel):
        return LONG if found[1] == "long" else DTYPES[found[1]]
    return UNKNOWN
