"""What inductor and dynamo write for people, as facts: output code and the graphs before it, graph
breaks, metrics.

Inductor writes above each kernel which nodes it computes (`# Graph fragment:`) and the names that
these had in the program (`# Topologically Sorted Source Nodes:`); dumps of the graphs name the line
of the program above each node."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from traceanalyzer.base import NS_PER_MS, regex
from traceanalyzer.ingest.side_files import is_number, mapping, mappings
from traceanalyzer.trace.compile_log import Break, CompileMetrics, Estimate, GraphCode, KernelCode

MAX_LINES_OF_KERNEL = 32  # source lines kept of one kernel
_FILE = regex(
    r"^#\s*File: (?P<file>[^\n]+?):(?P<line>\d+)(?: in (?P<function>[^,\n]{1,300}+))?(?:, code: (?P<code>.*))?$"
)
_NODE = regex(r"^(?P<name>[A-Za-z_]\w*+)\s*+(?::[^=\n]++)?+=\s")
_COMMENT = regex(
    r"# (?:Topologically Sorted )?Source Nodes: \[(?P<sources>[^\]\n]*)\](?:, Original ATen: \[(?P<aten>[^\]\n]*)\])?"
)
_FRAGMENT_NODE = regex(r"^#\s+%(\w+)\b[^\n]{0,2000}?= call_", re.MULTILINE)
_PATH = regex(r"# kernel path: (\S+)")
_KERNEL = regex(
    r"^(?P<name>[A-Za-z_]\w*) = async_compile\.\w+\((?:'(?P<inner>\w+)')?", re.MULTILINE
)
_LAUNCH = regex(r"^[ \t]+(\w+)\.run\(", re.MULTILINE)
_DIRECTION = regex(r"# AOT ID: \['\d+_(\w+)'\]")
_FRAME = regex(r'File "([^"\n]+)", line (\d+)(?:, in [^\n]*\n\s*([^\n]*))?')
_CALL = regex(
    r"# (?:Topologically Sorted )?Source Nodes: \[([^\]\n]*)\](?:, Original ATen: \[([^\]\n]*)\])?\n"
    r"(?:\s+(?:#|\w+ = (?:get_raw_stream|empty_strided))[^\n]*\n)*\s+(?:\w+ = )?([\w.]+)\("
)
LONGEST_COMMENT = 400_000  # characters of comments above a kernel that are looked at


MAX_TEXT = 2000  # characters kept of a reason
_WHERE = regex(r"Graph break in user code at (.+?:\d+)\s*$", re.MULTILINE)
_REASON = regex(r"(?:Graph Break )?Reason: *(.*)", re.DOTALL | re.IGNORECASE)
_HINT = regex(r"^[^\S\n]*+Hint: *+(.+)$", re.MULTILINE)
_SKIPPED = regex(
    r"Skipping (?:the |this )?(?:function|frame)|falling back to eager|Skipping frame",
    re.IGNORECASE,
)
_PREAMBLE = regex(
    r"^[^\S\n]*+(?:Failed to handle graph break gracefully\.[^\n]*|Encountered graph break[^\n]*|"
    r"Graph break encountered:?|Graph break under[^\n]*)[^\S\n]*$",
    re.MULTILINE,
)
NOT_A_BREAK = regex(
    r"(?i)unspecial|tensorify|collective|autograd\.?grad|fake ?tensor|automatic dynamic"
)
"""Reasons for which dynamo traces a frame again without having broken its graph."""
_CUDAGRAPHS = regex(r'"triton\.cudagraphs": *(true|false)')
# Inductor's own guess of the time of each kernel, which it logs where LOG_TLPARSE=1 is set as
# `estimated_runtime_ns`: nanoseconds once, milliseconds now. The record has the outputs of each
# operation, too: what writes more than any GPU could in so many nanoseconds is in milliseconds.
MOST_BYTES_PER_NS = 20_000  # more than twice of what the memory of any GPU takes (8,000 on a B200)
MOST = 1e15  # a larger time is damage
_BITS = {"bool": 8, "complex64": 64, "complex128": 128}


def node_lines(graph: str) -> dict[str, str]:
    """For each node of a dumped graph the line of the program that it comes from (`file:line:
    code`)."""
    result: dict[str, str] = {}
    line = ""
    for text in graph.splitlines():
        stripped = text.strip()
        found = _FILE.match(stripped)
        if found:
            line = f"{found['file']}:{found['line']}" + (
                f": {found['code'].strip()}" if found["code"] else ""
            )
        elif stripped.startswith("#"):
            line = "" if stripped.startswith("# No stacktrace found") else line
        elif line and (node := _NODE.match(stripped)):
            result.setdefault(node["name"], line)
    return result


def read_code(code: str, lines: Iterable[Mapping[str, str]]) -> GraphCode:
    """The kernels of a piece of output code. `lines` say where nodes come from; the first that
    knows one is asked."""
    known = list(lines)
    found = list(_KERNEL.finditer(code))
    direction = _DIRECTION.search(code[:2000])
    body = code[max(code.find("\ndef call("), code.find("def call(self"), 0) :]
    calls = {
        name.removesuffix(".run"): (sources, aten) for sources, aten, name in _CALL.findall(body)
    }
    kernels = tuple(_kernel(code, kernel, known, calls) for kernel in found)
    names = {kernel["name"]: kernel["inner"] or kernel["name"] for kernel in found}
    launches = tuple(names[name] for name in _LAUNCH.findall(body) if name in names)
    return GraphCode("", direction[1] if direction else "", kernels, launches)


def _comments_above(code: str, end: int) -> str:
    """The lines of comments that end there, of at most `LONGEST_COMMENT` characters."""
    first = max(0, end - LONGEST_COMMENT)
    start = end
    while start > first:
        line = code.rfind("\n", 0, start - 1) + 1
        if line < first or not code.startswith("#", line):
            break
        start = line
    return code[start:end]


def _kernel(
    code: str,
    found: re.Match[str],
    lines: list[Mapping[str, str]],
    calls: Mapping[str, tuple[str, str]],
) -> KernelCode:
    comment = _comments_above(code, found.start())
    path = _PATH.search(comment)
    heading = _COMMENT.search(comment)
    nodes = tuple(_FRAGMENT_NODE.findall(comment))
    named, aten = (
        (heading["sources"], heading["aten"]) if heading else calls.get(found["name"], ("", ""))
    )
    sources = _names(named)
    operators = _names(aten)
    from_lines = _lines_of(nodes, lines) or _lines_of(sources, lines)
    file = path[1].rpartition("/")[2].removesuffix(".py") if path else ""
    return KernelCode(
        found["inner"] or found["name"], file, nodes or sources, operators, from_lines
    )


def _lines_of(nodes: Iterable[str], lines: list[Mapping[str, str]]) -> tuple[str, ...]:
    """The lines of the program that nodes come from, each once, in order."""
    found = (next((of[node] for of in lines if node in of), "") for node in nodes)
    distinct = dict.fromkeys(filter(None, found))
    return tuple(distinct)[:MAX_LINES_OF_KERNEL]


def lines_of_stacks(stacks: object) -> tuple[str, ...]:
    """The innermost line of each of a kernel's stack traces."""
    texts = stacks if isinstance(stacks, list) else [stacks]
    frames = [_FRAME.findall(text) for text in texts if isinstance(text, str)]
    last = (of_stack[-1] for of_stack in frames if of_stack)
    found = (f"{file}:{line}" + (f": {code.strip()}" if code else "") for file, line, code in last)
    return tuple(dict.fromkeys(found))[:MAX_LINES_OF_KERNEL]


