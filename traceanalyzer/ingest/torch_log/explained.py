"""Dynamo's prose as facts: graph breaks and the metrics of a compilation."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from traceanalyzer.trace.compile_log import Break, Metrics

MAX_TEXT = 2000
"""Characters kept of a reason."""
_WHERE = re.compile(r"Graph break in user code at (.+?:\d+)\s*$", re.MULTILINE)
_REASON = re.compile(r"(?:Graph Break )?Reason: *(.*)", re.DOTALL | re.IGNORECASE)
_HINT = re.compile(r"^[^\S\n]*+Hint: *+(.+)$", re.MULTILINE)
_SKIPPED = re.compile(r"Skipping (?:the |this )?(?:function|frame)|falling back to eager|Skipping frame", re.IGNORECASE)
_PREAMBLE = re.compile(
    r"^[^\S\n]*+(?:Failed to handle graph break gracefully\.[^\n]*|Encountered graph break[^\n]*|"
    r"Graph break encountered:?|"
    r"Graph break under[^\n]*)[^\S\n]*$",
    re.MULTILINE,
)
NOT_A_BREAK = re.compile(
    r"unspecial|tensorify|collective|autograd\.?grad|fake ?tensor|automatic dynamic", re.IGNORECASE
)
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
    backward = kind.startswith("bwd_")
    if not kind.endswith(("compilation_metrics", "compilation_metrics_runtime")):
        return None
    runtime = kind.endswith("_runtime")
    cumulative = "backward" if backward else "dynamo"
    whole = _seconds(values, "entire_frame_compile_time_s", "duration_us", f"{cumulative}_cumulative_compile_time_us")
    skip = values.get("cudagraph_skip_reason")
    side = "backward" if backward else "forward"
    return Metrics(
        kind=f"{side}_runtime" if runtime else side,  # type: ignore[arg-type]
        duration_s=whole,
        backend_s=_seconds(values, "backend_compile_time_s", "aot_autograd_cumulative_compile_time_us"),
        inductor_s=_seconds(values, "inductor_compile_time_s", "inductor_cumulative_compile_time_us"),
        triton_s=_seconds(values, "", "triton_compile_time_us"),
        autotune_s=_seconds(values, "", "runtime_triton_autotune_time_us"),
        cudagraph_s=_seconds(values, "", "runtime_cudagraphify_time_us"),
        logging_s=_seconds(values, "structured_logging_overhead_s", "structured_logging_overhead_us"),
        fail_type=str(values.get("fail_type") or ""),
        fail_reason=str(values.get("fail_reason") or "")[:MAX_TEXT],
        cudagraph_skip=first_line(str(skip)) if skip else "",
        wants_cudagraphs=_wants_cudagraphs(values.get("inductor_config")),
    )


def _wants_cudagraphs(config: object) -> bool | None:
    if isinstance(config, dict):
        config = msgspec.json.encode(config).decode()
    found = _CUDAGRAPHS.search(config) if isinstance(config, str) else None
    return None if found is None else found[1] == "true"


def _seconds(values: dict[str, Any], in_seconds: str, *in_microseconds: str) -> float | None:
    names = [(in_seconds, 1.0), *((name, 1e-6) for name in in_microseconds)]
    for name, unit in names:
        value = values.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15:
            return float(value) * unit
    return None
