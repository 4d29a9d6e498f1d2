"""Finding on many small copies to the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.groups.small_copies import MANY, small_copies
from traceanalyzer.analysis.replay.changes.batched_copies import copied_together
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.draft import Draft, Remedy
from traceanalyzer.diagnosis.finding import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import Bool

ONE_COPY = Scenario(
    "copied_together",
    copied_together,
    "the small copies of a step are one: the others, and what the host does to launch and await them, are gone; "
    "packing the tensors on the host is not counted",
)


def many_small_copies(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """The step sends many small tensors to the GPU one by one. What they cost is idle time that other findings have,
    so no headroom is claimed."""
    found = small_copies(m)
    if found is None or m.mean_step_ms <= 0:
        return
    evidence = [
        Evidence("CPU time in small copies", found.host_ms / m.mean_step_ms, "share", "of each recorded step"),
        Evidence("small copies to the GPU", found.a_step, "", "per step, up to 64 kB", MANY),
        Evidence("median size", found.median_bytes, "bytes", found.operator or "API calls"),
        Evidence("their time on the GPU", found.device_ms, "ms", "per step"),
    ]
    action = (
        "Send them together: have collate_fn put the batch into few tensors (torch.stack, padded or nested), or pack "
        "them into one pinned buffer, copy that, and split it into views on the GPU."
    )
    title = "Many small copies go to the GPU one by one"
    yield Draft("small-copies", "launch", title, "none", None, evidence, [Remedy(action, ONE_COPY.basis, ONE_COPY)])
