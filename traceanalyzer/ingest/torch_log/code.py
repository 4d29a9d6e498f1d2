"""Inductor's output code and the graphs before it: which kernel computes what, and from which line of the program.

Inductor writes above each kernel which nodes it computes (`# Graph fragment:`) and the names that these had in the
program (`# Topologically Sorted Source Nodes:`); dumps of the graphs name the line of the program above each node.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from traceanalyzer.trace.compile_log import GraphCode, KernelCode

MAX_LINES_OF_KERNEL = 32
"""Source lines kept of one kernel."""

_FILE = re.compile(r"#\s*File: (?P<file>[^\n]+?):(?P<line>\d+)(?: in (?P<function>[^,\n]+))?(?:, code: (?P<code>.*))?$")
_NODE = re.compile(r"(?P<name>[A-Za-z_]\w*)(?:\s*:\s*[^=\n]+?)?\s*=\s")
_COMMENT = re.compile(
    r"# (?:Topologically Sorted )?Source Nodes: \[(?P<sources>[^\]\n]*)\](?:, Original ATen: \[(?P<aten>[^\]\n]*)\])?"
)
_FRAGMENT_NODE = re.compile(r"^#\s+%(\w+)\b[^\n]{0,2000}?= call_", re.MULTILINE)
_PATH = re.compile(r"# kernel path: (\S+)")
_KERNEL = re.compile(r"^(?P<name>[A-Za-z_]\w*) = async_compile\.\w+\((?:'(?P<inner>\w+)')?", re.MULTILINE)
_LAUNCH = re.compile(r"^[ \t]+(\w+)\.run\(", re.MULTILINE)
_DIRECTION = re.compile(r"# AOT ID: \['\d+_(\w+)'\]")
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)(?:, in [^\n]*\n\s*([^\n]*))?')
_CALL = re.compile(
    r"# (?:Topologically Sorted )?Source Nodes: \[([^\]\n]*)\](?:, Original ATen: \[([^\]\n]*)\])?\n"
    r"(?:\s+(?:#|\w+ = (?:get_raw_stream|empty_strided))[^\n]*\n)*\s+(?:\w+ = )?([\w.]+)\("
)
_COMMENTS_ABOVE = re.compile(r"(?:^#[^\n]*\n)+\Z", re.MULTILINE)
LONGEST_COMMENT = 400_000
"""Characters of comments above a kernel that are looked at."""


def node_lines(graph: str) -> dict[str, str]:
    """For each node of a dumped graph the line of the program that it comes from (`file:line: code`)."""
    result: dict[str, str] = {}
    line = ""
    for text in graph.splitlines():
        stripped = text.strip()
        if found := _FILE.match(stripped):
            line = f"{found['file']}:{found['line']}" + (f": {found['code'].strip()}" if found["code"] else "")
        elif stripped.startswith("#"):
            line = "" if stripped.startswith("# No stacktrace found") else line
        elif line and (node := _NODE.match(stripped)):
            result.setdefault(node["name"], line)
    return result


def read_code(code: str, lines: Iterable[Mapping[str, str]]) -> GraphCode:
    """The kernels of a piece of output code. `lines` say where nodes come from; the first that knows one is asked."""
    known, found = list(lines), list(_KERNEL.finditer(code))
    direction = _DIRECTION.search(code[:2000])
    body = code[max(code.find("\ndef call("), code.find("def call(self"), 0) :]
    calls = {name.removesuffix(".run"): (sources, aten) for sources, aten, name in _CALL.findall(body)}
    kernels = tuple(_kernel(code, kernel, known, calls) for kernel in found)
    names = {kernel["name"]: kernel["inner"] or kernel["name"] for kernel in found}
    launches = tuple(names[name] for name in _LAUNCH.findall(body) if name in names)
    return GraphCode("", direction[1] if direction else "", kernels, launches)


def _kernel(
    code: str, found: re.Match[str], lines: list[Mapping[str, str]], calls: Mapping[str, tuple[str, str]]
) -> KernelCode:
    above = _COMMENTS_ABOVE.search(code, max(0, found.start() - LONGEST_COMMENT), found.start())
    comment = above[0] if above else ""
    path, heading = _PATH.search(comment), _COMMENT.search(comment)
    nodes = tuple(_FRAGMENT_NODE.findall(comment))
    named, aten = (heading["sources"], heading["aten"]) if heading else calls.get(found["name"], ("", ""))
    sources, operators = _names(named), _names(aten)
    from_lines = _lines_of(nodes, lines) or _lines_of(sources, lines)
    file = path[1].rpartition("/")[2].removesuffix(".py") if path else ""
    return KernelCode(found["inner"] or found["name"], file, nodes or sources, operators, from_lines)


def _lines_of(nodes: Iterable[str], lines: list[Mapping[str, str]]) -> tuple[str, ...]:
    """The lines of the program that nodes come from, each once, in order."""
    found = (next((of[node] for of in lines if node in of), "") for node in nodes)
    return tuple(dict.fromkeys(line for line in found if line))[:MAX_LINES_OF_KERNEL]


def lines_of_stacks(stacks: object) -> tuple[str, ...]:
    """The innermost line of each of a kernel's stack traces."""
    texts = stacks if isinstance(stacks, list) else [stacks]
    frames = [_FRAME.findall(text) for text in texts if isinstance(text, str)]
    last = (of_stack[-1] for of_stack in frames if of_stack)
    found = (f"{file}:{line}" + (f": {code.strip()}" if code else "") for file, line, code in last)
    return tuple(dict.fromkeys(found))[:MAX_LINES_OF_KERNEL]


def with_lines(code: GraphCode, lines: Mapping[str, tuple[str, ...]]) -> GraphCode:
    """The code, with these source lines for the kernels that have none."""
    return replace(code, kernels=tuple(k if k.lines else replace(k, lines=lines.get(k.name, ())) for k in code.kernels))


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())
