"""From records to what a process compiled: each kind of record has one function that takes it;
events become spans."""

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from traceanalyzer.base import regex
from traceanalyzer.ingest.produced import Produced
from traceanalyzer.ingest.side_files import is_number, items, mapping, mappings
from traceanalyzer.ingest.torch_log import explained
from traceanalyzer.ingest.torch_log.records import Record, record_kind
from traceanalyzer.trace.compile_log import (
    CacheEvent,
    CacheLayer,
    CacheState,
    Compilation,
    CompileLog,
    CompileSpan,
    Counts,
    TritonKernel,
)

MAX_SPANS = 1_000_000  # more than any compilation writes; what comes after is counted and left out
MAX_DEPTH = 1000
_NS_PER_US = 1000
_Key = tuple[Any, ...]


class SpanBuilder:
    """Pairs events of a process. Events of one thread are nested; one whose end never comes ends
    with the log."""

    def __init__(self) -> None:
        self._open: dict[_Key, list[tuple[str, int, str, str]]] = defaultdict(list)
        self._spans: list[CompileSpan] = []
        self._last_ns: dict[_Key, int] = {}
        self.left_out = self.unfinished = 0

    def add(self, event: dict[str, Any], key: _Key, compile_id: str) -> None:
        """Take an event of the `chromium_event` records; of a thread by `key`."""
        time = event.get("ts")
        name = str(event.get("name", ""))
        if not is_number(time, 1e16) or time < 0:
            return
        # Whole microseconds apart: a float cannot hold nanoseconds since 1970.
        time_ns = int(time) * _NS_PER_US + round(time % 1 * _NS_PER_US)
        arguments = mapping(event.get("args"))
        own_id = arguments.get("compile_id")
        compile_id = (
            own_id if isinstance(own_id, str) and own_id not in ("", "None") else compile_id
        )
        kernel = str(arguments.get("kernel_name") or "")
        stack = self._open[key]
        phase = event.get("ph")
        if phase in ("B", "E"):
            self._last_ns[key] = max(self._last_ns.get(key, time_ns), time_ns)
            self._nest(key, phase, (name, time_ns, compile_id, kernel))
        elif phase == "X" and isinstance(event.get("dur"), int | float):
            end_ns = time_ns + round(event["dur"] * _NS_PER_US)
            self._keep(
                CompileSpan(name, time_ns, end_ns, compile_id, hash(key), len(stack), kernel)
            )

    def finish(self) -> tuple[CompileSpan, ...]:
        """All spans in the order of their starts."""
        for key, stack in self._open.items():
            while stack:
                self.unfinished += 1
                self._close(key, self._last_ns[key])
        return tuple(sorted(self._spans, key=lambda span: (span.start_ns, span.depth)))

    def _nest(self, key: _Key, phase: str, event: tuple[str, int, str, str]) -> None:
        stack = self._open[key]
        if phase == "B" and len(stack) < MAX_DEPTH:
            stack.append(event)
        elif phase == "E" and event[0] in map(itemgetter(0), stack):
            while stack[-1][0] != event[0]:
                self.unfinished += 1
                self._close(key, event[1])
            self._close(key, event[1])

    def _close(self, key: _Key, end_ns: int) -> None:
        name, start_ns, compile_id, kernel = self._open[key].pop()
        depth = len(self._open[key])
        self._keep(
            CompileSpan(name, start_ns, max(end_ns, start_ns), compile_id, hash(key), depth, kernel)
        )

    def _keep(self, span: CompileSpan) -> None:
        if len(self._spans) < MAX_SPANS:
            self._spans.append(span)
        else:
            self.left_out += 1


