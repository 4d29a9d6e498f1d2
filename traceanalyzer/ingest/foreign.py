"""What a file is that cannot be read as a recording, and what to do about it."""

import re
from pathlib import Path

from traceanalyzer.base import regex
from traceanalyzer.ingest.formats import EXPECTED

GZIP_MAGIC = b"\x1f\x8b"
SQLITE_MAGIC = b"SQLite format 3\x00"
ADDRESS = regex(r"(?:https?|s3|gs|ftp|file|hf):/")
"""A path that began with an address; `pathlib` has made one slash of two."""
OF_NVIDIA = {
    ".nsys-rep": "Nsight Systems",
    ".qdrep": "Nsight Systems",
    ".ncu-rep": "Nsight Compute",
}
"""Files of recorders that have names of their own, and whose they are."""
_CONVERTED = b"\xef\xbf\xbd"  # what a conversion to text leaves of a byte that is none
_LEAST_IN_TEXT = 9  # text has no lower bytes, and binary formats have them from the start
_LOOKED_AT = 64
_PLANE = regex(rb"/(?:host|device):[A-Z]")
_JSON = regex(rb"""[{\[]\s*(?:$|[{\["\]}]|-?\d+(?:\.\d+)?\s*(?:,|\]\s*(?:$|[,\]}])))""")
"""How JSON begins, and lines with a word, a date or a rank in brackets do not."""
_KNOWN = (
    (
        rb"NVR\x00",
        "a report of Nsight Compute; it is read where ncu or its Python module (ncu-report) is installed; or, where "
        "ncu is: ncu --csv --page raw --import FILE > report.csv, and give that",
    ),
    (
        rb"(?s)PK\x03\x04.{20,60}data\.pkl",
        f"weights saved by torch.save, not a recording; {EXPECTED}",
    ),
    (
        rb"PERFILE2",
        "a recording of Linux perf, which knows the CPU alone; record the GPU with "
        "`traceanalyzer collect torch -- python train.py`",
    ),
    (
        rb"PAR1",
        "a Parquet file: `traceanalyzer analyze` reads digests of ranks and logs of a pipeline's "
        "operations, with pyarrow (pip install 'pyarrow>=15'), and no others",
    ),
    (rb"PK\x03\x04", "a ZIP archive; unpack it and name the recording in it"),
    (rb"\x28\xb5\x2f\xfd", "compressed with zstd; decompress it first (zstd -d)"),
    (rb"\xfd7zXZ\x00", "compressed with xz; decompress it first (xz -d)"),
    (rb"BZh", "compressed with bzip2; decompress it first (bzip2 -d)"),
    (
        rb"version https://git-lfs",
        "a Git LFS pointer in place of the file; fetch it with `git lfs pull`",
    ),
    (
        rb"\x80[\x02-\x05]",
        "a pickle; if it is a CUDA memory snapshot, `traceanalyzer analyze FILE` reads it, "
        "and a folder of a hung job's dumps",
    ),
    (
        rb"(?i)(?:<\?xml[^>]*>\s*)?<(?:!doctype html|html|head)\b",
        "a web page, saved in place of the recording; download the file itself (on GitHub: Raw)",
    ),
    # rows of time, action, bytes and category; or lists of times and of sizes
    (
        rb"\[\s*\[\s*(?:-?\d+,\s*[0-3],\s*-?\d+,\s*\d+\s*\]|\d{13,20}(?:,\s*\d{13,20}){2})",
        "a memory timeline (export_memory_timeline): bytes by category over time, and no allocations to explain; "
        "`traceanalyzer analyze` reads what torch.cuda.memory._dump_snapshot writes",
    ),
    (
        rb'(?i)"?(?:Guid"?,"?)?(?:Domain|Kind)"?,.*Correlation_Id',
        (
            "a table of rocprofv3's without kernels; name the *_kernel_trace.csv beside it, "
            "which it is read with"
        ),
    ),
    (
        rb"\[\s*\d+\.\d+(?:[eE][+-]?\d+)?\s*,\s*\d+\.\d",
        "a list of numbers that does not say what they are; if they are step times, write them one a "
        "line below the header step_time_ms (or step_time_s)",
    ),
    # what servers send in place of a file: {"message": "Not Found"}, {"error": {"message": "..."}}
    (
        rb'\{\s*"(?:message|error|detail|errors?)"\s*:\s*(?:\{[^}]{0,200}?"message"\s*:\s*)?"([^"]{1,80})',
        "a server's answer ({!r}), saved in place of the recording; download it again",
    ),
)
"""How files begin that are no recordings, and what they are; a group of the pattern is quoted."""


def what_it_is(path: Path, head: bytes, raw: bytes) -> str:
    """In words what the file is, and what to do. `head`: its first bytes, decompressed; `raw`: as
    they lie there."""
    format_note = _known(head) or _known(raw)
    if format_note:
        return format_note
    if path.suffix == ".py":
        return (
            f"a program, not a recording; record it: traceanalyzer collect torch -- python {path}"
        )
    if path.name.endswith(".gz") and not raw.startswith(GZIP_MAGIC):
        return (
            "named .gz, but not compressed with gzip, and no recording: download or copy it "
            f"again; {EXPECTED}"
        )
    if path.suffix in OF_NVIDIA:
        return (
            f"named {path.suffix}, but not a report of {OF_NVIDIA[path.suffix]}: damaged, or something else; "
            "copy it again, as binary"
        )
    if not head:
        return "a compressed file that is damaged or empty; copy or record it again"
    kind = (
        "a binary file of no known kind" if b"\0" in head else "not a recording of any known kind"
    )
    if _JSON.match(head.lstrip(b"\xef\xbb\xbf \t\r\n")):
        kind = "JSON, but not a profiler's trace (no `traceEvents`)"
    return f"{kind}; {EXPECTED}"


def is_converted(head: bytes) -> bool:
    """Whether the beginning of a binary file went through a conversion to text: all of it is UTF-8,
    which binary numbers are not, and stands for bytes that were lost."""
    if _CONVERTED not in head or not any(byte < _LEAST_IN_TEXT for byte in head[:_LOOKED_AT]):
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start > len(head) - 4  # the beginning ends within a character
    return True


def _known(head: bytes) -> str:
    if is_converted(head):
        what = "an XPlane of JAX" if _PLANE.search(head) else "a binary file"
        lost = (
            "some of its bytes were replaced (by EF BF BD) and are lost; copy the original "
            "again, as binary"
        )
        return f"{what}, damaged by a conversion to text: {lost}"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    found = ((re.match(pattern, text), said) for pattern, said in _KNOWN)
    return next(
        (
            said.format(*(one.decode("utf-8", "replace") for one in m.groups()))
            for m, said in found
            if m
        ),
        "",
    )


def is_address(path: Path) -> bool:
    """Whether the path is an address on the network."""
    return ADDRESS.match(str(path)) is not None
