"""What came of each compilation, and why: graph breaks, guards that failed and what inductor did
not fuse, in plain words, with the line of code that ends them; whether ranks did the same."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain

from traceanalyzer.base import dataclass, regex
from traceanalyzer.replay.compile.model import BreakRow, NotFusedRow, RankRow, RecompileRow
from traceanalyzer.replay.compile.stages import cache_states, stage_seconds
from traceanalyzer.trace.compile_log import (
    LIMIT,
    Break,
    Compilation,
    CompileLog,
    NotFused,
    resumed_at,
)

_PLAIN = (
    (
        regex(r"(?i)builtin (?:operator )?[`']?print|\bprint\b"),
        "print() in compiled code",
        "remove the print, or add it to torch._dynamo.config.reorderable_logging_functions",
    ),
    (
        regex(
            r"(?i)\.item\(\)|Tensor\.item|_local_scalar_dense|\.tolist\(\)|capture_scalar_outputs"
        ),
        "a value is read from the GPU (.item())",
        "keep the value a tensor, or set torch._dynamo.config.capture_scalar_outputs = True",
    ),
    (
        regex(r"(?i)data[- ]dependent (?:branch|jump|control)|generic_jump|dynamic control flow"),
        "Python branches on a value of a tensor",
        "use torch.where or torch.cond instead of `if`",
    ),
    (
        regex(r"(?i)data[- ]dependent|dynamic shape operator|nonzero|unique|masked_select"),
        "an operator's output size depends on data",
        (
            "set torch._dynamo.config.capture_dynamic_output_shape_ops = True, or give the "
            "output a fixed size"
        ),
    ),
    (
        regex(r"(?i)graph_break\(\)|function graph_break"),
        "the program asks for it (graph_break())",
        "remove the torch._dynamo.graph_break() call",
    ),
    (
        regex(
            r"(?i)torch\._?dynamo\.disable|_disable|disallow|marked (?:(?!marked).)*skip|skip function|skipped function"
        ),
        "a function that dynamo is told to skip is called",
        "move the call out of the compiled function, or allow it in the graph",
    ),
    (
        regex(r"(?i)numpy|\.cpu\(\)|\.numpy\(\)"),
        "data goes to NumPy or the CPU",
        "do it with torch operators, on the GPU",
    ),
    (
        regex(r"(?i)logg(?:er|ing)|warnings?\.warn"),
        "logging in compiled code",
        "move the logging out, or set torch._dynamo.config.ignore_logging_functions",
    ),
    (
        regex(r"(?i)backward\(\)|Tensor\.backward"),
        "backward() is called in compiled code",
        "call backward() outside of the compiled function",
    ),
    (
        regex(r"(?i)custom (?:op|kernel|class)|C/C\+\+|builtin function or method|extension"),
        "compiled code that dynamo cannot look into is called",
        "register it with torch.library.custom_op",
    ),
)


MAX_VALUES = 16  # values of a guard that are listed
NOTHING_IN_COMMON = "no shared data"  # fusing these would save a launch and no memory traffic
_CACHE_ENTRY = regex(r"^(?:!?\d+/)*\d+/\d+: *")
_COMMENT = regex(r"(?<!\s)(?:\s{2,}+# .*|\s++# \S.*$)")
_WHERE = regex(r"# *+[^\s#]*?(?<![\w./\\-])([\w./\\-]++(?<=[\w./\\-]\.py):\d++)(?: in |\s*+$)")
_STACK = regex(r'File "([^"]+)", line (\d+)')
_EXPECTED = regex(
    r"^(?>(?P<what>.*?)(?:(?<!\s)|(?=[.;,:]))[.;,:]?\s*+[Ee]xpected )"
    r"(?>(?P<old>.+?), actual )(?P<new>[^\S\n]*+\S++(?:[^\S\n]++\S++)*+)\s*+$"
)
_EQUALS = regex(r"^(?>(?P<what>.+?) (?:==|!=|is|is not) )(?P<old>.++)$")
_SIZE = regex(r"^(?>.*?tensor ')(?P<name>.+)' size mismatch at index (?P<dim>\d+)", re.MULTILINE)
_LOCAL = regex(r"^L\['(\w+)'\](.*)$")
_REMEDIES = (
    (
        regex(r"___stack\d+\)?(?:\.item\(\))? =="),
        "a value read from the GPU (.item(), .tolist()) steers the program: keep it a tensor, or set "
        "torch._dynamo.config.capture_scalar_outputs = True",
    ),
    (
        regex(r"stride mismatch"),
        "call .contiguous() on the input, so that its strides do not change",
    ),
    (
        regex(r"dtype mismatch"),
        "give the input the same dtype at every call (one .to(dtype) before it)",
    ),
    (
        regex(r"device mismatch|device index"),
        "give the input on the same device at every call",
    ),
    (
        regex(r"requires_grad"),
        "call it with requires_grad the same each time, or compile training and evaluation apart",
    ),
    (
        regex(r"rank mismatch|ndim|number of dimensions"),
        "give the input the same number of dimensions at every call",
    ),
    (
        regex(r"dispatch key"),
        "call it under the same modes each time (inference_mode, autocast, subclasses)",
    ),
    (
        regex(
            r"(?i)grad_mode|GLOBAL_STATE|grad mode|is_grad_enabled|torch_function|autocast|deterministic"
        ),
        (
            "call it in the same mode each time (no_grad, autocast, deterministic): one "
            "graph is compiled for each mode"
        ),
    ),
    (
        regex(r"\.training|'training'"),
        (
            "train() and eval() each need a graph: one recompilation is normal; do not "
            "switch inside the step"
        ),
    ),
    (
        regex(r"(?i)___check_obj_id|id_match|ID_MATCH|___check_function|___check_weakref"),
        (
            "the same object must come in each time: create functions, lambdas and modules "
            "once, outside the loop"
        ),
    ),
    (
        regex(r"(?i)___check_type_id|type_id|TYPE_MATCH|check_type"),
        "pass the argument as the same type at every call",
    ),
    (
        regex(r"(?i)\blen\(|LENGTH|DICT_KEYS|dict(?:(?!dict).)*keys|___dict_contains|__len__"),
        "keep the length of lists and the keys of dictionaries the same, or pass tensors instead",
    ),
    (
        regex(r"\['(?:lr|weight_decay|step|betas|momentum|eps)'\]"),
        (
            "make the optimizer's setting a tensor (lr=torch.tensor(...)), so that changing "
            "it needs no new code"
        ),
    ),
    (
        regex(r"size mismatch|\.size\(\)|shape\["),
        (
            "torch._dynamo.mark_dynamic on the dimension that changes, or torch.compile(..., "
            "dynamic=True)"
        ),
    ),
)


def in_plain_words(reason: str, hint: str = "") -> tuple[str, str]:
    """What the break is and what ends it; dynamo's own words where they are not known."""
    known = (
        (plain, remedy)
        for pattern, plain, remedy in _PLAIN
        if pattern.search(reason) or pattern.search(hint)
    )
    other = hint or "move the call out of the compiled function, or write it with torch operators"
    return next(known, (reason.rstrip("."), other))