LOGS_BREAKS = (2, 6)  # PyTorch from here on has a record for each graph break
MAX_COMPILATIONS = 200_000  # compilations kept of a process
VERSIONS = {
    "pytorch_version": "torch",
    "triton_version": "triton",
    "cuda_version": "cuda",
    "python_version": "python",
}
_GRAPHS = {
    "dynamo_output_graph": "program",
    **{f"aot_{direction}_graph": direction for direction in ("inference", "forward", "backward")},
    **{f"{writer}_post_grad_graph": "post_grad" for writer in ("before", "after", "inductor")},
}
"""Records that dump a graph, and what it is of."""
_LAYERS: dict[str, CacheLayer] = {"fx_graph_cache": "fx_graph", "aotautograd_cache": "aot_autograd"}
_CACHES: dict[str, tuple[CacheLayer, CacheState]] = {
    f"{name}_{state}": (layer, state)
    for name, layer in _LAYERS.items()
    for state in ("hit", "miss", "bypass")
}
_CUDAGRAPHS = regex(rb"fx_kwargs\[cudagraphs\]: (?:BoxedBool\(value=)?(True|False)")


class CompileLogFold:
    """Takes the records of one process in their order: `_on_KIND` those of a kind."""

    def __init__(self, path: str, rank: int | None) -> None:
        """`rank` is what the file's name says; records may say better."""
        self._path = path
        self._rank = rank
        self._done: list[Compilation] = []
        self._now: dict[str, Compilation] = {}
        self._spans = SpanBuilder()
        self._strings: dict[int, str] = {}
        self._lines: dict[tuple[str, str], dict[str, str]] = {}
        self._versions: dict[str, str] = {}
        self._key_before_code: dict[str, str] = {}
        self._broken_texts = self._odd = 0
        self._produced = Produced(Path(path))

    def take(self, record: Record, counts: Counts) -> None:
        """Note what a record says. One of another form than PyTorch writes is counted and left
        out."""
        try:
            rank = record.envelope.get("rank")
            self._rank = rank if isinstance(rank, int) else self._rank
            kind = record_kind(record)
            if kind in _HANDLERS:
                _HANDLERS[kind](self, record)
            elif kind in _GRAPHS:
                self._graph(record, kind)
            elif kind in _CACHES:
                self._cache(record, *_CACHES[kind])
            elif kind not in QUIET:
                counts.unknown[kind] = counts.unknown.get(kind, 0) + 1
        except (TypeError, AttributeError, ValueError, LookupError, OverflowError):
            self._odd += 1

    def result(self, counts: Counts) -> CompileLog:
        """What the process compiled."""
        spans = self._spans.finish()
        left_out = {
            "spans of compile work were left out: there are too many.": self._spans.left_out,
            "payloads hold JSON that cannot be read and were left out.": self._broken_texts,
            "records have another form than PyTorch writes and were left out.": self._odd,
        }
        notes = tuple(f"{count} {what}" for what, count in left_out.items() if count)
        # One that does not say its version may be old.
        torch = re.match(r"(\d{1,18})\.(\d{1,18})", self._versions.get("torch", ""))
        is_old = torch is None or (int(torch[1]), int(torch[2])) < LOGS_BREAKS
        if is_old and not any(compilation.breaks for compilation in self._done):
            for compilation in self._done:
                compilation.breaks += explained.breaks_of_restarts(compilation.restarts)
        done = tuple(self._done)
        unfinished = self._spans.unfinished
        return CompileLog(
            self._path, self._rank, done, spans, counts, self._versions, unfinished, notes
        )

    def _compilation(self, record: Record, *, new: bool = False) -> Compilation:
        compile_id = record.compile_id
        now = self._now.get(compile_id)
        if now is None or (new and now.started and record.attempt == 0):
            now = self._now[compile_id] = Compilation(compile_id, self._rank, record.thread)
            self._key_before_code.pop(compile_id, None)
            if len(self._done) < MAX_COMPILATIONS:
                self._done.append(now)
        return now

    def _json(self, record: Record) -> Any:
        try:
            return msgspec.json.decode(record.text)
        except (msgspec.DecodeError, RecursionError):
            self._broken_texts += 1
            return None

    def _on_str(self, record: Record) -> None:
        if (
            isinstance(record.body, list)
            and len(record.body) == 2
            and isinstance(record.body[1], int)
        ):
            self._strings[record.body[1]] = str(record.body[0])

    def _on_chromium_event(self, record: Record) -> None:
        event = self._json(record) if record.payload else record.body
        for span in mappings(event if isinstance(event, list) else [event]):
            pid = str(span.get("pid"))
            key = (record.prefix, record.thread, pid, str(span.get("tid")))
            self._spans.add(span, key, record.compile_id)

    def _on_dynamo_start(self, record: Record) -> None:
        compilation = self._compilation(record, new=True)
        compilation.started = True
        frames = mappings(mapping(record.body).get("stack"))
        compilation.stack = tuple(self._frame(frame) for frame in frames)
        if not compilation.location and frames:
            compilation.location = compilation.stack[-1].partition(" in ")[0]
            compilation.name = str(frames[-1].get("name", ""))

    def _frame(self, frame: dict[str, Any]) -> str:
        file = frame.get("filename", "")
        file = self._strings.get(file, "?") if isinstance(file, int) else file
        text = f"{file}:{frame.get('line', 0)} in {frame.get('name', '')}"
        self._produced.add(len(text))
        return text

    def _graph(self, record: Record, kind: str) -> None:
        what = _GRAPHS[kind]
        place = (record.compile_id, what)
        if what == "program":
            compilation = self._compilation(record)
            if record.attempt != compilation.attempt:
                compilation.graphs = 0
                compilation.attempt = record.attempt
            compilation.graphs += 1
            shapes = mapping(mapping(record.body).get("sizes")).values()
            compilation.dynamic |= any(
                isinstance(size, str) for shape in shapes for size in items(shape)
            )
        goes_on = kind in ("after_post_grad_graph", "inductor_post_grad_graph")
        before = self._lines.get(place, {}) if goes_on else {}
        self._lines[place] = before | explained.node_lines(record.text)

    def _on_inductor_output_code(self, record: Record) -> None:
        compilation = self._compilation(record)
        compile_id = record.compile_id
        text = record.text
        graphs = ("post_grad", explained.read_code(text[:2000], ()).direction, "program")
        lines = [
            self._lines[compile_id, graph] for graph in graphs if (compile_id, graph) in self._lines
        ]
        key = self._key_before_code.pop(compile_id, "")
        compilation.codes.append(replace(explained.read_code(text, lines), key=key))
        self._lines.pop((compile_id, "post_grad"), None)

    def _cache(self, record: Record, layer: CacheLayer, state: CacheState) -> None:
        values = mapping(self._json(record))
        compilation = self._compilation(record)
        key = str(values.get("key") or "")
        saved = max(_whole(values.get("time_saved_ns")), 0)
        reason = explained.first_line(str(values.get("cache_bypass_reason") or ""))
        wanted = _CUDAGRAPHS.search(record.payload)
        cudagraphs = None if wanted is None else wanted[1] == b"True"
        compilation.caches.append(CacheEvent(layer, state, key, reason, saved, cudagraphs))
        if layer != "fx_graph" or not key:
            return
        open_codes = [place for place, code in enumerate(compilation.codes) if not code.key]
        if open_codes:
            compilation.codes[open_codes[-1]] = replace(compilation.codes[open_codes[-1]], key=key)
        else:
            self._key_before_code[record.compile_id] = key

    def _on_dynamo_graph_break_reason(self, record: Record) -> None:
        self._compilation(record).breaks.append(explained.read_break(record.text))

    def _on_dynamo_error(self, record: Record) -> None:
        """The exception in a traceback: its last line at the margin with a colon."""
        at_margin = [line for line in record.text.splitlines() if not line.startswith((" ", "\t"))]
        names = [(line.partition(":")[0] if ":" in line else " ", line) for line in at_margin]
        errors = [
            line
            for name, line in names
            if name.rpartition(".")[2][:1].isupper() and " " not in name
        ]
        self._compilation(record).error = explained.first_line(
            errors[-1] if errors else record.text
        )

    def _on_recompile_reasons(self, record: Record) -> None:
        text = record.text.strip()
        values = self._json(record) if text.startswith(("[", '"')) else text
        reasons = values if isinstance(values, list) else [values]
        lines = [explained.first_line(str(reason)) for reason in reasons if reason]
        self._compilation(record).recompile_reasons += lines

    def _on_triton_kernel_info(self, record: Record) -> None:
        for name, about in mapping(self._json(record)).items():
            if isinstance(about, dict):
                took = _whole(about.get("compile_time_us"))
                state = str(about.get("autotune_cache_state") or "")
                kernel = TritonKernel(name, took, _whole(about.get("num_configs")) or 1, state)
                self._compilation(record).triton.append(kernel)

    def _metrics(self, record: Record) -> None:
        values = mapping(record.body)
        for name, short in VERSIONS.items():
            if isinstance(values.get(name), str):
                self._versions[short] = values[name].partition(" ")[0]
        named = values.get(
            "compile_id"
        )  # all that metrics of what happens while the program runs have
        known = None if record.compile_id else self._now.get(str(named))
        compilation = known or self._compilation(record)
        metrics = explained.read_metrics(record.kind, values)
        if metrics is None:
            return
        compilation.metrics.append(metrics)
        if metrics.kind != "forward":
            return
        if isinstance(values.get("co_filename"), str):
            compilation.location = f"{values['co_filename']}:{values.get('co_firstlineno') or 0}"
            compilation.name = str(values.get("co_name") or "")
        compilation.operators = _whole(values.get("graph_op_count"))
        compilation.cache_size = _whole(values.get("cache_size"))
        compilation.restarts = list(map(str, items(values.get("restart_reasons"))))

    def _on_inductor_runtime_and_tensor_meta(self, record: Record) -> None:
        """It is of the code that was written last."""
        estimates = explained.read_estimates(self._json(record))
        codes = self._compilation(record).codes
        if codes and not codes[-1].estimates:
            codes[-1] = replace(codes[-1], estimates=estimates)

    def _on_inductor_collective_schedule(self, record: Record) -> None:
        values = self._json(record)
        if isinstance(values, list):
            self._compilation(record).collectives += tuple(map(str, values))

    def _on_aot_forward_graph_fw_metadata(self, record: Record) -> None:
        """How many inputs a graph changes in place, of what AOTAutograd says of its inputs."""
        inputs = record.payload.split(b"output_info=")[0].split(b"InputAliasInfo(")[1:]
        changed = sum(
            b"mutates_data=True" in one and b"requires_grad=False" in one for one in inputs
        )
        self._compilation(record).inputs_changed += changed

    def _on_inductor_provenance_tracking_kernel_stack_traces(self, record: Record) -> None:
        """Source lines of kernels whose code did not tell them."""
        values = self._json(record) if record.payload.strip() else None
        if not isinstance(values, dict):
            return
        lines = {
            str(name).partition(":")[0]: explained.lines_of_stacks(stacks)
            for name, stacks in values.items()
        }
        compilation = self._compilation(record)
        compilation.codes[:] = [explained.with_lines(code, lines) for code in compilation.codes]

    def _on_torch_version(self, record: Record) -> None:
        text = explained.first_line(record.text).strip('"')
        if text and len(text) < 100:
            self._versions.setdefault("torch", text)


_HANDLERS: dict[str, Callable[[CompileLogFold, Record], None]] = {
    **{
        name.removeprefix("_on_"): of
        for name, of in vars(CompileLogFold).items()
        if name.startswith("_on_")
    },
    **{
        f"{side}compilation_metrics{when}": CompileLogFold._metrics
        for side in ("", "bwd_")
        for when in ("", "_runtime")
    },
}
WANTED = frozenset({*_HANDLERS, *_GRAPHS, *_CACHES})  # kinds of records whose payload is read
QUIET = {
    "describe_storage",
    "describe_tensor",
    "describe_source",
    "dynamo_cpp_guards_str",
    "dynamo_guards",
    "aot_joint_graph",
    "before_pre_grad_graph",
    "after_pre_grad_graph",
    "before_joint_graph",
    "after_joint_graph",
    "fx_graph_runnable",
    "torch._functorch.config",
    "runtime_wrapper_orchestration",
}
"""Kinds that say nothing here, and are in every log."""


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
