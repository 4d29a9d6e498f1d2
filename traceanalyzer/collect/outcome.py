"""What a recorded command came to, in one or two lines for stderr."""

import json
import subprocess
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

from traceanalyzer.collect.host import progress
from traceanalyzer.collect.plan import UNPROFILED_MOST, CapturePlan

MADE_BY = {
    "torch": "trace.rank*.json.gz",
    "timing": "timings.rank*.jsonl",
    "nsys": "nsys.sqlite",
    "ncu": "ncu.csv",
    "rocprofv3": "rocprofv3.*.db",
    "jax": "trace.rank*.xplane.pb",
}
LEAST_WAIT = 2
LEAST_TIMED = 5
"""Steps left out, and timed, with which a short program can still be recorded."""
KIB = 1024
MISSING = 77
PATIENCE_S = 30
NO_STEP = (
    "no step was found (no optimizer step, no module called repeatedly); name the step: "
    "--step-on REGEX"
)
NO_STEP_OF_JAX = (
    "it has no jax.profiler.StepTraceAnnotation and ended within seconds of compiling; mark its steps, name the "
    "function that is one (--step-on REGEX), or run longer"
)
FIND = (
    "import importlib.util, sys; sys.exit(0 if importlib.util.find_spec(sys.argv[1]) else "
    "int(sys.argv[2]))"
)


def recordings(plan: CapturePlan) -> list[Path]:
    """What the recorder left, one file a rank or one in all; [] where it recorded nothing."""
    return sorted(plan.path.glob(MADE_BY[plan.recorder]))


def describe_outcome(plan: CapturePlan, returned: int, command: Sequence[str] = ()) -> list[str]:
    """Lines that say what was recorded by `command`, or why nothing was; removes the processes' own
    notes. What to do with it is `next_command`."""
    seen = progress.read_progress(plan.path)
    progress.forget(plan.path)
    files = recordings(plan)
    how = f"was ended by signal {-returned}" if returned < 0 else f"ended with status {returned}"
    lines = [*([f"the command {how}"] if returned else []), *_notes(seen)]
    if not files:
        timed = [_timed(file) for file in sorted(plan.path.glob("unprofiled.*.json"))]
        return [*lines, *timed, f"nothing was recorded: {_reason(plan, seen, command)}"]
    return [
        *lines,
        *(
            f"{file} ({max(file.stat().st_size // KIB, 1):,} KiB){_unprofiled(file)}"
            for file in files
        ),
    ]


def next_command(plan: CapturePlan) -> str:
    """How to read what was recorded: the last line."""
    what = f"TRACE --ncu {plan.path / MADE_BY['ncu']}" if plan.recorder == "ncu" else plan.folder
    return f"next: traceanalyzer analyze {what}"


def _notes(seen: list[progress.Progress]) -> list[str]:
    failed = [
        f"rank {one.rank}: recording {one.phase}" for one in seen if one.phase.startswith("failed")
    ]
    notes = dict.fromkeys(note for one in seen for note in one.notes)
    ranks = {note: sorted({one.rank for one in seen if note in one.notes}) for note in notes}
    return [
        *failed,
        *(f"rank {', '.join(map(str, those))}: {note}" for note, those in ranks.items()),
    ]


def _unprofiled(trace: Path) -> str:
    process = (
        trace.name.split(".", 1)[1]
        .split(".part")[0]
        .removesuffix(".json.gz")
        .removesuffix(".xplane.pb")
    )
    timed = trace.parent / f"unprofiled.{process}.json"
    if not timed.exists():
        return ""
    return f", {_timed(timed)}"


def _timed(file: Path) -> str:
    """The step without the profiler, and the part of it that waited for a DataLoader."""
    found = json.loads(file.read_text())
    step_ms = found["step_time_ms"]
    waited_ms = found.get("loader_wait_ms")
    unsteady = "" if found.get("steady", True) else " (not steady)"
    time = f"unprofiled step {step_ms:.3f} ms{unsteady}"
    if waited_ms is None or step_ms <= 0:
        return time
    return f"{time}, {min(waited_ms / step_ms, 1.0):.0%} of it waiting for the DataLoader"


def _reason(plan: CapturePlan, seen: list[progress.Progress], command: Sequence[str]) -> str:
    if not seen:
        if _is_without(plan.library, command):
            return (
                f"`import {plan.library}` fails in {command[0]}: install it there, or name "
                "the Python that has it"
            )
        return (
            f"no process of the command imported {plan.library} (or Python ran with -I, -E or -S)"
        )
    furthest = max(seen, key=attrgetter("steps"))
    if furthest.steps == 0:
        return _no_step(plan)
    if furthest.notes:
        return "the script's own profiler, or its threads, left no room for it"
    if furthest.phase.startswith("failed"):
        return f"recording failed at step {furthest.steps}"
    if furthest.phase == "recording":
        return (
            f"it ended while the profiler warmed up, at step {furthest.steps}; a recording needs "
            f"{plan.steps_needed}{_up_to(plan)}: lower --wait, --unprofiled-steps or --warmup"
        )
    settings = f"--wait {plan.wait}"
    if plan.recorder != "timing":
        light = f" --light-steps {plan.light_steps}," if plan.recorder == "torch" else ""
        settings += f", --unprofiled-steps {plan.unprofiled_steps},{light}"
        settings += f" --warmup {plan.warmup}, --active {plan.active}"
    needed = f"a recording needs {plan.steps_needed}{_up_to(plan)} ({settings})"
    ended = f"it ended after {furthest.steps} steps, {needed}"
    if furthest.phase == "timing" and furthest.steps >= plan.steps_needed:
        ended += ", as many as its steps vary: they were still timed"
    return f"{ended}: {_sooner(plan, furthest.steps)}"


def _sooner(plan: CapturePlan, steps: int) -> str:
    """Settings with which so many steps are enough, however much they vary."""
    after = plan.steps_needed - plan.wait - plan.unprofiled_steps
    wait = min(plan.wait, LEAST_WAIT)
    timed = min((steps - after - wait) // UNPROFILED_MOST, plan.unprofiled_steps)
    if plan.recorder != "torch" or plan.first or timed < LEAST_TIMED:
        return "lower them or run longer"
    return f"--wait {wait} --unprofiled-steps {timed} records {steps}"


def _up_to(plan: CapturePlan) -> str:
    """How many more steps a recording needs where they are not steady."""
    if plan.first or plan.recorder in ("timing", "ncu", "rocprofv3"):
        return ""
    more = plan.unprofiled_most - plan.unprofiled_steps
    return f" to {plan.steps_needed + more}" if more else ""


def _no_step(plan: CapturePlan) -> str:
    if plan.on_signal:
        return "no SIGUSR2 came, or no step after it"
    if plan.step_on:
        return f"no function that matches --step-on {plan.step_on!r} was called"
    return NO_STEP_OF_JAX if plan.recorder == "jax" else NO_STEP


def _is_without(library: str, command: Sequence[str]) -> bool:
    if not command or not Path(command[0]).name.startswith("python"):
        return False
    try:
        # Its output is not the command's: a sitecustomize may print.
        find = [command[0], "-c", FIND, library, str(MISSING)]
        done = subprocess.run(find, capture_output=True, timeout=PATIENCE_S, check=False)  # noqa: S603
        return done.returncode == MISSING
    except (OSError, subprocess.SubprocessError):
        return False
