"""The torch.profilers that are made: with operators, or of the device and what launches its work alone."""

import warnings
from collections.abc import Callable
from typing import Any

from traceanalyzer.collect.plan import LIGHT_WARMUP, Plan

OF_SCHEDULES = "Profiler won't be using warmup|Warning: Profiler clears events"  # remarks on how it is used here


def full_profiler(plan: Plan, write: Callable[[Any], None]) -> Any:
    """A torch.profiler that calls `write` when it has been stopped."""
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    warnings.filterwarnings("ignore", message=OF_SCHEDULES)
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    return profile(
        activities=activities,
        schedule=schedule(wait=0, warmup=plan.warmup, active=plan.active, repeat=1),
        on_trace_ready=write,
        record_shapes=plan.shapes,
        with_stack=plan.stacks,
        profile_memory=plan.memory,
        experimental_config=_experimental_config(),
    )


def _experimental_config() -> Any:
    """Switch on what the analysis uses and this PyTorch has: CUDA sync events (2.1), no Python event tree (2.11)."""
    from torch._C._profiler import _ExperimentalConfig

    for wanted in ({"enable_cuda_sync_events": True, "trace_only": True}, {"enable_cuda_sync_events": True}):
        try:
            return _ExperimentalConfig(**wanted)
        except TypeError:
            continue
    return None


def light_profiler(plan: Plan, write: Callable[[Any], None]) -> Any:
    """One that records the device and the calls that launch its work, no operators: half as hard on the host."""
    from torch.profiler import ProfilerActivity, profile, schedule

    warnings.filterwarnings("ignore", message=OF_SCHEDULES)
    return profile(
        activities=[ProfilerActivity.CUDA],
        schedule=schedule(wait=0, warmup=LIGHT_WARMUP, active=plan.light_steps, repeat=1),
        on_trace_ready=write,
    )