def with_lines(code: GraphCode, lines: Mapping[str, tuple[str, ...]]) -> GraphCode:
    """The code, with these source lines for the kernels that have none."""
    return replace(
        code,
        kernels=tuple(
            kernel if kernel.lines else replace(kernel, lines=lines.get(kernel.name, ()))
            for kernel in code.kernels
        ),
    )


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def read_break(text: str) -> Break:
    """A graph break from the text that dynamo logs for it."""
    where = _WHERE.search(text)
    found = _REASON.search(text)
    explained = found[1] if found else text
    hint = _HINT.search(explained)
    place = where[1].strip() if where else ""
    skipped = bool(_SKIPPED.search(explained[:MAX_TEXT]))
    advice = hint[1].strip()[:MAX_TEXT] if hint else ""
    return Break(first_line(_PREAMBLE.sub("", explained)), place, skipped, advice)


def first_line(text: str) -> str:
    """The first line with text in it."""
    lines = (line.strip() for line in text.splitlines())
    return next(filter(None, lines), "")[:MAX_TEXT]


def breaks_of_restarts(reasons: Iterable[str]) -> list[Break]:
    """Graph breaks as logs before PyTorch 2.6 tell them: the reasons for which tracing began
    again."""
    return [
        Break(first_line(reason.strip("'\"")), "", False)
        for reason in reasons
        if not NOT_A_BREAK.search(reason)
    ]


