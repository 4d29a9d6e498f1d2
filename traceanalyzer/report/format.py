"""Figures and texts for people: three significant digits with a unit that fits, names that cannot
do harm."""

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

from traceanalyzer.base import ELLIPSIS, MEMORY, dataclass

DEFAULT_WIDTH = 80
NOT_AVAILABLE = "n/a"
TRUNCATED_TAIL = 0.4
"""Share of a shortened name that is kept of its end: C++ names differ there (types, tile sizes)."""


@dataclass(frozen=True)
class Scale:
    """A unit to show figures in: shown = recorded * factor."""

    label: str
    factor: float

    @classmethod
    def ladder(cls, base: float, sizes: Mapping[str, float]) -> "tuple[Scale, ...]":
        """Units of these sizes, for figures that are recorded in one of size `base`."""
        return tuple(cls(label, base / size) for label, size in sizes.items())


TIME = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
SCALES: dict[str, tuple[Scale, ...]] = {
    **{unit: Scale.ladder(size, TIME) for unit, size in TIME.items()},
    "bytes": Scale.ladder(1.0, {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}),
    MEMORY: Scale.ladder(
        1.0,
        {
            "B": 1.0,
            "KiB": 2.0**10,
            "MiB": 2.0**20,
            "GiB": 2.0**30,
            "TiB": 2.0**40,
        },
    ),
    "share": (Scale("%", 100.0),),
}
"""Units that are shown in another one, smallest first."""
WORDS = {
    "gpu": "GPU",
    "cls": "class",
    "mfu": "MFU",
    "hfu": "HFU",
    "sol": "SOL",
    "tflop": "TFLOP",
    "gflop": "GFLOP",
}
"""Words of field names that are written otherwise."""
LABELS = {
    "fruitless_share": "launches without kernels",
    "concurrent_kernel_share": "kernels side by side",
    "sm_active_share": "SMs active",
    "tensor_active_share": "tensor cores active",
    "dram_share": "memory traffic",
    "sampled_sm_share": "sampled SMs active",
    "sampled_tensor_share": "sampled tensor cores active",
    "sampled_dram_share": "sampled memory traffic",
    "short_kernel_share": "short kernels",
    "without_launch": "ops without launch",
    "samples_per_s": "samples/s",
    "tokens_per_s": "tokens/s",
    "steps_per_s": "steps/s",
    "global_samples_per_s": "samples/s of all replicas",
    "ms_per_sample": "time per sample",
    "tflops_per_s": "rate of operations",
    "bandwidth_share": "bandwidth of peak",
    "s": "slowdown (S)",
    "s_w": "slowdown (S_w)",
}
"""Names of figures whose fields' names say too little."""
SMALLEST = 0.001
LARGEST = 1e15  # figures beyond these are shown as such: their digits would say nothing


def scale_for(largest: float, unit: str) -> Scale:
    """The unit to show figures in of which `largest` is the largest magnitude: its figure is then 1
    to 999."""
    ladder = SCALES.get(unit, (Scale(unit, 1.0),))
    # Compared as shown: 999.9 us are shown as 1.00 ms, not as 1,000 us.
    return next((s for s in ladder if largest * s.factor < 999.5), ladder[-1])


def figure(value: Any, unit: str = "") -> str:
    """A figure with its unit, for a sentence or a list: `1.23 ms`, `45.6%`, `1,234`, `n/a`."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not is_figure(value):
        return NOT_AVAILABLE
    scale = scale_for(abs(value), unit) if value else recorded_scale(unit)
    return with_unit(number(scaled(value, scale)), scale.label)


def becomes(before: float, after: float, unit: str) -> str:
    """Two figures of one thing, in the unit of the first: `1.54 → 0.849 GiB`."""
    scale = scale_for(abs(before), unit)
    texts = (number(scaled(value, scale)) for value in (before, after))
    return with_unit(" → ".join(texts), scale.label)


def step_figure(ms: float) -> str:
    """A time of the step: in ms where it is short, too, since times of one step are read side by
    side."""
    return figure(ms, "ms") if abs(ms) >= 1.0 else f"{number(ms)} ms"


def recorded_scale(unit: str) -> Scale:
    """The unit that figures were recorded in, as people write it."""
    as_it_is = Scale(unit, 1.0)
    if unit in TIME:
        return as_it_is
    return SCALES.get(unit, (as_it_is,))[0]


def scaled(value: float, scale: Scale) -> float:
    """A figure in the unit of `scale`; a whole count stays one."""
    if scale.factor != 1.0:
        return value * scale.factor
    return int(value) if not scale.label and float(value).is_integer() else value


def is_figure(value: Any) -> TypeGuard[float]:
    """Whether a value is a figure: a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def number(value: float) -> str:
    """A figure without unit: counts in full, others with three significant digits; `n/a` if not
    finite."""
    if not math.isfinite(value):
        return NOT_AVAILABLE
    if isinstance(value, int) or value == 0:
        return f"{int(value):,}"
    return f"-{_digits(-value)}" if value < 0 else _digits(value)


def plain(text: str) -> str:
    """Text on one line without control characters: no escape sequences, no right-to-left tricks, no
    surrogates."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters, the middle left out."""
    if len(text) <= limit:
        return text
    tail = int(limit * TRUNCATED_TAIL)
    return text[: limit - tail - 1] + ELLIPSIS + text[len(text) - tail :]


def label(name: str, unit: str = "") -> str:
    """A field's name in words, without the unit it ends in: `largest_gap_ms` is `largest gap`."""
    if name in LABELS:
        return LABELS[name]
    stem = name
    for suffix in (
        "_ms",
        "_us",
        "_ns",
        "_share",
        "_gbs",
        "_bytes" if unit == MEMORY else f"_{unit.lower()}",
    ):
        if len(suffix) > 1 and stem.endswith(suffix):
            stem = stem.removesuffix(suffix)
            break
    return " ".join(WORDS.get(word, word) for word in stem.split("_"))


def with_unit(text: str, unit: str) -> str:
    """A figure and its unit as they are written."""
    if unit == "1/s":  # of rates, whose names say it
        return text
    return text + unit if unit in ("%", "x") else f"{text} {unit}" if unit else text


def _digits(value: float) -> str:
    """Three significant digits of a positive figure; whole digits are all kept. Never in exponent
    form."""
    if value < SMALLEST:
        return f"<{SMALLEST}"
    if value > LARGEST:
        return f">{LARGEST:,.0f}"
    for decimals in (0, 1, 2, 3, 4, 5):
        # The rounded figure decides: 9.996 has two decimals for its size, but is shown as 10.0.
        if round(value, decimals) >= 10 ** (2 - decimals):
            return f"{value:,.{decimals}f}"
    return f"{value:.5f}"
