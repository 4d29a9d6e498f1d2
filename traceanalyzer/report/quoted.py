"""The six figures that practitioners quote of a step, each on a line: what a reader looks for who knows no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.report.format import NOT_AVAILABLE, figure
from traceanalyzer.report.outline import Fact

if TYPE_CHECKING:
    from traceanalyzer.analysis.tables.throughput import Throughput, Utilisation
    from traceanalyzer.report.model import Report

TITLE = "Key figures"
SAY_AMOUNTS = "--samples N and --tokens N of a step give samples/s and tokens/s"
SAY_FLOPS = "operations or the GPU's peak are not known: record shapes, or --flops N"


def quoted(report: Report) -> list[Fact]:
    """Throughput, MFU, speed of light, GPU utilisation, bandwidth, kernels; empty where not even steps are known."""
    work, used, kernels = report.metrics.throughput, report.metrics.utilisation, report.metrics.kernels_per_step
    if work is None and used is None:
        return []
    return [
        Fact("throughput", _throughput(work), "work per second of the summary's step; `metrics.throughput` in JSON"),
        Fact("MFU", _mfu(used), "model FLOP/s utilisation, of what this step could reach at the roofline"),
        Fact("speed of light", _light(used), "time of the step's computation at the roofline over the step time"),
        Fact("GPU utilisation", _busy(used), "share of the step with any work on the GPU, from the timeline"),
        Fact("memory bandwidth", _bandwidth(used), "least traffic with the GPU's memory over the step time"),
        Fact("kernels per step", figure(kernels), "kernels launched by a step"),
    ]


def brief(report: Report) -> str:
    """What of it is known, on one line; empty where nothing is."""
    work, used = report.metrics.throughput, report.metrics.utilisation
    parts = [_rates(work)] if work is not None else []
    if used is not None:
        most = f" of {figure(used.attainable_mfu, 'share')} reachable" if used.attainable_mfu else ""
        parts += [f"MFU {figure(used.mfu, 'share')}{most}"] if used.mfu else []
        parts += [f"{_light(used)} of speed of light"] if not used.mfu and used.sol is not None else []
        parts += [f"GPU busy {_busy(used)}"] if used.gpu_busy_share is not None else []
    return " · ".join(part for part in parts if part)


def _rates(work: Throughput) -> str:
    rates = ((work.samples_per_s, "samples/s"), (work.tokens_per_s, "tokens/s"), (work.steps_per_s, "steps/s"))
    return ", ".join(f"{figure(rate)} {name}" for rate, name in rates if rate is not None)


def _throughput(work: Throughput | None) -> str:
    if work is None:
        return NOT_AVAILABLE
    each = f" ({figure(work.ms_per_sample, 'ms')} a sample)" if work.ms_per_sample is not None else ""
    known = work.samples_per_s is not None or work.tokens_per_s is not None
    return (_rates(work) or NOT_AVAILABLE) + each + ("" if known else f" ({SAY_AMOUNTS})")


def _mfu(used: Utilisation | None) -> str:
    if used is None or used.mfu is None:
        return f"{NOT_AVAILABLE} ({SAY_FLOPS})"
    if not used.mfu:
        return "0% (no matmuls ran)"
    most = f" of {figure(used.attainable_mfu, 'share')} that this step could reach" if used.attainable_mfu else ""
    return figure(used.mfu, "share") + most


def _light(used: Utilisation | None) -> str:
    if used is None or used.sol is None:
        return f"{NOT_AVAILABLE} (too few operators have a model, or the GPU is not known)"
    return f"{figure(used.sol, 'share')} (room for {figure(used.room, 'x')})"


def _busy(used: Utilisation | None) -> str:
    return figure(None if used is None else used.gpu_busy_share, "share")


def _bandwidth(used: Utilisation | None) -> str:
    if used is None or used.least_bandwidth_gbs is None:
        return f"{NOT_AVAILABLE} (no operators with a model)"
    peak = f" ({figure(used.bandwidth_share, 'share')} of peak)" if used.bandwidth_share is not None else ""
    return f"at least {figure(used.least_bandwidth_gbs, 'GB/s')}{peak}"
