"""Figures of the step that a report speaks of, by their names in its metrics: the recorded ones have
`RECORDED` before theirs."""

from traceanalyzer.report.model import Report

RECORDED = "recorded."


def spoken_figures(report: Report) -> dict[str, float]:
    """Step time, its parts, idle and busy share and MFU of the step without the profiler, where the
    report speaks of that; ms, or shares. Empty where it speaks of the recorded one."""
    unprofiled = report.metrics.unprofiled
    if report.summary.basis != "unprofiled" or unprofiled is None:
        return {}
    found = {f"step_time_ms.{name}": unprofiled.step_time_ms for name in ("mean", "median")}
    for part in ("budget_ms", "idle_ms"):
        found |= {f"{part}.{name}": ms for name, ms in vars(getattr(unprofiled, part)).items()}
    if unprofiled.step_time_ms:
        idle = unprofiled.budget_ms.idle / unprofiled.step_time_ms
        found |= {"gpu_idle_share": idle, "gpu_busy_share": 1.0 - idle}
    use = report.metrics.utilisation
    if use is not None and use.mfu is not None:
        found["roofline.mfu"] = use.mfu
    return found
