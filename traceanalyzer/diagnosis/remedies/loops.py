"""Remedies for loops: many small calls of one kind as one."""

from dataclasses import replace

from traceanalyzer.analysis.groups.input_loading import small_copies
from traceanalyzer.analysis.names.collectives import POINT_TO_POINT
from traceanalyzer.diagnosis.finding import Words
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.remedies.program import program, tape_of
from traceanalyzer.diagnosis.remedies.remedy import (
    Offer,
    remedy,
    replay_decides,
    scenario_of,
    text,
    words,
)
from traceanalyzer.replay.changes.data.loading import copied_together
from traceanalyzer.replay.changes.gradients.dropped import gradients_dropped
from traceanalyzer.replay.changes.kernels import makes_heads, products_batched
from traceanalyzer.replay.changes.loops.items_joined import turns_joined, turns_of_weights_joined
from traceanalyzer.replay.changes.loops.joined_calls import (
    calls_joined,
    ensembles_joined,
    lookups_joined,
    passes_joined,
    rows_joined,
)
from traceanalyzer.replay.changes.loops.repetition import STEPS_A_BATCH, batched, batched_over_steps
from traceanalyzer.replay.changes.loops.unfused_rnn import (
    CELL_SHARE,
    recurrent_fused,
    tensor_loops,
    tensors_listed,
)
from traceanalyzer.replay.changes.optimizer import optimizer_by_lists, optimizer_fused, small_groups
from traceanalyzer.replay.scenarios import FUSED_OPTIMIZER
from traceanalyzer.replay.tape import Tape

CALLS = scenario_of("batch_calls", batched, "assumes_calls", joins=True)
OVER_STEPS = scenario_of(
    "batch_calls",
    batched_over_steps,
    "assumes_over_steps",
    figures={"steps": STEPS_A_BATCH},
)
LOOKUPS = scenario_of("batch_calls", lookups_joined, "assumes_lookups", joins=True)
ROWS = scenario_of("batch_calls", rows_joined, "assumes_rows", joins=True)
PASSES = scenario_of("batch_calls", passes_joined, "assumes_passes", joins=True)
TWINS = scenario_of("batch_calls", calls_joined, "assumes_twins", joins=True)
FUSED_RNN = scenario_of("fused_rnn", recurrent_fused, figures={"share": CELL_SHARE})
fused_rnn = replay_decides("a recurrent cell is called many times", "launch", FUSED_RNN)
SENT = scenario_of("batch_calls", copied_together, "assumes_sent")
ITEMS = scenario_of("batch_calls", turns_joined, "assumes_items", joins=True)
OWN_WEIGHTS = scenario_of(
    "batched_matmul", turns_of_weights_joined, "assumes_ensembles", joins=True
)
PRODUCTS = scenario_of("batched_matmul", products_batched, "assumes_products")
ENSEMBLES = scenario_of("batched_matmul", ensembles_joined, "assumes_ensembles", joins=True)
LEAST_OF_PRODUCTS = 0.05  # operands have to be put together, and the model is another
FUSED = replace(
    FUSED_OPTIMIZER, pessimistic=lambda tape: optimizer_by_lists(tape) or optimizer_fused(tape)
)
BY_LISTS = scenario_of("fused_optimizer", optimizer_by_lists, "assumes_by_lists")
LOOPS = scenario_of("fused_optimizer", tensors_listed, "assumes_loops")
DROPPED = scenario_of("fused_optimizer", gradients_dropped, "assumes_dropped")
UPDATES = {"addcmul", "addcdiv"}
"""Operators of an optimizer that is written out."""
NORM = {
    "norm",
    "linalg_norm",
    "linalg_vector_norm",
    "sum",
    "isfinite",
    "isnan",
    "isinf",
    "all",
    "any",
}


