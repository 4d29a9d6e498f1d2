"""Dynamo's prose as facts: graph breaks, the metrics of a compilation, inductor's estimates."""

import math
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from traceanalyzer.base import NS_PER_MS
from traceanalyzer.ingest.side_files import is_number, mapping, mappings
from traceanalyzer.trace.compile_log import Break, Estimate, Metrics

MAX_TEXT = 2000
"""Characters kept of a reason."""
_WHERE = re.compile(r"Graph break in user code at (.+?:\d+)\s*$", re.MULTILINE)
_REASON = re.compile(r"(?:Graph Break )?Reason: *(.*)", re.DOTALL | re.IGNORECASE)
_HINT = re.compile(r"^[^\S\n]*+Hint: *+(.+)$", re.MULTILINE)
_SKIPPED = re.compile(r"Skipping (?:the |this )?(?:function|frame)|falling back to eager|Skipping frame", re.IGNORECASE)
_PREAMBLE = re.compile(
    r"^[^\S\n]*+(?:Failed to handle graph break gracefully\.[^\n]*|Encountered graph break[^\n]*|"
    r"Graph break encountered:?|Graph break under[^\n]*)[^\S\n]*$",
    re.MULTILINE,
)
NOT_A_BREAK = re.compile(r"(?i)unspecial|tensorify|collective|autograd\.?grad|fake ?tensor|automatic dynamic")
"""Reasons for which dynamo traces a frame again without having broken its graph."""
_CUDAGRAPHS = re.compile(r'"triton\.cudagraphs": *(true|false)')


def read_break(text: str) -> Break:
    """A graph break from the text that dynamo logs for it."""
    where, found = _WHERE.search(text), _REASON.search(text)
    explained = found[1] if found else text
    hint = _HINT.search(explained)
    return Break(
        first_line(_PREAMBLE.sub("", explained)),
        where[1].strip() if where else "",
        bool(_SKIPPED.search(explained[:MAX_TEXT])),
        hint[1].strip()[:MAX_TEXT] if hint else "",
    )


def first_line(text: str) -> str:
    """The first line with text in it."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:MAX_TEXT]


def breaks_of_restarts(reasons: Iterable[str]) -> list[Break]:
    """Graph breaks as logs before PyTorch 2.6 tell them: the reasons for which tracing began again."""
    return [Break(first_line(reason.strip("'\"")), "", False) for reason in reasons if not NOT_A_BREAK.search(reason)]


def read_metrics(kind: str, values: dict[str, Any]) -> Metrics | None:
    """Dynamo's metrics of a record; None for a kind that is not one of them."""
    if not kind.endswith(("compilation_metrics", "compilation_metrics_runtime")):
        return None
    side, cumulative = ("backward", "backward") if kind.startswith("bwd_") else ("forward", "dynamo")
    cumulative = f"{cumulative}_cumulative_compile_time_us"
    skip, config = values.get("cudagraph_skip_reason"), values.get("inductor_config")
    config = msgspec.json.encode(config).decode() if isinstance(config, dict) else config
    wants_cudagraphs = _CUDAGRAPHS.search(config) if isinstance(config, str) else None
    return Metrics(
        kind=f"{side}_runtime" if kind.endswith("_runtime") else side,  # type: ignore[arg-type]
        duration_s=_seconds(values, "entire_frame_compile_time_s", "duration_us", cumulative),
        backend_s=_seconds(values, "backend_compile_time_s", "aot_autograd_cumulative_compile_time_us"),
        inductor_s=_seconds(values, "inductor_compile_time_s", "inductor_cumulative_compile_time_us"),
        triton_s=_seconds(values, "", "triton_compile_time_us"),
        autotune_s=_seconds(values, "", "runtime_triton_autotune_time_us"),
        cudagraph_s=_seconds(values, "", "runtime_cudagraphify_time_us"),
        logging_s=_seconds(values, "structured_logging_overhead_s", "structured_logging_overhead_us"),
        fail_type=str(values.get("fail_type") or ""),
        fail_reason=str(values.get("fail_reason") or "")[:MAX_TEXT],
        cudagraph_skip=first_line(str(skip)) if skip else "",
        wants_cudagraphs=wants_cudagraphs and wants_cudagraphs[1] == "true",
    )


def _seconds(values: dict[str, Any], in_seconds: str, *in_microseconds: str) -> float | None:
    named = ((in_seconds, 1.0), *((name, 1e-6) for name in in_microseconds))
    known = ((values.get(name), unit) for name, unit in named)
    return next((value * unit for value, unit in known if is_number(value) and value >= 0), None)


# Inductor's own guess of the time of each kernel, which it logs where LOG_TLPARSE=1 is set as `estimated_runtime_ns`:
# nanoseconds once, milliseconds now. The record has the outputs of each operation, too: what writes more than any GPU
# could in so many nanoseconds is in milliseconds.
MOST_BYTES_PER_NS = 20_000
"""More than twice of what the memory of any GPU takes (8,000 on a B200)."""
MOST = 1e15
"""A larger time is damage."""
_BITS = {"bool": 8, "complex64": 64, "complex128": 128}


def read_estimates(values: object) -> tuple[Estimate, ...]:
    """The estimates of a graph's operations in the order in which they run; None for what it does not estimate (it
    says 0, and does so for all on a CPU)."""
    known = [(one, one.get("estimated_runtime_ns")) for one in mappings(mapping(values).get("ops"))]
    timed = [(one, float(time) if is_number(time, MOST) and time >= 0 else 0.0) for one, time in known]
    written = [(sum(map(_bytes_of, mappings(one.get("outputs")))), time) for one, time in timed if time]
    scale = NS_PER_MS if any(size > time * MOST_BYTES_PER_NS for size, time in written) else 1.0
    return tuple(Estimate(str(one.get("name") or ""), time * scale if time else None) for one, time in timed)


def _bytes_of(output: dict[str, Any]) -> float:
    """What is not said counts as none."""
    shape, dtype = output.get("shape"), output.get("dtype")
    if not isinstance(shape, list) or not isinstance(dtype, str):
        return 0.0
    sizes = [size for size in shape if isinstance(size, int) and 0 <= size < 1 << 48]
    digits = "".join(filter(str.isdigit, dtype.partition("_")[0]))
    bits = _BITS.get(dtype, int(digits) if digits and len(digits) < 4 else 0)
    return math.prod(map(float, sizes)) * bits / 8 if len(sizes) == len(shape) else 0.0