def break_rows(log: CompileLog) -> list[BreakRow]:
    """The graph breaks, those of one reason at one line together."""
    met = breaks_of(log)
    count = Counter((one.reason, location) for one, location, _ in met)
    rows = {}
    for met_break, location, compilation in met:
        plain, remedy = in_plain_words(met_break.reason, met_break.hint)
        met_at = (
            location,
            count[met_break.reason, location],
            compilation.name,
            met_break.skipped_frame,
        )
        basis = "a trace of the same program tells what it costs"
        rows[met_break.reason, location] = BreakRow(
            plain, met_break.reason, *met_at, remedy, basis=basis
        )
    return list(rows.values())


def breaks_of(log: CompileLog) -> list[tuple[Break, str, Compilation]]:
    """Every graph break with its location and the compilation it broke, in the order in which they
    were met. Logs that do not say where name what goes on after the break by its line."""
    result = []
    resumed = dict[str, str]()
    for compilation in reversed(log.compilations):
        file = compilation.location.rpartition(":")[0]
        location = resumed.get(file, compilation.location)
        result += [
            (one, one.location or location, compilation) for one in reversed(compilation.breaks)
        ]
        line = resumed_at(compilation.name)
        if line is not None:
            resumed[file] = f"{file}:{line}"
    return result[::-1]


