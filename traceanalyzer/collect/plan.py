"""What to record, as one value that travels through an environment variable to every process of the
command."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any, Self

from traceanalyzer.base import dataclass

VARIABLE = "TRACEANALYZER_COLLECT"  # environment variable that carries the plan
WAIT = 10
"""Steps left out before anything is measured: compilation, cuDNN's search, allocator growth, first
batches."""
UNPROFILED_STEPS = 20  # enough for a median within 1 % where single steps vary by 4 %
UNPROFILED_MOST = 3
"""Times as many are timed where they are not steady: new shapes, filling caches, busy hosts."""
UNSTEADY_SECONDS = 10.0
"""Seconds after which no more of them are timed than `UNPROFILED_STEPS`: a program with long steps
makes few of them, and some must be left to record."""
LIGHT_STEPS = 4  # steps recorded with device activities only
LIGHT_WARMUP = 1  # steps before those, while CUPTI is switched on
WARMUP = 2
"""Steps with the profiler on whose events are thrown away: switching CUPTI on slows the first
ones."""
ACTIVE = 4  # steady state shows in four steps; more make the file larger and not the answer better


@dataclass(frozen=True)
class CapturePlan:
    """Options of one recording."""

    folder: str
    recorder: str = "torch"  # `torch`, `timing`, `nsys`, `ncu`, `rocprofv3` or `jax`
    wait: int = WAIT
    unprofiled_steps: int = UNPROFILED_STEPS
    light_steps: int = LIGHT_STEPS
    warmup: int = WARMUP
    active: int = ACTIVE
    repeat: int = 1
    # whether the first steps of the process are recorded, and steady ones timed after them
    first: bool = False
    eager_steps: int = 0  # steps timed with torch.compile's code switched off
    shapes: bool = True
    stacks: bool = False
    memory: bool = False
    modules: bool = True  # whether the calls of modules are named, where no stacks name them
    operators: bool = False  # whether nsys is told of PyTorch's operators, as ranges of NVTX
    memory_snapshot: bool = False
    compile_log: bool = False  # whether torch.compile writes its log into the capture
    # seconds after which a recording in progress ends at the next step
    time_limit: float | None = None
    # regular expression for the qualified name of the function that is a step
    step_on: str | None = None
    leave: bool = False  # whether the program ends when all is recorded: it runs for that alone
    on_signal: bool = False  # record only when SIGUSR2 asks for it
    nvml_interval: float | None = None  # seconds between NVML samples; None takes none
    # the command by its program and its script, without other arguments: those may hold secrets
    command: str | None = None
    git_revision: str | None = None
    # what the GPU reached before the command, see `ceilings.measure`
    ceilings: dict[str, Any] | None = None

    @property
    def library(self) -> str:
        """The package whose import begins the recording."""
        return "jax" if self.recorder == "jax" else "torch"

    @property
    def steps_needed(self) -> int:
        """Steps until the first recording is complete, or the first step has been timed."""
        if self.recorder == "timing":
            return self.wait + 1
        if self.first:
            return self.active
        light = (
            LIGHT_WARMUP + self.light_steps if self.light_steps and self.recorder == "torch" else 0
        )
        return self.wait + self.unprofiled_steps + light + self.warmup + self.active

    @property
    def unprofiled_most(self) -> int:
        """Steps timed without the profiler where they do not become steady."""
        return UNPROFILED_MOST * self.unprofiled_steps

    @property
    def path(self) -> Path:
        """The capture directory."""
        return Path(self.folder)

    def to_text(self) -> str:
        """The value of `VARIABLE`."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_environment(cls) -> Self | None:
        """The plan that this process was started with, None without one."""
        text = os.environ.get(VARIABLE)
        return cls(**json.loads(text)) if text else None
