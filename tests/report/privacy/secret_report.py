"""A report with something to hide in every kind of field."""

import re
from dataclasses import replace

from tests.report.reports import full, kernel
from traceanalyzer.analysis.tables.gap_rows import GapRow
from traceanalyzer.analysis.tables.syncs import SyncRow
from traceanalyzer.diagnosis.finding import Evidence
from traceanalyzer.report.model import Input

SECRETS = (
    "alice",
    "gpu-node-07",
    "4242",
    "projects",
    "acme",
    "John",
    "Smith",
    "bob",
    "10.1.2.3",
    "secretmodel",
    "?token",
)


PATTERNS = [re.compile("acme"), re.compile("(?i)SecretModel")]


OWN_KERNEL = "void acme::attention_fwd<128, Params<float>>"


def secret():
    """A report with something to hide in every kind of field."""
    base = full()
    paths = [base.inputs[0].path, "gpu-node-07_4243.1.pt.trace.json", "C:\\Users\\alice\\acme.nsys"]
    inputs = [
        Input(
            path,
            kind,
            rank,
            base.inputs[0].devices,
            replace(base.inputs[0].health, notes=[f"{path} is damaged"]),
        )
        for rank, (path, kind) in enumerate(zip(paths, ("kineto", "kineto", "nsys"), strict=True))
    ]
    where = "cudaStreamSynchronize in SecretModel > aten::item at /home/alice/projects/train.py(118): step"
    finding = replace(
        base.findings[0], title="acme_step waits", evidence=[Evidence("idle", 5.9, "ms", where)]
    )
    gap = GapRow(0, 0, 1, 2, 3, "sync", f"ended by {OWN_KERNEL}")
    return replace(
        base,
        inputs=inputs,
        findings=[finding],
        tables={
            "gaps": [gap, replace(gap, detail="ended by void acme::attention_fwd<12…")],
            "syncs": [
                SyncRow(
                    0,
                    "call",
                    "SecretModel > aten::item",
                    "projects/acme/train.py(3): f",
                    1,
                    1,
                    0,
                    1,
                    False,
                )
            ],
            "kernels": [kernel(OWN_KERNEL, 1.0, "SecretModel"), kernel("gemm", 1.0)],
        },
        notes=[
            "/home/John Smith/projects/x.json could not be read: gone",
            "gpu-node-07_9.9.pt.trace.json could not be read",
            "copied from bob@gpu-node-07 (10.1.2.3) over https://acme.example/?token=1",
            "gpu-node-07 was slow, says alice",
        ],
    )
