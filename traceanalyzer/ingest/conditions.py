"""Under which conditions a capture was recorded, and which of them spoil its figures: what lies
beside it of the program (model, optimizers, loaders) and of its host (samples of GPUs and CPUs)."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import chain, takewhile
from pathlib import Path
from typing import Any

from traceanalyzer.base.limits import limits
from traceanalyzer.ingest.side_files import (
    LARGEST,
    is_above_zero,
    is_number,
    items,
    mapping,
    mappings,
)
from traceanalyzer.trace import Ceilings, Condition, Load, StepAmounts
from traceanalyzer.trace.circumstances import ALLOWED_VARIABLES

SHOWN = 4  # number formats, optimizers and loaders that are named
_TABLE: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("conditions.toml").read_text(encoding="utf-8")
)
THROTTLED = "the GPU ran below its full clocks, so kernels took longer"
MOST_GPUS = 1024  # of one host
TERA = 1e12
GIGA = 1e9
FIRST_CUDNN = 1_000  # version 1.0.0
FIRST_CUDNN_9 = 90_000
CUDNN_NUMBERS = 1_000_000  # no version has this number or a higher one
LARGEST_FLOPS = 1e24  # no step of one process needs more operations: a GPU takes years for it


def _any(value: object) -> str | None:
    if value is None:
        return None
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _texts(value: object) -> str | None:
    texts = [one for one in items(value)[:SHOWN] if isinstance(one, str) and one]
    return ", ".join(text[: limits().text] for text in texts) or None


def _written(form: str, value: Any) -> str | None:
    """The text of a value in this form; None where it is missing or malformed."""
    match form:
        case "on" if value is True:
            return "on"
        case "switch" if isinstance(value, bool):
            return "on" if value else "off"
        case "mode" if isinstance(value, bool):
            return "train" if value else "eval"
        case "text" if isinstance(value, str):
            return value[: limits().text]
        case "texts":
            return _texts(value)
        case "count" if is_number(value) and value > 0:
            return f"{value:,.0f}"
        case "number" if is_number(value) and value >= 0:
            return f"{value:g}"
        case "cudnn" if is_number(value) and FIRST_CUDNN <= value < CUDNN_NUMBERS:
            return _cudnn(int(value))
        case "any" | "cudnn":
            return _any(value)
    return None


def _cudnn(number: int) -> str:
    """cuDNN's version from its number: 91900 is 9.19.0, and 8902, of a version before 9, 8.9.2.
    Source: `CUDNN_VERSION` of cudnn_version.h."""
    factor = 10_000 if number >= FIRST_CUDNN_9 else 1_000
    return f"{number // factor}.{number % factor // 100}.{number % 100}"


def _facts(table: str, values: Mapping[str, Any], label: str = "") -> Iterator[Condition]:
    for part, key, name, form, *spoils in _TABLE[table]:
        found = mapping(values.get(part)) if part else values
        text = _written(form, found.get(key))
        if text is not None:
            yield Condition(label + name, text, *spoils)


def program_conditions(program: object) -> Iterator[Condition]:
    """The conditions; what is missing or malformed is left out."""
    values = mapping(program)
    yield from _facts("program", values)
    found = mappings(items(values.get("loaders"))[:SHOWN])
    for i, loader in enumerate(found):
        yield from _facts("loader", loader, "loader " if len(found) == 1 else f"loader {i} ")


def environment_conditions(environment: Mapping[str, Any]) -> tuple[Condition, ...]:
    """The conditions that `environment.json` states; parts that are missing or malformed are left
    out."""
    conditions = [*_facts("software", environment)]
    blocking = any(condition.name == "CUDA_LAUNCH_BLOCKING" for condition in conditions)
    for name, value in sorted(mapping(environment.get("variables")).items()):
        if name not in ALLOWED_VARIABLES or (name == "CUDA_LAUNCH_BLOCKING" and blocking):
            continue
        conditions.append(
            Condition(
                name,
                str(value),
                "" if str(value) in ("", "0") else _TABLE["variables"].get(name, ""),
            )
        )
    conditions += program_conditions(environment.get("program"))
    conditions += chain.from_iterable(map(_gpu, _seen_gpus(environment)))
    ceilings = measured_ceilings(environment)
    if ceilings is not None:
        conditions.append(Condition("measured copy", f"{ceilings.bandwidth / GIGA:.0f} GB/s"))
        rates = ceilings.matmul.items()
        conditions += [
            Condition(f"measured {name} matrix product", f"{rate / TERA:.0f} TFLOP/s")
            for name, rate in rates
        ]
    return tuple(conditions)


def _seen_gpus(environment: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The GPUs of the host that the program could see: all, where `CUDA_VISIBLE_DEVICES` is not set
    or does not number each of them. What stands after a negative number is not seen."""
    gpus = mappings(environment.get("gpus"))
    visible = str(mapping(environment.get("variables")).get("CUDA_VISIBLE_DEVICES", ""))
    named = [name.strip() for name in visible.split(",")]
    numbers = [*takewhile(lambda name: not name.startswith("-"), named)]
    if not all(map(str.isdecimal, numbers)):
        return gpus
    return [gpu for gpu in gpus if str(gpu.get("index")) in numbers] or gpus


