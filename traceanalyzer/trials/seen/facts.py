"""What the program is made of, as JSON: for the table of switches to ask."""

import os
import sys
from typing import Any

from traceanalyzer.collect.eager import has_compiled
from traceanalyzer.collect.host import cuda
from traceanalyzer.collect.host.ranks import several_ranks
from traceanalyzer.trials.seen.probe import Probe

COUNTED = ("empty_cache", "checkpoint", "get_worker_info")
WRAPPERS = ("DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule")


def facts_of_process(probe: Probe, steps: int, loading: dict[str, float]) -> dict[str, Any]:
    """Facts of this process; keys as the fields of `Facts`."""
    import torch

    return {
        "gpu": cuda.in_use(),
        "ranks": _ranks(),
        "cpus": len(os.sched_getaffinity(0)),
        "loaders": probe.loaders,
        "optimizers": probe.optimizers,
        "models": [_model(one) for one in probe.models.values()],
        "places": {name: place for name, place in probe.places.items() if place},
        "libraries": {name: library for name, library in probe.libraries.items() if library},
        "settings": {
            "float32_matmul_precision": torch.get_float32_matmul_precision(),
            "cudnn_allow_tf32": torch.backends.cudnn.allow_tf32,
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "autocast": probe.autocast,
            "grad": probe.grad,
            "anomaly_detection": probe.anomaly,
        },
        "calls": {name: probe.counts[name] for name in COUNTED},
        "backwards_per_step": probe.counts["backward"] / steps if steps else 0.0,
        "loading": loading,
        "compiled": has_compiled(),
        "draws": probe.draws,
    }


def _ranks() -> int:
    if not several_ranks():
        return 1
    distributed = sys.modules.get("torch.distributed")
    return int(distributed.get_world_size()) if distributed is not None else 1


def _model(module: Any) -> dict[str, Any]:
    import torch

    parameters = list(torch.nn.Module.parameters(module))
    modules = list(torch.nn.Module.modules(module))
    convolutions = [one for one in modules if isinstance(one, torch.nn.Conv2d)]
    names = [kind.__name__ for one in modules for kind in type(one).__mro__]
    last = torch.channels_last
    return {
        "name": type(module).__name__,
        "dtype": str(parameters[0].dtype).removeprefix("torch.") if parameters else None,
        "parameters": sum(one.numel() for one in parameters),
        "convolutions": len(convolutions),
        "channels_last": any(
            one.weight.is_contiguous(memory_format=last) and not one.weight.is_contiguous()
            for one in convolutions
        ),
        "wrapper": next((name for name in WRAPPERS if name in names), ""),
    }
