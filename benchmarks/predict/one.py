"""A process of the proof: `python -m benchmarks.predict.one PART NAME FOLDER`.

It loads, says so, and waits for its turn. PART `record` times the program at its base and records
it, as `collect torch` does, predicts it at each other setting, and writes the predictions with their
hash. PART `time`, a fresh process in which no profiler ever ran, then times the others, a round at
the base and a round at the setting in turns: hosts change their speed. `FOLDER/NAME.PART.json` has
what came of it, `FOLDER/captures/NAME` the recording."""

import gc
import hashlib
import importlib
import json
import os
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

import traceanalyzer as ta
from benchmarks.predict.program import DEVICE, QUICK, Program, Setting, Step
from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.collect.attach import Attached
from traceanalyzer.collect.plan import LIGHT_WARMUP, CapturePlan
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.diagnosis.unmade import known_of
from traceanalyzer.replay.unmade.answer import Known, predicted
from traceanalyzer.replay.unmade.question import question_of

WARM_UP = 1 if QUICK else 6
ROUNDS = 2 if QUICK else 5
ROUND_S = 0.0 if QUICK else 0.2
LEAST_STEPS = 2 if QUICK else 3
MOST_STEPS = 300
RECORD_S = 12.0
LIBRARIES = {
    "benchmarks.predict.language": [
        f"transformers.models.{name}.modeling_{name}" for name in ("bert", "gpt2", "llama", "t5")
    ],
    "benchmarks.predict.others": ["timm", "torchvision"],
}
"""What programs of each file import when they are made: better before their turn."""
OTHER_GPUS = ("H100 SXM", "H200 SXM")


def synchronize() -> None:
    """Wait for the device."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def empty() -> None:
    """Give memory back that nothing needs."""
    gc.collect()
    if DEVICE == "cuda":
        torch.cuda.empty_cache()


class Clock:
    """A stopwatch of one step function: warm, and with a number of steps for each round."""

    def __init__(self, step: Step) -> None:
        self._step = step
        for _ in range(WARM_UP):
            step()
        self._steps = LEAST_STEPS
        once_ms = self.round_ms()
        self._steps = max(LEAST_STEPS, min(int(ROUND_S * 1e3 / once_ms), MOST_STEPS))

    def round_ms(self) -> float:
        """Mean step time of a round, the device waited for at both ends."""
        synchronize()
        begin = time.perf_counter()
        for _ in range(self._steps):
            self._step()
        synchronize()
        return (time.perf_counter() - begin) / self._steps * 1e3


def rounds_ms(step: Step) -> list[float]:
    """Mean step time of each round."""
    clock = Clock(step)
    return [clock.round_ms() for _ in range(ROUNDS)]


def record(step: Step, folder: Path) -> None:
    """A capture as `collect torch` makes it of a process that it has attached to."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = CapturePlan(
        folder=str(folder),
        wait=1,
        unprofiled_steps=2 if QUICK else 10,
        light_steps=1 if QUICK else 3,
        active=2 if QUICK else 3,
        memory=not QUICK,
    )
    attached = Attached(plan)
    light = LIGHT_WARMUP + plan.light_steps
    most = plan.wait + plan.unprofiled_most + light + plan.warmup + plan.active + 2
    until = time.monotonic() + RECORD_S
    for _ in range(most):
        step()
        attached._step()
        if attached._recorder.finished or time.monotonic() > until:
            break
    synchronize()
    attached._recorder.close()


def predictions(folder: Path, program: Program) -> list[dict[str, Any]]:
    """What the recording says of each other setting, and of other GPUs; why, where it says
    nothing."""
    asked = [(one.label, one.asked(program.base)) for one in program.targets]
    asked += [(f"{program.base.label}@{name}", {"gpu": name}) for name in OTHER_GPUS]
    try:
        known = known_of(measured(ta.load(folder)).critical)
    except TraceAnalyzerError as error:
        return [{"setting": label, "asked": one, "refused": str(error)} for label, one in asked]
    return [{"setting": label, "asked": one, **_predicted(known, one)} for label, one in asked]


