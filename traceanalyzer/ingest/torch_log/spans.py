"""Begin and end events of compile work as nested spans."""

from collections import defaultdict
from operator import itemgetter
from typing import Any

from traceanalyzer.ingest.side_files import is_number, mapping
from traceanalyzer.trace.compile_log import Span

MAX_SPANS = 1_000_000
"""More than any compilation writes; what comes after is counted and left out."""
_NS_PER_US = 1000
MAX_DEPTH = 1000

_Key = tuple[Any, ...]


class SpanBuilder:
    """Pairs events of a process. Events of one thread are nested; one whose end never comes ends with the log."""

    def __init__(self) -> None:
        """No events yet."""
        self._open: dict[_Key, list[tuple[str, int, str, str]]] = defaultdict(list)
        self._spans: list[Span] = []
        self._last_ns: dict[_Key, int] = {}
        self.left_out = 0
        self.unfinished = 0

    def add(self, event: dict[str, Any], key: _Key, compile_id: str) -> None:
        """Take an event of the `chromium_event` records; of a thread by `key`."""
        time, name = event.get("ts"), str(event.get("name", ""))
        if not is_number(time, 1e16) or time < 0:
            return
        # Whole microseconds apart: a float cannot hold nanoseconds since 1970.
        time_ns = int(time) * _NS_PER_US + round(time % 1 * _NS_PER_US)
        arguments = mapping(event.get("args"))
        own_id = arguments.get("compile_id")
        compile_id = own_id if isinstance(own_id, str) and own_id not in ("", "None") else compile_id
        kernel, stack, phase = str(arguments.get("kernel_name") or ""), self._open[key], event.get("ph")
        if phase in ("B", "E"):
            self._last_ns[key] = max(self._last_ns.get(key, time_ns), time_ns)
        if phase == "B" and len(stack) < MAX_DEPTH:
            stack.append((name, time_ns, compile_id, kernel))
        elif phase == "E" and name in map(itemgetter(0), stack):
            while stack[-1][0] != name:
                self.unfinished += 1
                self._close(key, time_ns)
            self._close(key, time_ns)
        elif phase == "X" and isinstance(event.get("dur"), int | float):
            end_ns = time_ns + round(event["dur"] * _NS_PER_US)
            self._keep(Span(name, time_ns, end_ns, compile_id, hash(key), len(stack), kernel))

    def finish(self) -> tuple[Span, ...]:
        """All spans in the order of their starts."""
        for key, stack in self._open.items():
            while stack:
                self.unfinished += 1
                self._close(key, self._last_ns[key])
        return tuple(sorted(self._spans, key=lambda span: (span.start_ns, span.depth)))

    def _close(self, key: _Key, end_ns: int) -> None:
        name, start_ns, compile_id, kernel = self._open[key].pop()
        depth = len(self._open[key])
        self._keep(Span(name, start_ns, max(end_ns, start_ns), compile_id, hash(key), depth, kernel))

    def _keep(self, span: Span) -> None:
        if len(self._spans) < MAX_SPANS:
            self._spans.append(span)
        else:
            self.left_out += 1
