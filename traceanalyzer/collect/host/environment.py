"""`environment.json`: where and under which conditions a capture was made.

Of the environment variables only those of `ALLOWED_VARIABLES` are kept, and of the command only the
program's name: the rest may hold secrets."""

import gc
import os
import platform
import subprocess
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from traceanalyzer.collect.host import nvml, program
from traceanalyzer.collect.host.files import write_json
from traceanalyzer.collect.host.ranks import current_rank
from traceanalyzer.collect.plan import CapturePlan
from traceanalyzer.trace.circumstances import ALLOWED_VARIABLES

FILE = "environment.json"
PACKAGES = (
    "torch",
    "jax",
    "triton",
    "transformers",
    "lightning",
    "deepspeed",
    "vllm",
    "flash-attn",
    "numpy",
)


def describe_environment(plan: CapturePlan) -> dict[str, Any]:
    """Everything that can be told in this process; what PyTorch knows only where the script has
    imported it."""
    # looked through once: programs have millions
    objects = gc.get_objects() if "torch" in sys.modules else []
    model = _processor()
    versions = {}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return {
        "schema_version": 1,
        "command": plan.command,
        "git_revision": plan.git_revision,
        "python": platform.python_version(),
        "system": platform.system(),
        "cpu": {"model": model, "count": os.cpu_count(), "usable": len(os.sched_getaffinity(0))},
        "packages": versions,
        "torch": _torch() if "torch" in sys.modules else None,
        "program": program.describe_program(objects),
        "loader": program.describe_loader(objects),
        "gpus": nvml.describe_gpus(),
        "ceilings": plan.ceilings,
        "variables": {name: os.environ[name] for name in ALLOWED_VARIABLES if name in os.environ},
    }


def _processor() -> str | None:
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or None


def write_environment(plan: CapturePlan) -> None:
    """Write `environment.json`, once a capture: the process of rank 0 does."""
    path = plan.path / FILE
    if current_rank() == 0 and not path.exists():
        write_json(path, describe_environment(plan))


def git_revision(folder: Path) -> str | None:
    """The commit that is checked out, with `-dirty` where tracked files differ; None outside a
    repository."""
    command = [
        "git",
        "-C",
        str(folder),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=40",
        "--exclude=*",
    ]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None


def _torch() -> dict[str, Any]:
    import torch

    cuda = torch.cuda.is_available()
    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "cudnn": torch.backends.cudnn.version() if cuda else None,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if cuda else None,
        "devices": torch.cuda.device_count() if cuda else 0,
        "threads": torch.get_num_threads(),
        "debug_build": bool(torch.version.debug),
        "anomaly_mode": torch.is_anomaly_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "launch_blocking": os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"),
    }