@remedy("batch_calls", "launch")
def batch_calls(m: Measurements) -> Offer | None:
    """Where many backward passes go through one graph, where calls of one kind repeat
    within a step, each with its own input, or with an item of a tensor and a read, where lookups,
    picks of rows or calls of a model follow each other, where small tensors are sent to the GPU one
    by one, or where each step is one call: what gains more. Calls of a pipeline's stage are its
    microbatches: as one they keep the others waiting."""
    tape = tape_of(m)
    replay = m.replay
    if tape is None or replay is None or not program(m).pytorch or _is_stage(m):
        return None
    calls = _calls_as_one(m, tape)
    if small_copies(m.timed) is None:
        return calls
    sent = Offer(words("batch_calls", "send"), SENT, against=("small-copies", "launch"))
    gains_more = calls is None or replay.gain_ms(sent.scenario) > replay.gain_ms(calls.scenario)
    return sent if gains_more else calls


def _calls_as_one(m: Measurements, tape: Tape) -> Offer | None:
    known = program(m)
    if passes_joined(tape) is not None:
        return Offer(words("batch_calls", "passes"), PASSES)
    if batched(tape) is not None:
        return Offer(words("batch_calls", "batch_learning" if known.training else "batch"), CALLS)
    if lookups_joined(tape) is not None:
        return Offer(words("batch_calls", "tables"), LOOKUPS)
    if rows_joined(tape) is not None:
        return Offer(words("batch_calls", "rows"), ROWS)
    if calls_joined(tape) is not None:
        return Offer(words("batch_calls", "together"), TWINS)
    if turns_joined(tape) is not None:
        return Offer(words("batch_calls", "items"), ITEMS)
    if known.training or known.in_graphs:
        return None
    return Offer(words("batch_calls", "requests"), OVER_STEPS)


def _is_stage(m: Measurements) -> bool:
    """Whether the rank sends to others or receives of them, as stages of a pipeline do."""
    return any(row.collective in POINT_TO_POINT for row in m.collectives)


@remedy("batched_matmul", "launch", LEAST_OF_PRODUCTS)
def batched_matmul(m: Measurements) -> Offer:
    """Wherever small products of one shape, or small networks of one, follow each other: whichever
    gains more."""
    replay = m.replay
    tape = tape_of(m)
    how = "one_layer" if tape is not None and makes_heads(tape) else "one_product"
    product = Offer(words("batched_matmul", how), PRODUCTS)
    if replay is None:
        return product
    networks = (
        Offer(words("batched_matmul", "one_network"), each) for each in (ENSEMBLES, OWN_WEIGHTS)
    )
    return max(product, *networks, key=lambda offer: replay.gain_ms(offer.scenario))


@remedy("fused_optimizer", "memory")
def fused_optimizer(m: Measurements) -> Offer | None:
    """Where an optimizer makes several passes, or it or another loop goes from tensor to tensor:
    what gains more."""
    tape = tape_of(m)
    replay = m.replay
    if tape is None or replay is None:
        return None
    offers = []
    loops = tensor_loops(tape)
    if loops is not None:
        offers.append(Offer(_instead(loops.names), LOOPS))
    if gradients_dropped(tape) is not None:
        drop = words("fused_optimizer", "drop")
        offers.append(Offer(drop, DROPPED, against=("launch-bound", "launch")))
    if optimizer_fused(tape) is not None:
        how = "fuse_groups" if small_groups(tape) else "fuse"
        offers.insert(0, Offer(words("fused_optimizer", how), FUSED))
    elif optimizer_by_lists(tape) is not None:
        offers.insert(
            0,
            Offer(words("fused_optimizer", "groups" if small_groups(tape) else "lists"), BY_LISTS),
        )
    return max(offers, key=lambda one: replay.gain_ms(one.scenario), default=None)


def _instead(names: tuple[str, ...]) -> Words:
    kinds = {name.removeprefix("aten::").removeprefix("_foreach_").rstrip("_") for name in names}
    if kinds & UPDATES:
        return words(
            "fused_optimizer", "update_together", by=text("fused_optimizer", "written_out")
        )
    if kinds & NORM:
        return words("fused_optimizer", "norms")
    if {"mul", "add"} <= kinds or "lerp" in kinds:
        return words("fused_optimizer", "update_together", by=text("fused_optimizer", "averages"))
    calls = (
        ", ".join(f"torch._foreach_{kind}_" for kind in sorted(kinds - {"to", "clone"}))
        or "torch._foreach_copy_"
    )
    return words("fused_optimizer", "update_together", by=calls)
