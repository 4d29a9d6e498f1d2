"""A process of the proof: `python -m benchmarks.predict.one PART NAME FOLDER`.

It loads, says so, and waits for its turns on the GPU. PART `record` times the program at its base
and records it, as `collect torch` does. Then it gives the GPU to another program, and predicts this
one at each other setting on cores that no timed process has; the predictions are written with their
hash. PART `time`, a fresh process in which no profiler ever ran, times the others, a round at the
base and a round at the setting in turns: hosts change their speed. What kernels it ran is traced at
the very end. Ranks are processes with `RANK` and `WORLD_SIZE`, which take each turn together.
`FOLDER/NAME.PART.json` has what came of it, `FOLDER/captures/NAME` the recording."""

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
from statistics import median
from typing import Any

import torch
from torch import distributed

import traceanalyzer as ta
from benchmarks.predict.program import DEVICE, QUICK, Program, Setting, Step
from benchmarks.predict.score import OF_HOST
from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.collect.attach import Attached
from traceanalyzer.collect.plan import LIGHT_WARMUP, CapturePlan
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.diagnosis.unmade import known_of
from traceanalyzer.replay.unmade.answer import Known, predicted
from traceanalyzer.replay.unmade.question import question_of

RANK = int(os.environ.get("RANK", "0"))
WORLD = int(os.environ.get("WORLD_SIZE", "1"))
WARM_UP = 0 if QUICK else 6
ROUNDS = 1 if QUICK else 4
ROUND_S = 0.0 if QUICK else 0.12
LEAST_STEPS = 1 if QUICK else 3
MOST_STEPS = 200
RECORD_S = 30.0
"""A recording ends after so long. After 15 s that of a T5 had no trace with shapes yet."""
SETTINGS_S = 1e3 if QUICK else 40.0
"""After so long no further setting is begun: other programs wait."""
ISSUED = 1 if QUICK else 5  # steps whose launches are timed alone
LARGE_MODELS = ("bert", "gpt2", "llama", "t5", "whisper")
ASKED_MODELS = ("deberta_v2", "mistral", "qwen2", "wav2vec2", "xlm_roberta")
FORMATS_MODELS = ("bart", "electra", "gpt_bigcode")
LIBRARIES = {
    "benchmarks.predict.language": [
        f"transformers.models.{name}.modeling_{name}" for name in ("bert", "gpt2", "llama", "t5")
    ],
    "benchmarks.predict.others": ["timm", "torchvision"],
    "benchmarks.predict.large": [
        *(f"transformers.models.{name}.modeling_{name}" for name in LARGE_MODELS),
        "timm",
        "torchvision",
    ],
    "benchmarks.predict.asked": [
        f"transformers.models.{name}.modeling_{name}" for name in ASKED_MODELS
    ],
    "benchmarks.predict.asked_pictures": [
        "transformers.models.clip.modeling_clip",
        "transformers.models.segformer.modeling_segformer",
        "torchvision",
    ],
    "benchmarks.predict.formats": [
        f"transformers.models.{name}.modeling_{name}" for name in FORMATS_MODELS
    ],
    "benchmarks.predict.formats_pictures": [
        "transformers.models.videomae.modeling_videomae",
        "torchvision",
    ],
    "benchmarks.predict.together": [
        "transformers.models.gpt2.modeling_gpt2",
        "transformers.models.llama.modeling_llama",
        "torchvision",
    ],
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
        steps = max(LEAST_STEPS, min(int(ROUND_S * 1e3 / once_ms), MOST_STEPS))
        self._steps = _agreed(steps)

    def round_ms(self) -> float:
        """Mean step time of a round, the device waited for at both ends."""
        synchronize()
        begin = time.perf_counter()
        for _ in range(self._steps):
            self._step()
        synchronize()
        return (time.perf_counter() - begin) / self._steps * 1e3

    def host_ms(self) -> float:
        """What the host takes to return from a step of which the device has done nothing yet."""
        found = []
        for _ in range(ISSUED):
            synchronize()
            begin = time.perf_counter()
            self._step()
            found.append((time.perf_counter() - begin) * 1e3)
        synchronize()
        return median(found)


def _agreed(number: int) -> int:
    """The first rank's number, of steps say: ranks that exchange take as many."""
    if WORLD == 1:
        return number
    told = torch.tensor([number], device=DEVICE)
    distributed.broadcast(told, 0)
    return int(told)


def made(program: Program, setting: Setting) -> Step:
    """The program at a setting, its parameters made on the device where it can be: that is
    faster."""
    try:
        with torch.device(DEVICE):
            return program.make(setting)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return program.make(setting)


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
        unprofiled_steps=2 if QUICK else 20,
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
        if attached._recorder.finished or (WORLD == 1 and time.monotonic() > until):
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
        question = question_of(
            batch=asked.get("batch"),
            length=asked.get("length"),
            precision=asked.get("precision"),
            gpu=asked.get("gpu"),
            ranks=int(asked["ranks"]) if "ranks" in asked else None,
        )
        found = predicted(known, question)
    except TraceAnalyzerError as error:
        return {"refused": str(error)}
    except Exception as error:
        return {"refused": repr(error), "broken": traceback.format_exc()}
    return {
        "step_ms": found.step_ms,
        "low_ms": found.low_ms,
        "high_ms": found.high_ms,
        "now_ms": found.now_ms,
        "bottleneck": found.bottleneck,
        "peak_bytes": found.peak_bytes,
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
        clock = Clock(made(program, setting))
        peak = peak_bytes()
        host_ms = clock.host_ms()
        pairs = [(base.round_ms(), clock.round_ms()) for _ in range(ROUNDS)]
        # a host that sets the pace moves: it is timed twice as often
        if _agreed(int(host_ms > OF_HOST * pairs[0][1])):
            pairs += [(base.round_ms(), clock.round_ms()) for _ in range(ROUNDS)]
        return {
            "base_ms": [pair[0] for pair in pairs],
            "rounds_ms": [pair[1] for pair in pairs],
            "host_ms": host_ms,
            "peak_bytes": peak,
        }
    except torch.OutOfMemoryError as error:
        return {"failed": str(error).splitlines()[0]}
    finally:
        empty()


def trace(program: Program, setting: Setting, file: Path) -> None:
    """The kernels of two steps, to see where a prediction was off."""
    empty()
    step = made(program, setting)
    for _ in range(WARM_UP):
        step()
    file.parent.mkdir(parents=True, exist_ok=True)
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        step()
        step()
        synchronize()
    profiler.export_chrome_trace(str(file))


def captured(program: Program, folder: Path) -> dict[str, Any]:
    """Time the base and record it."""
    torch.manual_seed(0)
    step = made(program, program.base)
    base = {"rounds_ms": rounds_ms(step), "peak_bytes": peak_bytes()}
    record(step, folder / "captures" / program.name)
    return {"setting": program.base.label, **base}


def sealing(program: Program, folder: Path, turns: "Turns") -> None:
    """Record in a turn; predict and seal beside the other programs' turns."""
    turns.wait("record")
    base = captured(program, folder)
    empty()
    turns.done("record")
    leave_the_gpu()
    if RANK:
        return
    _stand_back()
    found = predictions(folder / "captures" / program.name, program)
    digest = sealed(found, folder / f"{program.name}.predictions.json")
    at = time.time()
    row = {
        "program": program.name,
        "what": program.make.__doc__,
        "held_out": program.held_out,
        "other": program.other,
        "gpu": torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu",
        "base": base,
        "sealed": {"sha256": digest, "at": at},
        "predictions": found,
    }
    turns.write(row)


def _stand_back() -> None:
    """Run where no timed process does, and behind it."""
    os.nice(19)
    cores = [int(core) for core in os.environ.get("PREDICT_CORES", "").split(",") if core]
    if cores:
        os.sched_setaffinity(0, cores)


def timings(program: Program, folder: Path, turns: "Turns") -> None:
    """The stopwatch at the base and at each other setting. The kernels are traced last: a profiler
    slows what comes after it."""
    turns.wait("time")
    until = time.monotonic() + SETTINGS_S
    torch.manual_seed(0)
    base = Clock(made(program, program.base))
    rounds = [base.round_ms() for _ in range(ROUNDS)]
    own = {"at": time.time(), "rounds_ms": rounds, "host_ms": base.host_ms()}
    found: dict[str, Any] = {program.base.label: own}
    turns.write({"timed": found})
    for setting in program.timed:
        if WORLD == 1 and time.monotonic() > until:
            found[setting.label] = {"failed": "no time was left"}
        else:
            found[setting.label] = {"at": time.time(), **timed(program, base, setting)}
        turns.write({"timed": found})
    del base
    empty()
    turns.done("time")
    if WORLD > 1 or DEVICE != "cuda" or program.held_out:
        return
    turns.wait("kernels")
    with suppress(torch.OutOfMemoryError):
        for setting in program.timed:
            name = f"{program.name}.{setting.label}.json.gz"
            trace(program, setting, folder / "captures" / "kernels" / name)
    turns.done("kernels")


class Turns:
    """When this process may use the GPU, told by files."""

    def __init__(self, folder: Path, name: str, part: str) -> None:
        self._folder = folder
        self._name = name
        self._part = part
        self._parent = os.getppid()

    def wait(self, turn: str) -> None:
        """Say that it is ready, and wait for the turn."""
        (self._folder / f"{self._name}.{turn}.ready.{RANK}").touch()
        while not (self._folder / f"{self._name}.{turn}.go").exists():
            if os.getppid() != self._parent:
                sys.exit("nobody is there any more")
            time.sleep(0.1)
        if WORLD > 1 and not distributed.is_initialized():
            if DEVICE == "cuda":
                torch.cuda.set_device(RANK)
            distributed.init_process_group("nccl" if DEVICE == "cuda" else "gloo")

    def done(self, turn: str) -> None:
        """Give the GPU to the next."""
        (self._folder / f"{self._name}.{turn}.done.{RANK}").touch()

    def write(self, row: dict[str, Any]) -> None:
        """What came of it so far; the first rank's."""
        if RANK:
            return
        file = self._folder / f"{self._name}.{self._part}.json"
        new = file.with_suffix(".new")
        new.write_text(json.dumps(row))
        new.replace(file)


def leave_the_gpu() -> None:
    """End what ranks have together."""
    if WORLD > 1:
        distributed.barrier()
        distributed.destroy_process_group()


PARTS = {"record": sealing, "time": timings}


def main() -> None:
    """Load, wait, run."""
    from benchmarks.predict.asked import PROGRAMS as ASKED
    from benchmarks.predict.asked_pictures import PROGRAMS as ASKED_PICTURES
    from benchmarks.predict.formats import PROGRAMS as FORMATS
    from benchmarks.predict.formats_pictures import PROGRAMS as FORMATS_PICTURES
    from benchmarks.predict.language import PROGRAMS as LANGUAGE
    from benchmarks.predict.large import PROGRAMS as LARGE
    from benchmarks.predict.others import PROGRAMS as OTHERS
    from benchmarks.predict.together import PROGRAMS as TOGETHER

    part, name = sys.argv[1:3]
    folder = Path(sys.argv[3])
    asked = (*ASKED, *ASKED_PICTURES, *FORMATS, *FORMATS_PICTURES)
    every = (*LANGUAGE, *OTHERS, *LARGE, *asked, *TOGETHER)
    program = next(one for one in every if one.name == name)
    for library in LIBRARIES[program.make.__module__]:
        with suppress(Exception):
            importlib.import_module(library)
    PARTS[part](program, folder, Turns(folder, name, part))
    sys.stdout.flush()
    os._exit(0)  # ranks, and profilers, that end one after the other may hang


if __name__ == "__main__":
    main()
