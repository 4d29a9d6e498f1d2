"""Memory allocated once instead of within the step."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.lookup import one_of
from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.analysis.replay.changes.loading import no_allocations
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import program
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

CONVOLUTION = re.compile(r"convolution|miopen|cudnn", re.IGNORECASE)
MOSTLY = 0.5
SCENARIO = Scenario(
    "avoid_allocations",
    no_allocations,
    "no device or pinned memory is allocated or freed within the step",
    missing="no memory is allocated or freed within the steps",
)
PYTORCH = "no torch.cuda.empty_cache() in the loop; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True where sizes change"
LIBRARY = (
    "a library's workspace should outlive the call: fixed shapes, so that cuDNN's or MIOpen's search runs once (AMD: "
    "MIOPEN_FIND_MODE=FAST); no torch.cuda.empty_cache() in the loop"
)
OTHER = "a memory pool (cudaMallocAsync), or buffers made before the loop"


def offer(m: Measurements) -> Offer:
    """Wherever memory is allocated or freed within the steps."""
    if not program(m).pytorch:
        return Offer(f"Allocate once: {OTHER}.", SCENARIO)
    return Offer(f"Allocate once: {LIBRARY if _by_library(m) else PYTORCH}.", SCENARIO)


def _by_library(m: Measurements) -> bool:
    """Whether convolutions (cuDNN, MIOpen) make most of the calls' time that allocate or free memory."""
    calls, tree, strings = m.trace.api_calls, m.tree, m.trace.strings
    rows = np.flatnonzero(one_of(m.api_kind, (ApiKind.ALLOCATE, ApiKind.FREE)))
    around = tree.named(texts_where(strings, CONVOLUTION.search))
    inside = tree.innermost(around)[tree.node_of_call[rows]] >= 0
    time = (calls.end - calls.start)[rows]
    return bool(time[inside].sum() > MOSTLY * time.sum())


REMEDY = Remedy("avoid_allocations", "host", "host-work", offer)