def measured_ceilings(environment: Mapping[str, Any]) -> Ceilings | None:
    """What the GPU was measured to reach (`collect --ceilings`), None where that is missing or
    malformed."""
    stated = mapping(environment.get("ceilings"))
    copied = stated.get("copy_gbs")
    matmul = {
        str(k): v * TERA
        for k, v in mapping(stated.get("matmul_tflops")).items()
        if is_above_zero(v)
    }
    return Ceilings(copied * GIGA, matmul) if is_above_zero(copied) else None


def sampled_conditions(samples: Sequence[Mapping[str, Any]]) -> tuple[Condition, ...]:
    """What samples of NVML taken while recording add: share of the samples with lowered clocks, by
    GPU."""
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
        yield Condition(
            f"GPU {gpu} SM clock", f"{min(clock):g} to {max(clock):g} MHz in {len(clock)} samples"
        )
    if slowed:
        reasons = ", ".join(sorted(set(map(str, chain.from_iterable(slowed)))))
        share = len(slowed) / len(known)
        yield Condition(
            f"GPU {gpu} throttling", f"{reasons} in {share:.0%} of the samples", THROTTLED
        )


def _gpu(gpu: Mapping[str, Any]) -> Iterable[Condition]:
    label = f"GPU {gpu.get('index', '?')}"
    about = [gpu.get("name"), gpu.get("driver") and f"driver {gpu['driver']}"]
    clock = gpu.get("sm_clock_mhz")
    highest = gpu.get("sm_clock_max_mhz")
    if clock is not None:
        about.append(f"SM clock {clock} of {highest} MHz" if highest else f"SM clock {clock} MHz")
    known = ", ".join(map(str, filter(None, about)))
    if known:
        yield Condition(label, known)
    reasons = items(gpu.get("throttle_reasons"))
    if reasons:
        yield Condition(f"{label} throttling", ", ".join(map(str, reasons)), THROTTLED)
    processes = gpu.get("processes")
    if isinstance(processes, int) and processes > 1:
        # That others had the GPU open does not say that any of them worked on it meanwhile.
        yield Condition(f"{label} processes", f"{processes - 1} besides this program's")


def sampled_loads(samples: Sequence[Mapping[str, Any]]) -> tuple[Load, ...]:
    """A row for each figure of each GPU, and of the CPUs; figures that are missing or malformed are
    left out."""
    named = {s.get("gpu") for s in samples if isinstance(s.get("gpu"), int)}
    gpus = sorted(gpu for gpu in named if gpu is not None and 0 <= gpu < MOST_GPUS)
    rows = [
        _load(
            [s for s in samples if s.get("gpu") == gpu],
            key,
            f"GPU {int(gpu)}: {what}",
            unit,
            factor,
        )
        for gpu in gpus
        for key, what, unit, factor in _TABLE["gpus"]
    ]
    rows += [_load(samples, key, what, unit, factor) for key, what, unit, factor in _TABLE["cpus"]]
    return tuple(filter(None, rows))


def _load(
    samples: Sequence[Mapping[str, Any]], key: str, what: str, unit: str, factor: float
) -> Load | None:
    figures = [figure for figure in (s.get(key) for s in samples) if is_number(figure)]
    values = [figure * factor for figure in figures if figure >= 0]
    if not values:
        return None
    mean = sum(values) / len(values)
    return Load(what, unit, mean, min(values), max(values), len(values))


def stated_amounts(environment: Mapping[str, Any]) -> StepAmounts:
    """`{"step": {"samples": 64, "tokens": 131072, "flops": 4.2e15}}`; what is missing or malformed
    stays None."""
    values = mapping(environment.get("step"))
    stated = {f.name: values.get(f.name) for f in fields(StepAmounts)}
    known = {name: float(value) for name, value in stated.items() if is_above_zero(value)}
    flops = values.get("flops")
    if is_number(flops, LARGEST_FLOPS) and flops > 0:
        known["flops"] = float(flops)
    return StepAmounts(**known)


def stated_batch_size(environment: Mapping[str, Any]) -> int | None:
    """`{"loader": {"batch_size": 64}}`: samples of a batch of the one loader that the collector
    saw."""
    size = mapping(environment.get("loader")).get("batch_size")
    return (
        size
        if isinstance(size, int) and not isinstance(size, bool) and 0 < size <= LARGEST
        else None
    )
