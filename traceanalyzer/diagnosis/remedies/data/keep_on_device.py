"""Data that goes to the host and comes back, or comes again in every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.in_host_memory.host_state import updated_on_device, updated_on_host
from traceanalyzer.analysis.replay.changes.in_host_memory.host_tables import picked_on_device, picked_on_host
from traceanalyzer.analysis.replay.changes.loading import away_from_device, copied_alike, kept_on_device, round_trips
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import tape_of
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy
from traceanalyzer.figures import digits

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import Bool

SCENARIO = Scenario(
    "keep_on_device",
    kept_on_device,
    "what goes to the host and comes back in the same step stays on the GPU, and so do tables, weights and masks that "
    "every step copies",
    missing="nothing is copied to the host and back, or copied again in every step",
)
PICKED = Scenario(
    "keep_on_device",
    picked_on_device,
    "the tables are on the GPU, which picks the rows of each step itself",
    missing="the host picks nothing out of tensors that it copies",
)


def _all_kept(tape: Tape) -> Tape | None:
    """What the host updates is on the GPU, and so is what goes there and back."""
    return updated_on_device(kept_on_device(tape) or tape)


UPDATED = Scenario(
    "keep_on_device",
    _all_kept,
    "what the host updates with data of each step (averages, sums) is on the GPU, which reads and writes it once",
    missing="the host updates nothing with what it copies from the GPU",
)
ACTION = "Keep the tensors on the GPU: compute there instead of .cpu() and back, or copy constants once."
ALIKE = "Keep on the GPU what every step copies there for the same use (weights, tables, masks): it takes {room} MB."
TABLES = "Keep the data on the GPU, {room} MB, and pick each step's rows there: data = data.to('cuda') once."
STATE = (
    "Keep on the GPU what the host updates in every step (averaged weights, sums), {room} MB: update it there, all "
    "tensors in one call (torch._foreach_lerp_), and copy it to the host only to save it."
)
MOST_OF_TABLES = 0.25
"""Share of the GPU's memory that data may take beside the program, whose own need is not recorded."""
MOST_OF_MEMORY = 0.9
"""Share of the GPU's memory from which what is copied cannot stay there: it was kept away for that."""
MB = 1e6


def offer(m: Measurements) -> Offer | None:
    """Wherever as many bytes come back as went out, a step copies what it uses as a table, a weight or a mask, what the
    host updates a tensor of its own with, or what it picked out of a larger one."""
    tape = tape_of(m)
    if tape is None:
        return None
    memory = min((gpu.memory_bytes for gpu in m.trace.devices if gpu.memory_bytes), default=0)
    kept_bytes = _bytes_a_step(tape, tape.once(copied_alike))
    if memory and kept_bytes > MOST_OF_MEMORY * memory:
        return None
    if kept_bytes:
        return Offer(ALIKE.format(room=digits(kept_bytes / MB)), SCENARIO)
    if (tape.once(round_trips) | tape.once(away_from_device)).any():
        return Offer(ACTION, SCENARIO)
    state_bytes = _bytes_a_step(tape, tape.once(updated_on_host).copies)
    if 0 < state_bytes < MOST_OF_TABLES * memory:
        return Offer(STATE.format(room=digits(state_bytes / MB)), UPDATED)
    picked = tape.once(picked_on_host)
    fits = picked.copies.any() and picked.table_bytes < MOST_OF_TABLES * memory
    return Offer(TABLES.format(room=digits(picked.table_bytes / MB)), PICKED) if fits else None


def _bytes_a_step(tape: Tape, copies: Bool) -> float:
    """What these copies move."""
    return float(tape.source.trace.device_ops.bytes[tape.row[copies]].sum()) / tape.steps


REMEDY = Remedy("keep_on_device", "transfer", "exposed-copies", offer)
