"""Prints the kernels of an `.ncu-rep` as JSON lines by NVIDIA's Python module `ncu_report`, in a
process of its own: it is native code that reads a file of strangers.

    python -m traceanalyzer.ingest.ncu.report report.ncu-rep

A line is a kernel: its name, `grid` and `block` as text, and its metrics as [name, unit, value].
The module is NVIDIA's (https://docs.nvidia.com/nsight-compute/PythonReportInterface)."""

import json
import sys
from collections.abc import Iterator
from typing import Any

DIMENSIONS = {"grid": "launch__grid_dim_{}", "block": "launch__block_dim_{}"}


def kernels(path: str) -> Iterator[dict[str, Any]]:
    """The kernels of a report, in their order."""
    import ncu_report

    report = ncu_report.load_report(path)
    for number in range(report.num_ranges()):
        of_range = report.range_by_idx(number)
        for place in range(of_range.num_actions()):
            yield _kernel(of_range.action_by_idx(place))


def _kernel(action: Any) -> dict[str, Any]:
    values = {}
    for name in action.metric_names():
        metric = action.metric_by_name(name)
        values[name] = (metric.unit() or "", metric.value())
    sizes = {
        what: [values.get(pattern.format(axis), ("", None))[1] for axis in "xyz"]
        for what, pattern in DIMENSIONS.items()
    }
    metrics = [
        [name, unit, value]
        for name, (unit, value) in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    shown = {what: f"({', '.join(map(str, size))})" for what, size in sizes.items()}
    return {"name": action.name(), **shown, "metrics": metrics}


if __name__ == "__main__":
    for kernel in kernels(sys.argv[1]):
        print(json.dumps(kernel))
