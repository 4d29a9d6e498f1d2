"""A process of the proof: `python -m benchmarks.predict.one NAME FOLDER`.

It loads, says so, and waits for its turn. Then it times the program at its base and records it, as
`collect torch` does, predicts it at each other setting, writes the predictions with their hash, and
only then times the others. `FOLDER/NAME.json` has all of it, `FOLDER/captures/NAME` the recording."""

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
from traceanalyzer.collect.plan import LIGHT_WARMUP, Plan
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


def rounds_ms(step: Step) -> list[float]:
    """Mean step time of each round, the device waited for at both ends."""
    for _ in range(WARM_UP):
        step()
    times = []
    steps = LEAST_STEPS
    for number in range(ROUNDS + 1):
        synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        synchronize()
        times.append((time.perf_counter() - begin) / steps * 1e3)
        if number == 0:
            steps = max(LEAST_STEPS, min(int(ROUND_S * 1e3 / times[0]), MOST_STEPS))
    return times[1:]


def record(step: Step, folder: Path) -> None:
    """A capture as `collect torch` makes it of a process that it has attached to."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = Plan(
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


def timed(program: Program, setting: Setting) -> dict[str, Any]:
    """The program at a setting by the stopwatch."""
    torch.manual_seed(0)
    empty()
    peak_bytes()
    try:
        return {"rounds_ms": rounds_ms(program.make(setting)), "peak_bytes": peak_bytes()}
    except torch.OutOfMemoryError as error:
        return {"failed": str(error).splitlines()[0]}
    finally:
        empty()


def run(program: Program, folder: Path) -> dict[str, Any]:
    """Record, predict, seal, time."""
    torch.manual_seed(0)
    step = program.make(program.base)
    base = {"rounds_ms": rounds_ms(step), "peak_bytes": peak_bytes()}
    captures = folder / "captures" / program.name
    record(step, captures)
    again = rounds_ms(step)
    del step
    empty()
    found = predictions(captures, program)
    digest = sealed(found, folder / f"{program.name}.predictions.json")
    print(f"sealed {program.name} {digest} {time.time():.3f}", flush=True)
    row: dict[str, Any] = {
        "program": program.name,
        "what": program.make.__doc__,
        "held_out": program.held_out,
        "gpu": torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu",
        "base": {"setting": program.base.label, **base, "again_ms": again},
        "sealed": {"sha256": digest, "at": time.time()},
        "predictions": found,
        "timed": {},
    }
    out = folder / f"{program.name}.json"
    for setting in program.targets:
        row["timed"][setting.label] = {"at": time.time(), **timed(program, setting)}
        out.write_text(json.dumps(row, indent=1))
    return row


def main() -> None:
    """Load, wait, run."""
    from benchmarks.predict.language import PROGRAMS as LANGUAGE
    from benchmarks.predict.others import PROGRAMS as OTHERS

    name = sys.argv[1]
    folder = Path(sys.argv[2])
    program = next(one for one in (*LANGUAGE, *OTHERS) if one.name == name)
    for library in LIBRARIES[program.make.__module__]:
        with suppress(Exception):
            importlib.import_module(library)
    (folder / f"{name}.ready").touch()
    parent = os.getppid()
    while not (folder / f"{name}.go").exists():
        if os.getppid() != parent:
            sys.exit("nobody is there any more")
        time.sleep(0.1)
    row = run(program, folder)
    (folder / f"{name}.json").write_text(json.dumps(row, indent=1))


if __name__ == "__main__":
    main()
