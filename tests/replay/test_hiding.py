"""Hiding copies cannot beat the longer of the copies and the rest, whatever the step does."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.causes.test_gaps import Program
from tests.examples import tried
from tests.replay.test_replay import GEMM, steps
from traceanalyzer.diagnosis.remedies.data import COPIED_AHEAD as COPY_AHEAD
from traceanalyzer.replay.scenarios import COPIES_HIDDEN
from traceanalyzer.replay.simulate import repetitions, run
from traceanalyzer.replay.whatif import Replay
from traceanalyzer.trace import CopyKind, DeviceOpKind, MemoryKind

if TYPE_CHECKING:
    from traceanalyzer.replay.tape import Tape

KINDS = (CopyKind.HOST_TO_DEVICE, CopyKind.DEVICE_TO_HOST)
MEMORY = (MemoryKind.PINNED, MemoryKind.PAGEABLE)
ALLOWED = 1.001
"""Rounding to nanoseconds, and the pauses between ops."""

an_action = st.tuples(
    st.sampled_from(("host", "kernel", "copy", "sync")),
    st.integers(1, 3000),
    st.sampled_from(KINDS),
    st.sampled_from(MEMORY),
)


def act(p: Program, what: str, us: int, kind: CopyKind, memory: MemoryKind) -> None:
    if what == "host":
        p.spend(us)
    elif what == "sync":
        p.sync()
    elif what == "kernel":
        p.launch(GEMM, us)
    else:
        call = "cudaMemcpyAsync" if memory is MemoryKind.PINNED else "cudaMemcpy"
        p.launch("Memcpy", us, call, DeviceOpKind.MEMCPY)
        to_device = kind is CopyKind.HOST_TO_DEVICE
        ends = {"source_memory" if to_device else "target_memory": memory}
        p.rows["op"][-1] |= {"copy_kind": kind, "bytes": 1 << 20, **ends}
        if memory is MemoryKind.PAGEABLE:
            p.now = max(p.now, p.device_free)
            p.rows["call"][-1]["end"] = round(p.now * 1000)


def program(actions: list[Any]) -> Replay | None:
    def step(p: Program) -> None:
        p.launch(GEMM, 5)
        for action in actions:
            act(p, *action)

    return Replay.of(steps(step, 4).rated)


def rest_and_copies_ms(replay: Replay) -> tuple[float, float]:
    """The step less the time in which nothing but a copy runs, and the copies of the direction with
    most of them: by looking at each stretch between two ends."""
    tape: Tape = replay.typical[0]
    times = run(replay.typical, repetitions(replay.typical))[0]
    begin = times.done[-2]
    until = times.done[-1]
    spans = [
        (max(s, begin), min(e, until), bool(c))
        for s, e, c in zip(times.ready, times.end, tape.copy, strict=True)
    ]
    edges = sorted({begin, until, *(t for s, e, _ in spans for t in (s, e) if begin <= t <= until)})
    alone = 0
    for start, end in itertools.pairwise(edges):
        running = [copy for s, e, copy in spans if s <= start and e >= end]
        alone += end - start if running and all(running) else 0
    kinds = tape.source.trace.device_ops.copy_kind[tape.row]
    copies = max(int(tape.duration[tape.copy & (kinds == kind)].sum()) for kind in KINDS)
    scale = replay.scale / tape.steps / 1e6
    return (until - begin - alone) * scale, copies * scale


@tried(1)
@given(st.lists(an_action, min_size=1, max_size=6))
def test_no_copy_is_hidden_behind_nothing(actions: list[Any]) -> None:
    replay = program(actions)
    if replay is None:
        return
    rest, copies = rest_and_copies_ms(replay)
    hidden = replay.step_under_ms(COPIES_HIDDEN)
    assert hidden is not None
    assert hidden * ALLOWED >= min(max(rest, copies), replay.base_ms)
    ahead = replay.step_under_ms(COPY_AHEAD)
    assert ahead is None or ahead * ALLOWED >= min(rest, replay.base_ms)


def test_a_host_that_copies_hold_up_still_has_its_own_work_to_do() -> None:
    """Like five vectors that are made on the CPU, copied, added and copied back, one after the
    other."""
    out = CopyKind.HOST_TO_DEVICE
    back = CopyKind.DEVICE_TO_HOST
    replay = program(
        [
            ("host", 2000, out, MEMORY[1]),
            ("copy", 700, out, MEMORY[1]),
            ("kernel", 300, out, MEMORY[1]),
            ("copy", 600, back, MEMORY[1]),
        ]
    )
    assert replay is not None
    assert replay.step_under_ms(COPIES_HIDDEN) == pytest.approx(replay.base_ms - 1.3, rel=0.03)
