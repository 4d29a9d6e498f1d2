"""Under which conditions a capture was recorded, and which of them spoil its figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from traceanalyzer.ingest.program import program_conditions
from traceanalyzer.ingest.side_files import is_above_zero, is_number
from traceanalyzer.trace import Ceilings, Condition
from traceanalyzer.trace.variables import ALLOWED_VARIABLES

THROTTLED = "the GPU ran below its full clocks, so kernels took longer"
CROWDED = "other work shared the GPU: times are not the program's own"

MOST_GPUS = 1024
"""Of one host."""
TERA, GIGA = 1e12, 1e9

_SETTINGS: tuple[tuple[str, str, str], ...] = (
    ("debug_build", "PyTorch debug build", "a debug build is slower everywhere: host and launch times do not count"),
    ("launch_blocking", "CUDA_LAUNCH_BLOCKING", "every launch waits for the GPU: nothing overlaps"),
    ("anomaly_mode", "autograd anomaly mode", "anomaly mode checks every backward operator and keeps its stack"),
    ("deterministic", "deterministic algorithms", ""),
)
"""Switches of PyTorch that are off in a sound measurement: key, name, what being on does."""


def environment_conditions(environment: Mapping[str, Any]) -> tuple[Condition, ...]:
    """The conditions that `environment.json` states; parts that are missing or malformed are left out."""
    found = [*_software(environment), *_settings(_mapping(environment.get("torch")))]
    variables = _mapping(environment.get("variables"))
    blocking = any(condition.name == "CUDA_LAUNCH_BLOCKING" for condition in found)
    for name, value in sorted(variables.items()):
        if name not in ALLOWED_VARIABLES or (name == "CUDA_LAUNCH_BLOCKING" and blocking):
            continue
        found.append(Condition(name, str(value), _variable_spoils(name, str(value))))
    found += program_conditions(environment.get("program"))
    gpus = environment.get("gpus")
    for gpu in gpus if isinstance(gpus, list) else []:
        found += _gpu(_mapping(gpu))
    return (*found, *_reached(measured_ceilings(environment)))


def measured_ceilings(environment: Mapping[str, Any]) -> Ceilings | None:
    """What the GPU was measured to reach (`collect --ceilings`), None where that is missing or malformed."""
    stated = _mapping(environment.get("ceilings"))
    copied = stated.get("copy_gbs")
    matmul = {str(k): v * TERA for k, v in _mapping(stated.get("matmul_tflops")).items() if is_above_zero(v)}
    return Ceilings(copied * GIGA, matmul) if is_above_zero(copied) else None


def _reached(ceilings: Ceilings | None) -> Iterable[Condition]:
    if ceilings is not None:
        yield Condition("measured copy", f"{ceilings.bandwidth / GIGA:.0f} GB/s")
        for name, rate in ceilings.matmul.items():
            yield Condition(f"measured {name} matrix product", f"{rate / TERA:.0f} TFLOP/s")


def sampled_conditions(samples: Sequence[Mapping[str, Any]]) -> tuple[Condition, ...]:
    """What samples of NVML taken while recording add: share of the samples with lowered clocks, by GPU."""
    by_gpu: dict[int, list[Mapping[str, Any]]] = {}
    for sample in samples:
        if isinstance(sample.get("gpu"), int) and 0 <= sample["gpu"] < MOST_GPUS:
            by_gpu.setdefault(int(sample["gpu"]), []).append(sample)
    return tuple(found for gpu, mine in sorted(by_gpu.items()) for found in _sampled(gpu, mine))


def _sampled(gpu: int, samples: list[Mapping[str, Any]]) -> Iterable[Condition]:
    known = [s["throttle_reasons"] for s in samples if isinstance(s.get("throttle_reasons"), list)]
    slowed = [reasons for reasons in known if reasons]
    clock = [s["sm_clock_mhz"] for s in samples if is_number(s.get("sm_clock_mhz"))]
    if clock:
        yield Condition(f"GPU {gpu} SM clock", f"{min(clock):g} to {max(clock):g} MHz in {len(clock)} samples")
    if slowed:
        reasons = ", ".join(sorted({str(r) for rs in slowed for r in rs}))
        share = len(slowed) / len(known)
        yield Condition(f"GPU {gpu} throttling", f"{reasons} in {share:.0%} of the samples", THROTTLED)


def _software(environment: Mapping[str, Any]) -> Iterable[Condition]:
    torch, cpu = _mapping(environment.get("torch")), _mapping(environment.get("cpu"))
    facts = {
        "command": environment.get("command"),
        "git revision": environment.get("git_revision"),
        "Python": environment.get("python"),
        "PyTorch": torch.get("version"),
        "CUDA": torch.get("cuda"),
        "HIP": torch.get("hip"),
        "cuDNN": torch.get("cudnn"),
        "NCCL": torch.get("nccl"),
        "CPU": cpu.get("model"),
        "usable CPU cores": cpu.get("usable"),
    }
    for name, value in facts.items():
        if isinstance(value, list):
            yield Condition(name, " ".join(map(str, value)))
        elif value is not None:
            yield Condition(name, str(value))


def _settings(torch: Mapping[str, Any]) -> Iterable[Condition]:
    for key, name, spoils in _SETTINGS:
        if torch.get(key) is True:
            yield Condition(name, "on", spoils)
    if "cudnn_benchmark" in torch:
        yield Condition("cudnn.benchmark", "on" if torch["cudnn_benchmark"] is True else "off")
    precision = torch.get("float32_matmul_precision")
    if precision is not None:
        yield Condition("float32 matmul precision", str(precision))


def _variable_spoils(name: str, value: str) -> str:
    if value in ("", "0"):
        return ""
    if name == "CUDA_LAUNCH_BLOCKING":
        return "every launch waits for the GPU: nothing overlaps"
    if name == "PYTORCH_NO_CUDA_MEMORY_CACHING":
        return "every allocation goes to the driver, which waits for the GPU"
    return ""


def _gpu(gpu: Mapping[str, Any]) -> Iterable[Condition]:
    label = f"GPU {gpu.get('index', '?')}"
    about = [gpu.get("name"), gpu.get("driver") and f"driver {gpu['driver']}"]
    clock, highest = gpu.get("sm_clock_mhz"), gpu.get("sm_clock_max_mhz")
    if clock is not None:
        about.append(f"SM clock {clock} of {highest} MHz" if highest else f"SM clock {clock} MHz")
    known = ", ".join(str(part) for part in about if part)
    if known:
        yield Condition(label, known)
    reasons = gpu.get("throttle_reasons")
    if isinstance(reasons, list) and reasons:
        yield Condition(f"{label} throttling", ", ".join(map(str, reasons)), THROTTLED)
    processes = gpu.get("processes")
    if isinstance(processes, int) and processes > 1:
        yield Condition(f"{label} processes", str(processes), CROWDED)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
