"""Compiled code in a trace: its regions, the calls of its graphs, and which device work they
launched.

PyTorch names them: `Torch-Compiled Region: 0/1` around a compiled function (with what it calls, the
functions that go on after a graph break included), `## Call CompiledFxGraph KEY ##` around each
graph that inductor made, `CompiledFunction` and `CompiledFunctionBackward` around the forward and
the backward of one that was made for training.
"""

import re
from collections.abc import Callable
from functools import cached_property

import numpy as np

from traceanalyzer.analysis.algebra import texts_where
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base import dataclass, regex
from traceanalyzer.replay.compile.model import REGION
from traceanalyzer.replay.prediction import Prediction
from traceanalyzer.replay.scenario import Scenario
from traceanalyzer.replay.tape import Change
from traceanalyzer.replay.whatif import Replay
from traceanalyzer.trace import I64, Bool, RangeKind

CALL = regex(r"^## Call CompiledFxGraph (?P<key>\S+) ##$")
FUNCTIONS = frozenset({"CompiledFunction", "CompiledFunctionBackward"})
OPTIMIZER = regex(r"^Optimizer\.step#")
TRITON = regex(r"^triton_(?:poi|red|per|tem|unk|mm|for|split|mix|cooperative|bmm|flex|convolution)")
"""Kernels that inductor wrote, by what it calls them."""


@dataclass(frozen=True, eq=False)
class Ranges:
    """Host ranges of one sort in the order of their starts: node of the host tree, thread, times,
    and text."""

    node: I64
    thread: I64
    start: I64
    end: I64
    text: list[str]

    def __len__(self) -> int:
        return len(self.node)

    def last_end(self, thread: int, start: int, end: int, otherwise: int) -> int:
        """When the last of those ended that lie in a stretch of a thread."""
        return max(self.end[self._inside(thread, start, end)].tolist(), default=otherwise)

    def first_start(self, thread: int, start: int, end: int, otherwise: int) -> int:
        """When the first of them started."""
        return min(self.start[self._inside(thread, start, end)].tolist(), default=otherwise)

    def _inside(self, thread: int, start: int, end: int) -> Bool:
        return (self.thread == thread) & (self.start >= start) & (self.end <= end)


@dataclass(frozen=True, eq=False)
class CompiledCode:
    """The compiled code of a trace. Arrays about device ops have one entry a row of
    `Trace.device_ops`."""

    joined: Joined

    @cached_property
    def regions(self) -> Ranges:
        """Runs of compiled functions; the text is the compile id."""
        return self._ranges(_group_of(REGION, "id"))

    @cached_property
    def calls(self) -> Ranges:
        """Calls of graphs; the text is the graph's key."""
        return self._ranges(_group_of(CALL, "key"))

    @cached_property
    def bodies(self) -> Ranges:
        """Where graphs run: their calls, and forwards and backwards that hold none (other backends
        than inductor)."""
        calls = self.calls
        functions = self._ranges(lambda name: name if name in FUNCTIONS else None)
        is_call = np.zeros(len(self.joined.linked.tree.start), bool)
        is_call[calls.node] = True
        bare = np.flatnonzero(self.joined.linked.tree.subtree_sum(is_call, functions.node) == 0)
        order = np.argsort(np.append(calls.start, functions.start[bare]), kind="stable")
        texts = [*calls.text, *([""] * len(bare))]
        node, thread, start, end = (
            np.append(getattr(calls, name), getattr(functions, name)[bare])[order]
            for name in ("node", "thread", "start", "end")
        )
        return Ranges(node, thread, start, end, [texts[i] for i in order.tolist()])

    @cached_property
    def call_of_op(self) -> I64:
        """Which of `calls` launched each device op, -1 none."""
        return self.around(self.calls)[self.joined.launch_node]

    @cached_property
    def is_triton(self) -> Bool:
        """Which device ops are kernels that inductor wrote, by their names."""
        triton = texts_where(self.joined.trace.strings, TRITON.match)
        return triton[self.joined.trace.device_ops.name] & self.joined.linked.is_kernel

    @cached_property
    def is_compiled(self) -> Bool:
        """Which device ops compiled code launched."""
        return (
            (self.call_of_op >= 0)
            | (self.around(self.bodies)[self.joined.launch_node] >= 0)
            | self.is_triton
        )

    def _ranges(self, text_of: Callable[[str], str | None]) -> Ranges:
        ranges = self.joined.trace.host_ranges
        texts = [text_of(text) for text in self.joined.trace.strings]
        wanted = np.array([text is not None for text in [*texts, None]])
        node = self.joined.linked.tree.node_of_range
        kinds = (ranges.kind == RangeKind.OP) | (ranges.kind == RangeKind.ANNOTATION)
        rows = np.flatnonzero(wanted[ranges.name] & kinds & (node >= 0))
        named = [texts[name] or "" for name in ranges.name[rows].tolist()]
        nodes = node[rows].astype(np.int64)
        threads = ranges.thread[rows].astype(np.int64)
        return Ranges(nodes, threads, ranges.start[rows], ranges.end[rows], named)

    def around(self, ranges: Ranges) -> I64:
        """For each node of the host tree, and for none (-1), the innermost of these ranges that is,
        or encloses, it."""
        index = np.full(len(self.joined.linked.tree.start) + 1, -1, np.int64)
        index[ranges.node] = np.arange(len(ranges))
        enclosing = self.joined.linked.tree.innermost(index[:-1] >= 0)
        return index[np.append(enclosing, -1)]


HOST_SPREAD = 0.2
"""Rounds of steps of one process, seconds apart, differ by so much where the host sets the pace
(H200 hosts)."""
Range = tuple[float | None, float | None, float | None]  # expected, least, most


@dataclass(frozen=True, eq=False)
class TracedCompile:
    """A trace with its joins, its replay and its compiled code."""

    rated: Rated
    replay: Replay | None
    code: CompiledCode

    @property
    def steady(self) -> Bool:
        """Which device ops are of the steady steps."""
        return self.rated.timed.steady_ops

    def per_step(self, amount: float) -> float:
        """An amount of all steady steps for one of them."""
        return amount / self.rated.timed.steps.steady_count

    def predict(self, name: str, change: Change, basis: str) -> Prediction | None:
        """The step with a change; None where the replay does not come out as the recording."""
        if self.replay is None or not self.replay.faithful:
            return None
        return self.replay.predict(Scenario(name, change, basis))

    def range_of(self, prediction: Prediction | None) -> Range:
        """A prediction with its range (ms), no narrower than the host's own spread and no longer
        than the step of now."""
        step = None if prediction is None else prediction.step_ms
        if prediction is None or step is None:
            return None, None, None
        now = self.replay.base_ms if self.replay is not None else 0.0
        low = min(prediction.low_ms or step, step * (1.0 - HOST_SPREAD))
        return (
            step,
            low,
            max(prediction.high_ms or step, min(step * (1.0 + HOST_SPREAD), max(now, step))),
        )


def _group_of(pattern: re.Pattern[str], group: str) -> Callable[[str], str | None]:
    """What gives a group of a pattern for a name that matches it, None for others."""

    def text_of(name: str) -> str | None:
        found = pattern.match(name)
        return found[group] if found else None

    return text_of