def recompile_rows(log: CompileLog) -> list[RecompileRow]:
    """Recompilations by the guard that failed, most frequent first."""
    found: dict[tuple[str, str], list[tuple[Compilation, Guard]]] = defaultdict(list)
    for compilation in filter(lambda one: one.is_recompilation, log.compilations):
        guard = read_guard(
            compilation.recompile_reasons[0] if compilation.recompile_reasons else ""
        )
        location = (
            guard.location
            if guard.location.startswith("/")
            else naming_compilation(log, compilation).location
        )
        found[key_of(guard), location].append((compilation, guard))
    rows = [_recompile_row(log, location, met) for (_, location), met in found.items()]
    return sorted(rows, key=lambda row: -row.count)


def _recompile_row(
    log: CompileLog, location: str, met: "Sequence[tuple[Compilation, Guard]]"
) -> RecompileRow:
    """Recompilations for one guard at one line."""
    first, guard = met[0]
    refused = sum(was_refused(one) for one, _ in met)
    guarded = chain.from_iterable((of.old, of.new) for _, of in met)
    values = list(dict.fromkeys(filter(None, guarded)))[:MAX_VALUES]
    return RecompileRow(
        guard.text or "the log does not say which",
        location,
        len(met) - refused,
        refused,
        function_of(log, first),
        values,
        remedy_of(guard),
    )


def not_fused_rows(log: CompileLog) -> list[NotFusedRow] | None:
    """The pairs left apart by reason, most frequent first and those with nothing in common last;
    None where the log does not say."""
    if log.not_fused is None:
        return None
    found: dict[str, list[NotFused]] = defaultdict(list)
    for pair in log.not_fused:
        found[pair.reason].append(pair)
    rows = [
        NotFusedRow(
            reason,
            len(pairs),
            pairs[0].first,
            pairs[0].second,
            sorted({p.compile_id for p in pairs}),
        )
        for reason, pairs in found.items()
    ]
    return sorted(rows, key=lambda row: (row.reason == NOTHING_IN_COMMON, -row.pairs))


def outcome_of(compilation: Compilation) -> str:
    """What came of a compilation."""
    if was_refused(compilation):
        return "refused"
    if any(b.skipped_frame for b in compilation.breaks):
        return "eager"
    if compilation.error or any(m.fail_type for m in compilation.metrics):
        return "failed"
    if not compilation.graphs:
        return "eager"
    return "recompiled" if compilation.is_recompilation else "compiled"


def was_refused(compilation: Compilation) -> bool:
    """Whether the recompile limit kept it from being compiled."""
    texts = [
        f"{m.fail_type} {(m.fail_reason.splitlines() or [''])[0]}" for m in compilation.metrics
    ]
    return any(map(LIMIT.search, (*texts, compilation.error)))


def recompilations(log: CompileLog) -> int:
    """Compilations of what had been compiled, without those that the limit refused."""
    return sum(c.is_recompilation and not was_refused(c) for c in log.compilations)


def graphs_of(log: CompileLog) -> int:
    """Graphs that were compiled."""
    return sum(c.graphs for c in log.compilations if outcome_of(c) != "failed")


def function_of(log: CompileLog, compilation: Compilation) -> str:
    """Name and place of a function; of a refused compilation those of the one before it."""
    function = naming_compilation(log, compilation)
    return (
        f"{function.name} ({function.location})"
        if function.location
        else function.name or function.compile_id
    )


def naming_compilation(log: CompileLog, compilation: Compilation) -> Compilation:
    """The compilation, or the last one of the same frame that names its function."""
    same = [c for c in log.compilations if c.frame == compilation.frame and c.name]
    return compilation if compilation.name or not same else same[-1]


def by_start(log: CompileLog) -> tuple[int, int]:
    """Ranks in order, of each its starts."""
    rank = -1 if log.rank is None else log.rank
    return (rank, log.spans[0].start_ns if log.spans else 0)


