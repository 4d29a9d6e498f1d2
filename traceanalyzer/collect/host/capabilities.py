"""What is installed here and what can be recorded with it."""

import importlib.util
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import NamedTuple

from traceanalyzer.base.extras import how_to_install
from traceanalyzer.collect.host import nvml

GIB = 1 << 30
VERSION = re.compile(r"\d{4}(?:\.[\w-]+)+")  # of NVIDIA's profilers: 2025.3.1.90-253135822126v0


EXTRAS = (
    ("parquet", "pyarrow", "Parquet export, digests of ranks and logs of operations"),
    ("fleet", "duckdb", "`analyze DIR`, `compare` of jobs of many ranks"),
    ("mcp", "mcp", "`mcp`: answers to agents"),
)
"""Extras that reading needs: name, a package of it, and what for."""


class Check(NamedTuple):
    """One line of `doctor`."""

    name: str
    ok: bool
    finding: str  # what was found, or what is missing and how to get it


def checks() -> Iterator[Check]:
    """Each thing that recording needs, in the order in which it is needed, then what reading some
    kinds needs."""
    yield Check("python", True, platform.python_version())
    for name, check in _ordered():
        try:
            yield check()
        except Exception as error:
            yield Check(name, False, f"{type(error).__name__}: {error}")
    for extra, package, use in EXTRAS:
        yield _extra(extra, package, use)


def _ordered() -> tuple[tuple[str, Callable[[], Check]], ...]:
    with_torch = (("cuda", _cuda), ("device activities", _device_activities))
    return (
        ("torch", _torch),
        *(with_torch if importlib.util.find_spec("torch") else ()),
        ("nvml", _nvml),
        ("nsys", lambda: _program("nsys", "only `collect nsys` and reading .nsys-rep need it")),
        ("ncu", lambda: _program("ncu", "only `collect ncu` and reading .ncu-rep need it")),
        (
            "rocprofv3",
            lambda: _program("rocprofv3", "only `collect rocprofv3` (AMD GPUs) needs it"),
        ),
    )


def _torch() -> Check:
    if importlib.util.find_spec("torch") is None:
        return Check(
            "torch",
            False,
            "not installed: `collect torch`, `collect timing` and `try` need it in this environment",
        )
    import torch

    built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    return Check("torch", True, f"{torch.__version__} ({built})")


def _cuda() -> Check:
    import torch

    if not torch.cuda.is_available():
        return Check(
            "cuda", False, "no GPU that torch can use: steps are timed and recorded on the CPU only"
        )
    return Check(
        "cuda",
        True,
        ", ".join([torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]),
    )


def _device_activities() -> Check:
    name = "device activities"
    from torch.profiler import ProfilerActivity, supported_activities

    if ProfilerActivity.CUDA not in supported_activities():
        return Check(
            name, False, "this torch cannot record kernels (no CUPTI); host operators only"
        )
    return Check(name, True, "kernels, copies and API calls can be recorded (CUPTI)")


def _extra(extra: str, package: str, use: str) -> Check:
    name = f"extra {extra}"
    if importlib.util.find_spec(package) is None:
        return Check(name, False, f"{use} need it: {how_to_install(extra)}")
    return Check(name, True, use)


def _program(name: str, need: str) -> Check:
    found = shutil.which(name)
    if found is None:
        return Check(name, False, f"not on PATH: {need}")
    answer = subprocess.run(  # noqa: S603
        [found, "--version"], capture_output=True, text=True, timeout=30, check=False
    )
    version = VERSION.search(answer.stdout)
    return Check(name, answer.returncode == 0, version[0] if version else "does not answer")


def _nvml() -> Check:
    gpus = nvml.describe_gpus()
    if gpus is None:
        return Check(
            "nvml", False, "no pynvml or no driver: clocks, power and throttling are not recorded"
        )
    return Check("nvml", bool(gpus), "; ".join(map(_gpu, gpus)) or "no GPU")


def _gpu(gpu: dict[str, object]) -> str:
    memory = gpu["memory_bytes"]
    size = f"{memory / GIB:.0f} GiB" if isinstance(memory, int) else "memory unknown"
    reasons = gpu["throttle_reasons"]
    slowed = (
        f", slowed by {', '.join(map(str, reasons))}"
        if isinstance(reasons, list) and reasons
        else ""
    )
    return f"{gpu['name']}, {size}, driver {gpu['driver']}{slowed}"
