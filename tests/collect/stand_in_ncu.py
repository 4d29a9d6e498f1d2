"""Stands in for `ncu`: runs the command and leaves a log with a table, or with an error."""

import json
import os
import subprocess
import sys
from pathlib import Path

from traceanalyzer.collect.profilers.ncu import METRICS

SECRET = "hunter2"  # noqa: S105
PERMISSION = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access "
    "NVIDIA GPU Performance Counters\n"
)
WHERE = {
    "Process ID": "7",
    "Process Name": SECRET,
    "Host Name": SECRET,
    "device__attribute_pci_bus_id": "5",
}
KERNEL = {
    "ID": "0",
    "Kernel Name": "void softmax<4>(int)",
    "Context": "1",
    "Stream": "7",
    "Block Size": "(128, 1, 1)",
    "Grid Size": "(8, 2, 1)",
    "Device": "0",
    "CC": "9.0",
}


def unit(metric):
    return "%" if "pct" in metric else "ns" if "duration" in metric else "byte"


STALLED = {
    "smsp__average_warp_latency_per_inst_issued.ratio": "20",
    "smsp__average_warps_issue_stalled_drain_per_issue_active.ratio": "15",
    "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio": "1",
}
"""Some of what the section on warps' states holds."""


def table(section):
    columns = {**KERNEL, **WHERE}
    metrics = {**dict.fromkeys(METRICS, "50"), **(STALLED if section else {})}
    rows = (
        (*columns, *metrics),
        (*("" for _ in columns), *map(unit, metrics)),
        (*columns.values(), *metrics.values()),
    )
    return "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)


def main():
    words = sys.argv[1:]
    Path(os.environ["STAND_IN_LOG"]).write_text(json.dumps(words))
    command = (
        words.index("--profile-from-start") + 2
        if "--profile-from-start" in words
        else words.index("--section" if "--section" in words else "--metrics") + 2
    )
    status = subprocess.call(words[command:])
    said = f"==PROF== Connected to process 7 (/home/{SECRET}/bin/python)\n"
    said += {"permission": PERMISSION, "error": "==ERROR== no such metric\n", "none": ""}.get(
        os.environ.get("STAND_IN_SAYS", ""), table("--section" in words)
    )
    if os.environ.get("STAND_IN_SAYS") != "nothing":
        Path(words[words.index("--log-file") + 1]).write_text(said)
    return status


if __name__ == "__main__":
    sys.exit(main())
