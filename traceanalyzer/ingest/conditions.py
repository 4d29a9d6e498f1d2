"""Under which conditions a capture was recorded, and which of them spoil its figures: what lies beside it of the
program (model, optimizers, loaders) and of its host (samples of GPUs and CPUs).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from typing import Any

from traceanalyzer.base.limits import limits
from traceanalyzer.ingest.side_files import LARGEST, is_above_zero, is_number, items, mapping, mappings
from traceanalyzer.trace import Ceilings, Condition, Load, StepAmounts
from traceanalyzer.trace.circumstances import ALLOWED_VARIABLES

SHOWN = 4
"""Number formats, optimizers and loaders that are named."""


def program_conditions(program: object) -> Iterator[Condition]:
    """The conditions; what is missing or malformed is left out."""
    if not isinstance(program, dict):
        return
    if isinstance(model := program.get("model"), dict):
        yield from _model(model)
    names = _texts(program.get("optimizers"))
    if names:
        yield Condition("optimizer", ", ".join(names))
    found = mappings(items(program.get("loaders"))[:SHOWN])
    for i, loader in enumerate(found):
        yield from _loader(loader, "loader" if len(found) == 1 else f"loader {i}")


def _model(model: Mapping[str, Any]) -> Iterator[Condition]:
    if isinstance(name := model.get("name"), str):
        yield Condition("model", name[: limits().text])
    if is_number(count := model.get("parameters")) and count > 0:
        yield Condition("parameters", f"{count:,.0f}")
    if dtypes := _texts(model.get("dtypes")):
        yield Condition("type of the parameters", ", ".join(dtypes))
    if isinstance(training := model.get("training"), bool):
        yield Condition("mode of the model", "train" if training else "eval")


def _loader(loader: Mapping[str, Any], label: str) -> Iterator[Condition]:
    for key, name in (
        ("batch_size", "batch size"),
        ("num_workers", "num_workers"),
        ("prefetch_factor", "prefetch_factor"),
    ):
        if is_number(value := loader.get(key)) and value >= 0:
            yield Condition(f"{label} {name}", f"{value:g}")
    for name in ("pin_memory", "persistent_workers"):
        if isinstance(value := loader.get(name), bool):
            yield Condition(f"{label} {name}", "on" if value else "off")


def _texts(value: object) -> list[str]:
    return [one[: limits().text] for one in items(value)[:SHOWN] if isinstance(one, str) and one]


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
_SPOILS = {
    "CUDA_LAUNCH_BLOCKING": "every launch waits for the GPU: nothing overlaps",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "every allocation goes to the driver, which waits for the GPU",
}
"""The same of environment variables."""


def environment_conditions(environment: Mapping[str, Any]) -> tuple[Condition, ...]:
    """The conditions that `environment.json` states; parts that are missing or malformed are left out."""
    found = [*_software(environment), *_settings(mapping(environment.get("torch")))]
    blocking = any(condition.name == "CUDA_LAUNCH_BLOCKING" for condition in found)
    for name, value in sorted(mapping(environment.get("variables")).items()):
        if name not in ALLOWED_VARIABLES or (name == "CUDA_LAUNCH_BLOCKING" and blocking):
            continue
        found.append(Condition(name, str(value), "" if str(value) in ("", "0") else _SPOILS.get(name, "")))
    found += program_conditions(environment.get("program"))
    for gpu in mappings(environment.get("gpus")):
        found += _gpu(gpu)
    return (*found, *_reached(measured_ceilings(environment)))


def measured_ceilings(environment: Mapping[str, Any]) -> Ceilings | None:
    """What the GPU was measured to reach (`collect --ceilings`), None where that is missing or malformed."""
    stated = mapping(environment.get("ceilings"))
    copied = stated.get("copy_gbs")
    matmul = {str(k): v * TERA for k, v in mapping(stated.get("matmul_tflops")).items() if is_above_zero(v)}
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
        reasons = ", ".join(sorted(set(map(str, chain.from_iterable(slowed)))))
        share = len(slowed) / len(known)
        yield Condition(f"GPU {gpu} throttling", f"{reasons} in {share:.0%} of the samples", THROTTLED)


def _software(environment: Mapping[str, Any]) -> Iterable[Condition]:
    torch, cpu = mapping(environment.get("torch")), mapping(environment.get("cpu"))
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


def _gpu(gpu: Mapping[str, Any]) -> Iterable[Condition]:
    label = f"GPU {gpu.get('index', '?')}"
    about = [gpu.get("name"), gpu.get("driver") and f"driver {gpu['driver']}"]
    clock, highest = gpu.get("sm_clock_mhz"), gpu.get("sm_clock_max_mhz")
    if clock is not None:
        about.append(f"SM clock {clock} of {highest} MHz" if highest else f"SM clock {clock} MHz")
    known = ", ".join(map(str, filter(None, about)))
    if known:
        yield Condition(label, known)
    reasons = gpu.get("throttle_reasons")
    if isinstance(reasons, list) and reasons:
        yield Condition(f"{label} throttling", ", ".join(map(str, reasons)), THROTTLED)
    processes = gpu.get("processes")
    if isinstance(processes, int) and processes > 1:
        yield Condition(f"{label} processes", str(processes), CROWDED)


_OF_GPUS = (
    ("gpu_utilization", "time with a kernel", "%", 1.0),
    ("memory_utilization", "time with memory traffic", "%", 1.0),
    ("memory_used_bytes", "memory used, by all processes", "GB", 1e-9),
    ("power_w", "power", "W", 1.0),
    ("sm_clock_mhz", "SM clock", "MHz", 1.0),
)
_OF_CPUS = (
    ("host_cpu_share", "host: CPUs busy", "%", 100.0),
    ("host_iowait_share", "host: CPUs idle while a disk is waited for", "%", 100.0),
    ("program_cores", "host: CPUs used by the program and its workers", "cores", 1.0),
)
"""Key of a sample, what it is, its unit, and the factor to that."""


def loads_of(samples: Sequence[Mapping[str, Any]]) -> tuple[Load, ...]:
    """A row for each figure of each GPU, and of the CPUs; figures that are missing or malformed are left out."""
    gpus = sorted({g for s in samples if isinstance(g := s.get("gpu"), int) and 0 <= g < MOST_GPUS})
    rows = [
        _load([s for s in samples if s.get("gpu") == gpu], key, f"GPU {int(gpu)}: {what}", unit, factor)
        for gpu in gpus
        for key, what, unit, factor in _OF_GPUS
    ]
    rows += [_load(samples, key, what, unit, factor) for key, what, unit, factor in _OF_CPUS]
    return tuple(filter(None, rows))


def _load(samples: Sequence[Mapping[str, Any]], key: str, what: str, unit: str, factor: float) -> Load | None:
    values = [value * factor for s in samples if is_number(value := s.get(key)) and value >= 0]
    if not values:
        return None
    return Load(what, unit, sum(values) / len(values), min(values), max(values), len(values))


LARGEST_FLOPS = 1e24
"""No step of one process needs more operations: a GPU takes years for it."""


def stated_amounts(environment: Mapping[str, Any]) -> StepAmounts:
    """`{"step": {"samples": 64, "tokens": 131072, "flops": 4.2e15}}`; what is missing or malformed stays None."""
    values = mapping(environment.get("step"))
    return StepAmounts(**{f.name: _amount(f.name, values.get(f.name)) for f in fields(StepAmounts)})


def _amount(name: str, value: object) -> float | None:
    if name == "flops":
        return float(value) if is_number(value, LARGEST_FLOPS) and value > 0 else None
    return float(value) if is_above_zero(value) else None


def batch_size(environment: Mapping[str, Any]) -> int | None:
    """`{"loader": {"batch_size": 64}}`: samples of a batch of the one loader that the collector saw."""
    size = mapping(environment.get("loader")).get("batch_size")
    return size if isinstance(size, int) and not isinstance(size, bool) and 0 < size <= LARGEST else None
