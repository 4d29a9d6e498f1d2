"""What the host did while the device waited for the next iteration, by the innermost range or call
whose name tells."""

import re

import numpy as np

from traceanalyzer.analysis.algebra import union
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.base import regex
from traceanalyzer.trace import I64, ApiCalls, HostRanges, distinct

UNKNOWN = "unknown"
PYTHON = "Python"
LAUNCH = "launch"
SYNC = "sync"
NOTHING = "nothing to do"
STAGES = {
    NOTHING: r"\[idle\]|(^|\.)(e?poll|select|sleep|wait_for_requests?)\b|input_queue|^queue\.get|\bidle\b",
    "detokenising": r"detok|output_processor|process_outputs|process_batch_result|update_from_output|stream_output",
    "sampling": r"(^|[\W_])sampl(e|er|ing)\b|rejection_sampl|logits_processor|sample_tokens|\bbookkeep",
    "input preparation": (
        r"prepare_?_?(model_)?input|_prepare|preprocess|prepare_for_|update_states|attn_metadata|forward_metadata"
        r"|get_model_worker_batch|forward_batch_info|\binit_new\b"
    ),
    "scheduling": r"\bschedule\b|\b_schedule|^scheduler?(:|$)|get_next_batch|get_new_batch|recv_requests|fetch_new_req",
}
"""Stages of a server's loop by names of its annotations and Python functions: vLLM, SGLang and
TensorRT-LLM."""
_STAGES = {stage: regex(pattern, re.IGNORECASE) for stage, pattern in STAGES.items()}
_FRAME = regex(r"(?<!\w)(\w{1,200}+)\.py\(\d{1,9}+\): (.+)$")
CAUSES = (UNKNOWN, PYTHON, *STAGES, SYNC, LAUNCH)


QUEUED_NS = 100_000  # a launched op begins within this, as in `analysis/time/launch_queue.py`


def serving_stage(name: str) -> str | None:
    """The stage that a range of this name is; None for most. Of a Python function the file's name
    counts, too."""
    frame = _FRAME.search(name)
    text = f"{frame[1]}.{frame[2]}" if frame else name
    return next((stage for stage, pattern in _STAGES.items() if pattern.search(text)), None)


def gap_causes(linked: Linked, start: I64, end: I64, next_op: I64) -> list[str]:
    """The cause of each of these gaps, which this device op ends: what filled most of it."""
    return [
        _cause(linked, *gap)
        for gap in zip(start.tolist(), end.tolist(), next_op.tolist(), strict=True)
    ]


def _cause(linked: Linked, start: int, end: int, op: int) -> str:
    launched = int(linked.launch_time[op])
    call = int(linked.launch[op])
    if launched < 0 or call < 0:
        return UNKNOWN
    arrival = min(max(launched, start), end)
    spent = _spent(linked, start, arrival, int(linked.trace.api_calls.thread[call]))
    # What was launched in time and does not begin waits for what the recording does not show.
    late = end - max(int(linked.trace.api_calls.end[call]), start)
    if late < QUEUED_NS:
        spent[LAUNCH] = end - arrival
    else:
        spent[UNKNOWN] = spent.get(UNKNOWN, 0) + end - arrival
    return max(CAUSES, key=lambda cause: spent.get(cause, 0))


def _spent(linked: Linked, start: int, end: int, thread: int) -> dict[str, int]:
    """How long the thread was in each stage between the two moments, ns."""
    if end <= start:
        return {}
    calls = linked.trace.api_calls
    ranges = linked.trace.host_ranges
    seen = _within(ranges, start, end, thread)
    called = _within(calls, start, end, thread)
    stages = linked.memo(_stage_codes)[ranges.name[seen]]
    begins = np.clip(np.append(ranges.start[seen], calls.start[called]), start, end)
    ends = np.clip(np.append(ranges.end[seen], calls.end[called]), start, end)
    is_sync = linked.api_kind[called] == ApiKind.SYNC
    code = np.append(stages, np.where(is_sync, CAUSES.index(SYNC), -1))
    # What no stage names is Python where anything runs.
    telling = code >= 0
    spent = _uppermost(begins[telling], ends[telling], code[telling])
    covered = union(begins, ends).total
    return spent | {PYTHON: covered - sum(spent.values()), UNKNOWN: end - start - covered}


def _uppermost(begins: I64, ends: I64, code: I64) -> dict[str, int]:
    """How long each cause is the innermost one, ns: later ranges lie upon earlier ones."""
    cuts = distinct(np.concatenate((begins, ends)))
    colour = np.full(max(len(cuts) - 1, 0), -1)
    for i in np.lexsort((-ends, begins)).tolist():
        first, last = np.searchsorted(cuts, (begins[i], ends[i]))
        colour[first:last] = code[i]
    lengths = np.diff(cuts)
    found = set(colour.tolist()) - {-1}
    return {CAUSES[c]: int(lengths[colour == c].sum()) for c in found}


def _within(rows: ApiCalls | HostRanges, start: int, end: int, thread: int) -> I64:
    """What runs in the thread at some time between the two moments."""
    overlaps = (rows.start < end) & (rows.end > start)
    return np.flatnonzero((rows.thread == thread) & overlaps)


def _stage_codes(linked: Linked) -> I64:
    """For each string the place of its stage in `CAUSES`, -1 for none; one more for the code -1."""
    stages = [*map(serving_stage, linked.trace.strings), None]
    places = [-1 if stage is None else CAUSES.index(stage) for stage in stages]
    return np.array(places, np.int64)
