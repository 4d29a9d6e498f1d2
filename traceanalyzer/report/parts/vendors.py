"""Whose GPUs a recording is of, and what is said to their users: NVIDIA's tools and calls are of no
use on others."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Literal

from traceanalyzer.analysis.algebra import texts_where
from traceanalyzer.trace import Trace

Vendor = Literal["nvidia", "amd", "intel", "google"]
_SOURCES: dict[str, Vendor] = {
    "rocpd": "amd",
    "rocprofv3": "amd",
    "rpd": "amd",
    "rocprof_stats": "amd",
    "unitrace": "intel",
    "nsys": "nvidia",
    "nsys_stats": "nvidia",
    "nvprof": "nvidia",
    "ncu_csv": "nvidia",
}
"""Recorders that know the GPUs of one maker."""
_DEVICES: tuple[tuple[Vendor, str], ...] = (
    ("amd", r"AMD|Instinct|Radeon|\bgfx|\bMI\d{3}"),
    ("intel", r"Intel|\bArc\b|Data Center GPU"),
    ("google", r"\bTPU"),
    ("nvidia", r"NVIDIA|Tesla|GeForce|RTX|Quadro|\b[ABHLTV]\d{2,3}\b|\bGH?B?200\b"),
)
"""How devices are called."""
_NAMES: tuple[tuple[Vendor, str], ...] = (
    (
        "amd",
        r"^hip[A-Z]|^Cijk_|^ck::|^void ck::|^_ZN2ck|rocprim::|^__amd_rocclr|^aiter::|miopen|rocblas",
    ),
    ("intel", r"^ze[A-Z]\w+|^ur(?:Enqueue|Queue|Event)|^zeCommand|oneccl|oneDNN|sycl::"),
    ("nvidia", r"^cu(?:da)?[A-Z]\w+"),
)
"""How calls and kernels are called, in the order in which they are asked."""


def vendor_of(trace: Trace) -> Vendor | None:
    """The maker of the GPUs; None where nothing tells."""
    if trace.source in _SOURCES:
        return _SOURCES[trace.source]
    called = " ".join(str(device.name or "") for device in trace.devices)
    for vendor, pattern in _DEVICES:
        if re.search(pattern, called, re.IGNORECASE if vendor in ("amd", "intel") else 0):
            return vendor
    for vendor, pattern in _NAMES:
        if texts_where(trace.strings, re.compile(pattern).search).any():
            return vendor
    return None


def in_words_for(vendor: str | None, text: str) -> str:
    """What is said to NVIDIA's users, as it is to be said to this maker's."""
    for pattern, words in _words().get(vendor or "nvidia", ()):
        text = pattern.sub(words, text)
    return text


@cache
def _words() -> dict[str, tuple[tuple[re.Pattern[str], str], ...]]:
    table = tomllib.loads(Path(__file__).with_name("vendors.toml").read_text(encoding="utf-8"))
    return {
        vendor: tuple((re.compile(row["pattern"]), row["words"]) for row in rows)
        for vendor, rows in table.items()
    }