def rank_row(log: CompileLog) -> RankRow:
    """What a process compiled, and how long that took."""
    stages = stage_seconds(log)
    states = cache_states(*log.compilations)
    compile_s = sum(sum(each.values()) for each in stages)
    autotune_s = sum(each.get("autotune", 0.0) for each in stages)
    counts = (graphs_of(log), sum(len(c.breaks) for c in log.compilations), recompilations(log))
    return RankRow(
        log.rank, log.path, compile_s, autotune_s, *counts, states["hit"], states["miss"]
    )


def ranks_differ(logs: Sequence[CompileLog]) -> list[str]:
    """How ranks compiled differently: a rank with other graphs or other collectives is where a run
    hangs."""
    of_rank = {log.rank: log for log in logs if log.rank is not None}
    ranks = [log for _, log in sorted(of_rank.items())]
    return [text for log in ranks[1:] for text in _differences(ranks[0], log)]


def _captured(log: CompileLog) -> Counter[tuple[str, int]]:
    return Counter((c.compile_id, c.operators) for c in log.compilations if c.graphs)


def _schedule(log: CompileLog) -> list[tuple[str, ...]]:
    return [c.collectives for c in log.compilations if c.collectives]


def _differences(a: CompileLog, b: CompileLog) -> list[str]:
    names = {c.compile_id: c.name for log in (b, a) for c in reversed(log.compilations)}
    before, after = map(_captured, (a, b))
    apart = sorted((before - after) | (after - before))
    result = [
        f"rank {b.rank} compiled {one} ({names[one]}) differently from rank {a.rank}."
        for one, _ in apart
    ]
    if _schedule(a) != _schedule(b):
        result.append(
            f"rank {b.rank} runs other collectives, or in another order, than rank "
            f"{a.rank}: this can hang."
        )
    return list(dict.fromkeys(result))


@dataclass(frozen=True)
class Guard:
    """A guard that failed: its text without the value, the value it had and the one it met (""
    where not said)."""

    text: str
    old: str
    new: str
    location: str


def read_guard(reason: str) -> Guard:
    """A guard from what dynamo says of a recompilation: `0/1: tensor 'x' size mismatch at index 0.
    expected 4, ...`."""
    told = _CACHE_ENTRY.sub("", reason.strip())
    stack = _STACK.findall(told)
    where = _WHERE.search(told)
    location = f"{stack[-1][0]}:{stack[-1][1]}" if stack else where[1] if where else ""
    text = _COMMENT.sub("", told.splitlines()[0] if told else "").strip()
    compared = _EXPECTED.match(text)
    if compared:
        return Guard(compared["what"].strip(), compared["old"], compared["new"], location)
    equals = None if text.startswith(("len(", "___check")) else _EQUALS.match(text)
    return Guard(text, equals["old"] if equals else "", "", location)


def key_of(guard: Guard) -> str:
    """What guards have in common that differ in the value alone."""
    equals = _EQUALS.match(guard.text)
    return equals["what"] if equals and guard.old and not guard.new else guard.text


def remedy_of(guard: Guard) -> str:
    """The change of the program that keeps this guard from failing."""
    text = guard.text
    size = _SIZE.search(text)
    if size:
        return (
            f"torch._dynamo.mark_dynamic({_variable(size['name'])}, {size['dim']}) before the call, or "
            "torch.compile(..., dynamic=True); or pad to a few fixed sizes"
        )
    known = next((remedy for pattern, remedy in _REMEDIES if pattern.search(text)), "")
    if known:
        return known
    equals = _EQUALS.match(text)
    if equals and re.fullmatch(r"-?\d+", equals["old"]):
        return (
            f"{_variable(equals['what'])} is a number that changes: pass it as a tensor, or use "
            "torch.compile(..., dynamic=True) (for an attribute of a module: "
            "torch._dynamo.config.allow_unspec_int_on_nn_module = True)"
        )
    if equals and re.fullmatch(r"-?[\d.]+(?:e[+-]?\d+)?|-?inf|nan", equals["old"]):
        return f"{_variable(equals['what'])} is a number that changes: pass it as a tensor"
    return (
        "keep what the guard checks the same from call to call, or take it out of the "
        "compiled function"
    )


def _variable(name: str) -> str:
    return _LOCAL.sub(r"\1\2", name)
