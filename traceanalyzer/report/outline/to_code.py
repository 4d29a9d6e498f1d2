"""From a finding to the program: the lines of code behind it, and how to measure its kernels with Nsight Compute."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

from traceanalyzer.analysis.names.kernel_names import function_name
from traceanalyzer.diagnosis.finding import Finding
from traceanalyzer.report.model import Report

SHOWN = 3
"""Lines, and kernels: a run under Nsight Compute repeats each of their launches many times."""
OF_KERNELS = ("compute", "memory")
"""Classes whose cause is in kernels; the others' is in what the CPU does."""
NO_NCU = re.compile(r"AMD|Instinct|Radeon|Intel|\bgfx", re.IGNORECASE)
"""Devices that Nsight Compute does not know."""
COLLECTIVE = "collective"
"""Class of kernels that wait for other ranks: run again and again, they would wait for ever."""


def leads(report: Report, finding: Finding) -> Iterator[str]:
    """What leads from a finding to the code, a sentence each; none where the recording does not tell."""
    known = [item.where for item in finding.evidence]
    kernels = [row for row in report.tables.get("kernels", []) if row.name in known]
    rows = kernels if finding.cls in OF_KERNELS else _places(report, finding, known)
    lines = dict.fromkeys(row.python for row in rows if row.python)
    new = [line for line in lines if not any(line in where for where in known)][:SHOWN]
    if new:
        yield f"code: {', '.join(new)}"
    measured = list(dict.fromkeys(function_name(row.full_name) for row in kernels if row.cls != COLLECTIVE))[:SHOWN]
    if finding.cls in OF_KERNELS and measured and not any(NO_NCU.search(one.name or "") for one in report.devices):
        wanted = shlex.quote(f"regex:^({'|'.join(map(re.escape, measured))})$")
        yield f"what limits its kernels: ncu --set full -k {wanted} -c 10 python train.py"


def _places(report: Report, finding: Finding, known: list[str]) -> list[Any]:
    """The places that the finding's time goes back to."""
    if finding.cls == "transfer":
        return [row for row in report.tables.get("ops", []) if any(row.name in where for where in known)]
    return [row for row in report.tables.get("gap_places", []) if row.cause == finding.cls]
