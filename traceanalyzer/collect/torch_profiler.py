"""Records torch.profiler for chosen steps, after timing some steps without it and recording some
lightly.

    with record("capture", active=4) as recording:
        for batch in loader:
            train_step(batch)
            recording.step()

Every capture so carries its own truth: `unprofiled.rank{N}.json` and `light.rank{N}.json.gz` beside
`trace.rank{N}.json.gz`."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from traceanalyzer.collect.host.ranks import current_rank
from traceanalyzer.collect.plan import (
    ACTIVE,
    LIGHT_STEPS,
    UNPROFILED_STEPS,
    WAIT,
    WARMUP,
    CapturePlan,
)
from traceanalyzer.collect.torch_recording import TorchRecording

P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def record(
    folder: str | Path,
    *,
    wait: int = WAIT,
    warmup: int = WARMUP,
    active: int = ACTIVE,
    repeat: int = 1,
    shapes: bool = True,
    stacks: bool = False,
    memory: bool = False,
    modules: bool = True,
    time_limit: float | None = None,
    unprofiled_steps: int = UNPROFILED_STEPS,
    light_steps: int = LIGHT_STEPS,
) -> Iterator[TorchRecording]:
    """Record into a capture directory; call `.step()` at the end of each step.

    The first `wait` steps are left out, at least `unprofiled_steps` are timed without the profiler
    until they are steady, `light_steps` are recorded with device activities only, `warmup` are
    profiled and thrown away, `active` are kept; `repeat` cycles. `time_limit` (seconds) ends a
    recording at the next step. A profiler of the script's own comes first. Raises FileExistsError
    if the folder holds a capture of this rank."""
    recording = begin_recording(
        folder,
        wait=wait,
        warmup=warmup,
        active=active,
        repeat=repeat,
        shapes=shapes,
        stacks=stacks,
        memory=memory,
        modules=modules,
        time_limit=time_limit,
        unprofiled_steps=unprofiled_steps,
        light_steps=light_steps,
    )
    try:
        yield recording
    finally:
        recording.close()


def record_calls(folder: str | Path, **options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a step function: each call is a step, options as for `record`. A script's end keeps
    what is recorded."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        begin = functools.cache(lambda: begin_recording(folder, **options))

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            recording = begin()
            result = function(*args, **kwargs)
            recording.step()
            return result

        return call

    return decorate


def begin_recording(folder: str | Path, **options: Any) -> TorchRecording:
    """A recording that its caller steps and closes; options and errors as of `record`."""
    plan = CapturePlan(folder=str(folder), **options)
    if list(plan.path.glob(f"trace.rank{current_rank()}.*")):
        raise FileExistsError(f"{folder} holds a capture already: give another folder")
    plan.path.mkdir(parents=True, exist_ok=True)
    return TorchRecording(plan)
