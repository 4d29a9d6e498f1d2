"""The torch.profilers that are made, with operators or light, and how they begin and end beside the
script's own."""

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from traceanalyzer.collect.host import cuda
from traceanalyzer.collect.host.files import too_large_is_an_error
from traceanalyzer.collect.host.interrupt import MAIN_THREAD
from traceanalyzer.collect.host.remarks import leave_unsaid
from traceanalyzer.collect.plan import LIGHT_WARMUP, CapturePlan
from traceanalyzer.collect.profilers.other_profilers import WATCH, end_copy, end_stale

DRAIN_SECONDS = 5.0
"""How long a recording that is cut short waits for the device. A collective whose peer died never
ends."""
ASK_SECONDS = 5.0  # a thread that begins a profiler waits so long for the recorded one to end ours

TEARDOWN = "TEARDOWN_CUPTI"
"""Environment variable by which Kineto switches CUPTI off when a profile ends. Otherwise CUPTI
stays subscribed and slows every launch of the process for as long as it lives, by a third where the
host is the limit."""
TEARDOWN_SINCE = (12, 6)  # CUDA from which on that is safe beside CUDA graphs, as torch has it
OF_SCHEDULES = "Profiler won't be using warmup|Warning: Profiler clears events"
"""Remarks on how it is used here."""


def full_profiler(plan: CapturePlan, write: Callable[[Any], None]) -> Any:
    """A torch.profiler that calls `write` when it has been stopped."""
    import torch
    from torch._C._profiler import _ExperimentalConfig
    from torch.profiler import ProfilerActivity, profile, schedule

    leave_unsaid(OF_SCHEDULES)
    activities = [
        ProfilerActivity.CPU,
        *([ProfilerActivity.CUDA] if torch.cuda.is_available() else []),
    ]
    config = _ExperimentalConfig(enable_cuda_sync_events=True)
    with suppress(TypeError):  # before PyTorch 2.11: no Python event tree
        config = _ExperimentalConfig(enable_cuda_sync_events=True, trace_only=True)
    return profile(
        activities=activities,
        schedule=schedule(wait=0, warmup=plan.warmup, active=plan.active, repeat=1),
        on_trace_ready=write,
        record_shapes=plan.shapes,
        with_stack=plan.stacks,
        profile_memory=plan.memory,
        experimental_config=config,
    )


def light_profiler(plan: CapturePlan, write: Callable[[Any], None]) -> Any:
    """One that records the device and the calls that launch its work, no operators: half as hard on
    the host."""
    from torch.profiler import ProfilerActivity, profile, schedule

    leave_unsaid(OF_SCHEDULES)
    return profile(
        activities=[ProfilerActivity.CUDA],
        schedule=schedule(wait=0, warmup=LIGHT_WARMUP, active=plan.light_steps, repeat=1),
        on_trace_ready=write,
    )


class _AtThreadEnd:
    """Calls back in the thread that holds it when that thread ends."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call

    def __del__(self) -> None:
        self.call()


_of_thread = threading.local()  # destroyed with the thread, in the thread


class ProfilerSession:
    """A torch.profiler that belongs to the thread that starts it.

    `give_way` ends it for one of the script's, `at_thread_end` where its thread ends."""

    def __init__(
        self, profiler: Any, give_way: Callable[[], None], at_thread_end: Callable[[], None]
    ) -> None:
        self._profiler = profiler
        self._give_way = give_way
        self._thread, self._ident = threading.current_thread(), threading.get_ident()
        self._ended = threading.Event()
        self._listening = False
        self.asked = False  # whether another thread waits for the end of this session
        WATCH.begin_ours(profiler.start, give_way)
        if self._thread is not threading.main_thread():
            _of_thread.guard = _AtThreadEnd(at_thread_end)
        else:
            self._listening = MAIN_THREAD.open()

    @property
    def mine(self) -> bool:
        """Whether the calling thread is the session's."""
        return threading.get_ident() == self._ident

    @property
    def orphaned(self) -> bool:
        """Whether the session's thread has ended, and the session with it."""
        return not self._thread.is_alive()

    def step(self) -> None:
        """Tell the profiler that a step has ended."""
        with WATCH.ours():
            self._profiler.step()

    def say(self, name: str, json_text: str) -> None:
        """Store a JSON value in the head of the recording."""
        self._profiler.add_metadata_json(name, json_text)

    @too_large_is_an_error()
    def stop(self, *, last: bool = False) -> None:
        """Stop the profiler, which then writes what it has; only in its own thread can it be
        stopped.

        After the `last` one of a process that lives on, CUPTI is switched off."""
        WATCH.give_way = None
        try:
            with WATCH.ours(), _torn_down(last):
                _stop(self._profiler)
        finally:
            # what refers to itself would keep its events, more than the file, until a collection
            vars(self._profiler).pop("profiler", None)
            self._profiler = None
            self._release()

    def ask(self) -> bool:
        """Have the session's thread end it, from another thread. False if that took too long."""
        self.asked = True
        if self.orphaned:
            return False
        if self._listening:
            return MAIN_THREAD.call(self._on_asked, self._ended, ASK_SECONDS)
        return self._ended.wait(ASK_SECONDS)

    def leave(self, *, forked: bool = False) -> None:
        """Never touch the profiler again: another thread's has ended its recording, or this process
        is a fork.

        What it left in its thread is cleared when a profiler of the script's is to begin there."""
        if forked:
            WATCH.forked()
        thread = self._ident
        profiler = self._profiler

        def recover() -> None:
            # holds on to the profiler until then: to free it would end it
            if threading.get_ident() == thread:
                WATCH.give_way = None
                end_copy() if forked else end_stale(profiler)

        WATCH.give_way = recover
        self._release()

    def _on_asked(self) -> None:
        if not self._ended.is_set() and not WATCH.inside_ours():
            self._give_way()

    def _release(self) -> None:
        self._ended.set()
        guard = getattr(_of_thread, "guard", None)
        if guard is not None:
            guard.call = lambda: None
        if self._listening:
            self._listening = False
            MAIN_THREAD.close()


@contextmanager
def _torn_down(wanted: bool) -> Iterator[None]:
    """Inside, the end of a profile switches CUPTI off, where that is safe and the script has not
    decided on it. The variable is only set for the end: a profile that begins while it is set may
    lose its kernels."""
    if not wanted or TEARDOWN in os.environ or not teardown_is_safe():
        yield
        return
    os.environ[TEARDOWN] = "1"
    try:
        yield
    finally:
        os.environ.pop(TEARDOWN, None)


def teardown_is_safe() -> bool:
    """Whether the end of a last profile switches CUPTI off."""
    import torch

    version = re.match(r"(\d{1,18})\.(\d{1,18})", torch.version.cuda or "")
    return (
        version is not None
        and cuda.in_use()
        and (int(version[1]), int(version[2])) >= TEARDOWN_SINCE
    )


def _stop(profiler: Any) -> None:
    """Stop the profiler; where the device hangs, without the wait for it that torch does first."""
    import torch

    annotation = getattr(profiler, "step_rec_fn", None)
    if annotation is not None:
        # the last `ProfilerStep` ends now: waiting and stopping are no part of it
        profiler.step_rec_fn = None
        annotation.__exit__(None, None, None)
    if cuda.wait_at_most(DRAIN_SECONDS):
        profiler.stop()
        return
    waiting = torch.cuda.synchronize
    torch.cuda.synchronize = lambda device=None: None
    try:
        profiler.stop()
    finally:
        torch.cuda.synchronize = waiting
