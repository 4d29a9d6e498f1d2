"""Samples of GPU counters in an nsys export (`nsys profile --gpu-metrics-devices`)."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.ingest.nsys.about import Gpus
from traceanalyzer.ingest.nsys.events import Strings
from traceanalyzer.ingest.sqlite.database import MISSING, Database, together
from traceanalyzer.ingest.sqlite.pages import Part
from traceanalyzer.trace import I64, GpuMetrics
from traceanalyzer.trace.distinct import distinct

_WANTED = re.compile(
    r"SMs? Active|SM Issue|Tensor Active|Compute Warps in Flight \[Throughput|DRAM|NVLink|PCIe", re.IGNORECASE
)
"""Counters that say whether a GPU computes, how full it is, and whether it waits for memory or for a link. The numbers
differ by GPU and version, so they are chosen by name; the dozens of others are not read."""

_GPU_BITS = 0xFF
"""The low byte of a metric's type is the GPU's id."""


def gpu_metrics(database: Database, strings: Strings) -> GpuMetrics:
    """All samples of the wanted counters; `device` is the host's id of the GPU."""
    columns: dict[str, int | bytes | None] = {"typeId": -1, "metricId": -1, "metricName": None}
    wanted = {
        (kind, number): strings.code(str(name))
        for kind, number, name in database.rows("TARGET_INFO_GPU_METRICS", columns)
        if name and _WANTED.search(str(name))
    }
    if not wanted:
        return GpuMetrics.empty()

    def chosen(part: Part) -> dict[str, NDArray[Any]]:
        rows = part.integers
        name = np.full(len(rows["timestamp"]), -1, np.int32)
        for (kind, number), code in wanted.items():
            name[(rows["typeId"] == kind) & (rows["metricId"] == number)] = code
        taken = (name >= 0) & (rows["timestamp"] != MISSING)
        columns: dict[str, NDArray[Any]] = {
            "name": name,
            "start": rows["timestamp"],
            "device": rows["typeId"] & _GPU_BITS,
            "value": rows["value"],
        }
        return GpuMetrics.fitting({column: values[taken] for column, values in columns.items()})

    read = {"timestamp": MISSING, "typeId": -1, "metricId": -1, "value": 0}
    return GpuMetrics.from_columns(
        together(database.each("GPU_METRICS", read, chosen), ("name", "start", "device", "value"))
    )


def of_process(samples: GpuMetrics, pid: int, devices: I64, known: Gpus) -> GpuMetrics:
    """The samples of the devices that a process worked on, under its own ordinals."""
    if not len(samples):
        return samples
    gpus = distinct(samples.device)
    ordinals = np.array([known.ordinal(pid, int(gpu)) for gpu in gpus], np.int32)
    device = ordinals[np.searchsorted(gpus, samples.device)]
    mine = np.isin(device, devices)
    return GpuMetrics.from_columns(
        {"name": samples.name[mine], "start": samples.start[mine], "device": device[mine], "value": samples.value[mine]}
    )