def read_metrics(kind: str, values: dict[str, Any]) -> CompileMetrics | None:
    """Dynamo's metrics of a record; None for a kind that is not one of them."""
    if not kind.endswith(("compilation_metrics", "compilation_metrics_runtime")):
        return None
    side, cumulative = (
        ("backward", "backward") if kind.startswith("bwd_") else ("forward", "dynamo")
    )
    cumulative = f"{cumulative}_cumulative_compile_time_us"
    skip = values.get("cudagraph_skip_reason")
    config = values.get("inductor_config")
    config = msgspec.json.encode(config).decode() if isinstance(config, dict) else config
    wants_cudagraphs = _CUDAGRAPHS.search(config) if isinstance(config, str) else None
    return CompileMetrics(
        kind=f"{side}_runtime" if kind.endswith("_runtime") else side,  # type: ignore[arg-type]
        duration_s=_seconds(values, "entire_frame_compile_time_s", "duration_us", cumulative),
        backend_s=_seconds(
            values, "backend_compile_time_s", "aot_autograd_cumulative_compile_time_us"
        ),
        inductor_s=_seconds(
            values, "inductor_compile_time_s", "inductor_cumulative_compile_time_us"
        ),
        triton_s=_seconds(values, "", "triton_compile_time_us"),
        autotune_s=_seconds(values, "", "runtime_triton_autotune_time_us"),
        cudagraph_s=_seconds(values, "", "runtime_cudagraphify_time_us"),
        logging_s=_seconds(
            values, "structured_logging_overhead_s", "structured_logging_overhead_us"
        ),
        fail_type=str(values.get("fail_type") or ""),
        fail_reason=str(values.get("fail_reason") or "")[:MAX_TEXT],
        cudagraph_skip=first_line(str(skip)) if skip else "",
        wants_cudagraphs=wants_cudagraphs and wants_cudagraphs[1] == "true",
    )


def _seconds(values: dict[str, Any], in_seconds: str, *in_microseconds: str) -> float | None:
    named = ((in_seconds, 1.0), *((name, 1e-6) for name in in_microseconds))
    known = ((values.get(name), unit) for name, unit in named)
    return next((value * unit for value, unit in known if is_number(value) and value >= 0), None)


def read_estimates(values: object) -> tuple[Estimate, ...]:
    """The estimates of a graph's operations in the order in which they run; None for what it does
    not estimate (it says 0, and does so for all on a CPU)."""
    ops = mappings(mapping(values).get("ops"))
    stated = [one.get("estimated_runtime_ns") for one in ops]
    times = [max(float(time), 0.0) if is_number(time, MOST) else 0.0 for time in stated]
    timed = list(zip(ops, times, strict=True))
    written = [
        (sum(map(_bytes_of, mappings(one.get("outputs")))), time) for one, time in timed if time
    ]
    scale = NS_PER_MS if any(size > time * MOST_BYTES_PER_NS for size, time in written) else 1.0
    return tuple(
        Estimate(str(one.get("name") or ""), time * scale if time else None) for one, time in timed
    )


def _bytes_of(output: dict[str, Any]) -> float:
    """What is not said counts as none."""
    shape = output.get("shape")
    dtype = output.get("dtype")
    if not isinstance(shape, list) or not isinstance(dtype, str):
        return 0.0
    sizes = [size for size in shape if isinstance(size, int) and 0 <= size < 1 << 48]
    digits = "".join(filter(str.isdigit, dtype.partition("_")[0]))
    bits = _BITS.get(dtype, int(digits) if digits and len(digits) < 4 else 0)
    return math.prod(map(float, sizes)) * bits / 8 if len(sizes) == len(shape) else 0.0