def _predicted(known: Known, asked: dict[str, str]) -> dict[str, Any]:
    begin = time.perf_counter()
    try:
        made = predicted(known, question_of(**asked))
    except TraceAnalyzerError as error:
        return {"refused": str(error)}
    except Exception as error:
        return {"refused": repr(error), "broken": traceback.format_exc()}
    return {
        "step_ms": made.step_ms,
        "low_ms": made.low_ms,
        "high_ms": made.high_ms,
        "now_ms": made.now_ms,
        "bottleneck": made.bottleneck,
        "peak_bytes": made.peak_bytes,
        "took_s": time.perf_counter() - begin,
    }


def sealed(found: list[dict[str, Any]], file: Path) -> str:
    """Write predictions to a file; the hash of its bytes, with the time."""
    text = json.dumps(found, indent=1, sort_keys=True)
    file.write_text(text)
    return hashlib.sha256(text.encode()).hexdigest()


def peak_bytes() -> int | None:
    """Most bytes that were allocated since the last question."""
    if DEVICE != "cuda":
        return None
    peak = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    return peak


def timed(program: Program, base: Clock, setting: Setting) -> dict[str, Any]:
    """The program at a setting by the stopwatch, in turns with its base."""
    torch.manual_seed(0)
    empty()
    peak_bytes()
    try:
        step = program.make(setting)
        clock = Clock(step)
        peak = peak_bytes()
        pairs = [(base.round_ms(), clock.round_ms()) for _ in range(ROUNDS)]
        return {
            "base_ms": [pair[0] for pair in pairs],
            "rounds_ms": [pair[1] for pair in pairs],
            "peak_bytes": peak,
        }
    except torch.OutOfMemoryError as error:
        return {"failed": str(error).splitlines()[0]}
    finally:
        empty()


def trace(program: Program, setting: Setting, file: Path) -> None:
    """The kernels of two steps, to see where a prediction was off."""
    empty()
    step = program.make(setting)
    for _ in range(WARM_UP):
        step()
    file.parent.mkdir(parents=True, exist_ok=True)
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        step()
        step()
        synchronize()
    profiler.export_chrome_trace(str(file))


def recorded(program: Program, folder: Path) -> dict[str, Any]:
    """Record, predict, seal."""
    torch.manual_seed(0)
    step = program.make(program.base)
    base = {"rounds_ms": rounds_ms(step), "peak_bytes": peak_bytes()}
    captures = folder / "captures" / program.name
    record(step, captures)
    found = predictions(captures, program)
    digest = sealed(found, folder / f"{program.name}.predictions.json")
    print(f"sealed {program.name} {digest} {time.time():.3f}", flush=True)
    return {
        "program": program.name,
        "what": program.make.__doc__,
        "held_out": program.held_out,
        "gpu": torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu",
        "base": {"setting": program.base.label, **base},
        "sealed": {"sha256": digest, "at": time.time()},
        "predictions": found,
    }


def timings(program: Program, folder: Path) -> dict[str, Any]:
    """The stopwatch at each other setting. The kernels are traced last: a profiler slows what
    comes after it."""
    torch.manual_seed(0)
    base = Clock(program.make(program.base))
    captures = folder / "captures" / "targets"
    found: dict[str, Any] = {}
    for setting in program.targets:
        found[setting.label] = {"at": time.time(), **timed(program, base, setting)}
        (folder / f"{program.name}.time.json").write_text(json.dumps({"timed": found}, indent=1))
    if DEVICE == "cuda" and not program.held_out:
        with suppress(torch.OutOfMemoryError):
            for setting in program.targets:
                trace(program, setting, captures / f"{program.name}.{setting.label}.json.gz")
    return {"timed": found}


PARTS = {"record": recorded, "time": timings}


def main() -> None:
    """Load, wait, run."""
    from benchmarks.predict.language import PROGRAMS as LANGUAGE
    from benchmarks.predict.others import PROGRAMS as OTHERS

    part, name = sys.argv[1:3]
    folder = Path(sys.argv[3])
    program = next(one for one in (*LANGUAGE, *OTHERS) if one.name == name)
    for library in LIBRARIES[program.make.__module__]:
        with suppress(Exception):
            importlib.import_module(library)
    (folder / f"{name}.{part}.ready").touch()
    parent = os.getppid()
    while not (folder / f"{name}.{part}.go").exists():
        if os.getppid() != parent:
            sys.exit("nobody is there any more")
        time.sleep(0.1)
    row = PARTS[part](program, folder)
    (folder / f"{name}.{part}.json").write_text(json.dumps(row, indent=1))


if __name__ == "__main__":
    main()
