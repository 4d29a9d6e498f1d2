"""Remedies for input: loading it, copying it to the device, keeping it there."""

import math
from dataclasses import replace

from traceanalyzer.base import NS_PER_MS, digits
from traceanalyzer.diagnosis import loader_advice
from traceanalyzer.diagnosis.finding import Words
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.remedies.program import may_load, tape_of, tapes_of_others
from traceanalyzer.diagnosis.remedies.remedy import (
    Offer,
    remedy,
    replay_decides,
    scenario_of,
    text,
    words,
)
from traceanalyzer.diagnosis.remedies.straggler import rank_that_loads_itself
from traceanalyzer.replay.bounds import input_ready
from traceanalyzer.replay.changes.data.host_memory import (
    picked_on_device,
    picked_on_host,
    updated_on_device,
    updated_on_host,
)
from traceanalyzer.replay.changes.data.loading import (
    MAX_WORKERS,
    WORKER_EFFICIENCY,
    away_from_device,
    copied_ahead,
    copied_alike,
    input_copies,
    input_from_pages,
    kept_on_device,
    loaded_by_workers,
    loading_ns,
    not_faster_than,
    pinned,
    results_kept,
    results_sent,
    results_to_pages,
    round_trips,
    waited_less,
)
from traceanalyzer.replay.changes.data.made_each_step import made_of_numbers, made_once
from traceanalyzer.replay.changes.data.narrow_input import Sent, sent_narrow, sent_wide
from traceanalyzer.replay.patterns.picked_rows import takes_rows_one_by_one
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import Bool

LOAD_OF_OTHERS = 0.1
"""Ranks that load hardly more than this share of what one does have no loading to share with it."""
READY = scenario_of("data_loader_workers", loaded_by_workers)
COPIED_AHEAD = scenario_of("copy_ahead", copied_ahead, hides=input_copies)
copy_ahead = replay_decides("data is copied to the GPU", "transfer", COPIED_AHEAD)
PINNED = scenario_of("pinned_memory", pinned)
SENT_SHARE = 0.2
"""Share of the step, as it is without the profiler where that was timed, that copies of results take,
from which they are worth a change of what the program keeps; less is what reading results costs."""
RESULTS_KEPT = scenario_of("copy_less", results_kept)
HALF_OF_BYTES = 0.5  # what fp32 numbers keep in 16 bits; bytes keep half of that
SENT_NARROW = scenario_of(
    "copy_less", sent_narrow(0.0), "assumes_narrow", pessimistic=sent_narrow(HALF_OF_BYTES)
)
FEWER_BYTES = {Sent.PICTURES: "pictures", Sent.MASKS: "masks", Sent.HALVES: "halves"}
"""The words for input that is sent in more bytes than it needs."""
KEPT = scenario_of("keep_on_device", kept_on_device, "assumes_kept")
PICKED = scenario_of("keep_on_device", picked_on_device, "assumes_picked")
UPDATED = scenario_of(
    "keep_on_device",
    lambda tape: updated_on_device(kept_on_device(tape) or tape),
    "assumes_updated",
)
MADE_ONCE = scenario_of(
    "keep_on_device",
    lambda tape: made_once(kept_on_device(tape) or tape),
    "assumes_made",
)
MOST_OF_TABLES = 0.25
"""Share of the GPU's memory that data may take beside the program, whose own need is not
recorded."""
MOST_OF_MEMORY = 0.9
"""Share of the GPU's memory from which what is copied cannot stay there: it was kept away for
that."""
MB = 1e6


@remedy("data_loader_workers", "input")
def data_loader_workers(m: Measurements) -> Offer | None:
    """Where the step loads input itself: with as many workers as the rest of the step can wait
    for."""
    replay = m.replay
    if replay is None:
        return None
    tape = replay.typical[0]
    if not loading_ns(tape):
        return None
    # All ranks load what they learn from: what one alone works, and nothing names as loading, is
    # something else.
    least = LOAD_OF_OTHERS * loading_ns(tape)
    loads_itself = rank_that_loads_itself(replay.typical)
    # That one is late: `fix_straggler`, where it is reported with the others. Reported alone it
    # needs workers itself, and the ranks that wait for it need nothing.
    alone = m.ranks is not None and len(m.ranks.rows) == 1
    if loads_itself is not None and not (alone and loads_itself == 0):
        return None
    if m.peers and not may_load(m) and all(loading_ns(one) < least for one in tapes_of_others(m)):
        return None
    rest_ms = replay.step_under_ms(READY)
    if not rest_ms:
        return None
    if m.loading is not None and m.loading.workers:
        half_ns = replay.base_ms / replay.scale * NS_PER_MS / 2
        basis = text("data_loader_workers", "more_workers")
        late = waited_less(half_ns)
        ready = replace(READY, basis=basis, optimistic=input_ready, pessimistic=late)
        return Offer(Words(loader_advice.action(m.loading)), ready)
    load_ms = loading_ns(tape) * replay.scale / NS_PER_MS
    count = min(math.ceil(load_ms / rest_ms / WORKER_EFFICIENCY) + 1, MAX_WORKERS)
    basis = text("data_loader_workers", "loaded").format(
        count=count, load=load_ms, efficiency=WORKER_EFFICIENCY
    )
    least_ns = loading_ns(tape) / (count * WORKER_EFFICIENCY)
    elsewhere = f"Load input in {count} background processes or threads, at least one batch ahead."
    ready = replace(
        READY, basis=basis, optimistic=input_ready, step_of_run=not_faster_than(least_ns)
    )
    if takes_rows_one_by_one(tape):
        return Offer(words("data_loader_workers", "row_by_row", count=count), ready)
    return Offer(loader_advice.load_ahead(m, elsewhere, workers=count), ready)


@remedy("pinned_memory", "transfer")
def pinned_memory(m: Measurements) -> Offer:
    """Wherever data is copied from pageable memory, or large results to it."""
    tape = tape_of(m)
    copied_ns = (0, 0)
    if tape is not None:
        both = (input_from_pages(tape), results_to_pages(tape))
        copied_ns = int(tape.duration[both[0]].sum()), int(tape.duration[both[1]].sum())
    which = "results" if copied_ns[1] > copied_ns[0] else "input"
    return Offer(words("pinned_memory", which), PINNED)


@remedy("copy_less", "transfer")
def copy_less(m: Measurements) -> Offer | None:
    """Where copies of large results to the host, or of input in more bytes than it needs (pictures
    and masks of classes in fp32, what is cast to 16 bits at once), take much of the step: whichever
    take longer."""
    tape = tape_of(m)
    if tape is None:
        return None
    least_ns = SENT_SHARE * m.step.step_ms * NS_PER_MS * tape.steps
    results_ns = int(tape.duration[tape.memo(results_sent)].sum())
    sent = tape.memo(sent_wide)
    copies = {which: sent == kind for kind, which in FEWER_BYTES.items()}
    wide_ns = {which: int(tape.duration[rows].sum()) for which, rows in copies.items()}
    if max(results_ns, sum(wide_ns.values())) < least_ns:
        return None
    if results_ns >= sum(wide_ns.values()):
        return Offer(words("copy_less"), RESULTS_KEPT)
    return Offer(words("copy_less", max(wide_ns, key=wide_ns.__getitem__)), SENT_NARROW)


@remedy("keep_on_device", "transfer")
def keep_on_device(m: Measurements) -> Offer | None:
    """Wherever as many bytes come back as went out, a step copies a table, a weight or a mask, what
    the host makes of numbers alone, what it updates a tensor of its own with, or what it picked out
    of a larger one."""
    tape = tape_of(m)
    if tape is None:
        return None
    memory = min(filter(None, (gpu.memory_bytes for gpu in m.trace.devices)), default=0)
    kept_bytes = _bytes_a_step(tape, tape.memo(copied_alike))
    if memory and kept_bytes > MOST_OF_MEMORY * memory:
        return None
    made_bytes = _bytes_a_step(tape, tape.memo(made_of_numbers).copies)
    if made_bytes:
        return Offer(words("keep_on_device", "made", room=digits(made_bytes / MB)), MADE_ONCE)
    if kept_bytes:
        return Offer(words("keep_on_device", "alike", room=digits(kept_bytes / MB)), KEPT)
    if (tape.memo(round_trips) | tape.memo(away_from_device)).any():
        return Offer(words("keep_on_device", "round_trips"), KEPT)
    state_bytes = _bytes_a_step(tape, tape.memo(updated_on_host).copies)
    if 0 < state_bytes < MOST_OF_TABLES * memory:
        return Offer(words("keep_on_device", "state", room=digits(state_bytes / MB)), UPDATED)
    picked = tape.memo(picked_on_host)
    if not picked.copies.any() or picked.table_bytes >= MOST_OF_TABLES * memory:
        return None
    return Offer(words("keep_on_device", "tables", room=digits(picked.table_bytes / MB)), PICKED)


def _bytes_a_step(tape: Tape, copies: Bool) -> float:
    return float(tape.source.trace.device_ops.bytes[tape.row[copies]].sum()) / tape.steps
