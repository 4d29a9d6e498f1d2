"""Remedies for loops: many small calls of one kind as one."""

from dataclasses import replace

from traceanalyzer.diagnosis.finding import Words, everywhere
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.remedies.program import program, tape_of
from traceanalyzer.diagnosis.remedies.remedy import Offer, remedy, wherever
from traceanalyzer.replay.changes.kernels import products_batched
from traceanalyzer.replay.changes.loops.joined_calls import calls_joined, ensembles_joined, lookups_joined
from traceanalyzer.replay.changes.loops.repetition import STEPS_A_BATCH, batched, batched_over_steps
from traceanalyzer.replay.changes.loops.unfused_rnn import CELL_SHARE, recurrent_fused, tensor_loops, tensors_listed
from traceanalyzer.replay.changes.optimizer import optimizer_by_lists, optimizer_fused, small_groups
from traceanalyzer.replay.limits import OF_KERNELS, OF_MOVES
from traceanalyzer.replay.scenarios import FUSED_OPTIMIZER, Scenario
from traceanalyzer.replay.tape import Tape

CALLS = Scenario(
    "batch_calls",
    batched,
    "the calls are one: kernels that do not fill the GPU take as long for all of them as for one",
    spread=OF_MOVES,
)
OVER_STEPS = Scenario(
    "batch_calls",
    batched_over_steps,
    f"{STEPS_A_BATCH} steps' inputs are one batch, and this is the time of each: kernels that do not fill the GPU take "
    "as long for all of them as for one",
    spread=OF_MOVES,
)
LOOKUPS = Scenario(
    "batch_calls",
    lookups_joined,
    "lookups that follow each other are one call: kernels that do not fill the GPU take as long for all of them as for "
    "one",
    spread=OF_MOVES,
)
TWINS = Scenario(
    "batch_calls",
    calls_joined,
    "calls of a model that follow each other are one: kernels that do not fill the GPU take as long for all of them as "
    "for one",
    spread=OF_MOVES,
)
TOGETHER = Words(
    "Call the model once instead of several times in a row: torch.cat the inputs along the batch, and chunk the result."
)
TABLES = Words(
    "Look up in all tables at once: one table with an offset for each feature, or torchrec's EmbeddingBagCollection."
)
BATCH = "Batch the calls: stack the inputs (pad them to one length) and call the model once instead of in a loop."
LEARNING = (
    " Where each item's own gradient is needed: torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(weights, x, y)."
)
REQUESTS = Words(
    "Batch requests: collect the inputs of several steps, if they are independent (pad them to one length), "
    "and call the model once."
)


@remedy("batch_calls", "launch", "launch-bound")
def batch_calls(m: Measurements) -> Offer | None:
    """Where calls of one kind repeat within a step, each with its own input, or with an item of a tensor and a read,
    where lookups or calls of a model follow each other, or where each step is one call."""
    tape, known = tape_of(m), program(m)
    if tape is None or not known.pytorch:
        return None
    if batched(tape) is not None:
        return Offer(Words(BATCH + LEARNING if known.training else BATCH), CALLS)
    if lookups_joined(tape) is not None:
        return Offer(TABLES, LOOKUPS)
    if calls_joined(tape) is not None:
        return Offer(TOGETHER, TWINS)
    return None if known.training or known.in_graphs else Offer(REQUESTS, OVER_STEPS)


fused_rnn = wherever(
    "a recurrent cell is called many times",
    "fused_rnn",
    "launch",
    "launch-bound",
    Words("Call the layer once: nn.LSTM or nn.GRU on the whole sequence instead of cells in a loop."),
    Scenario(
        "fused_rnn",
        recurrent_fused,
        f"all time steps of a recurrent layer are one call; its kernels take {CELL_SHARE:.0%} of their time",
        spread=OF_MOVES,
    ),
)

PRODUCTS = Scenario(
    "batched_matmul",
    products_batched,
    "each run of small products of one shape is one batched product",
    spread=OF_MOVES,
)
ENSEMBLES = Scenario(
    "batched_matmul",
    ensembles_joined,
    "small networks of one shape that are called one after the other are one with batched products, forward, backward "
    "and in the optimizer",
    spread=OF_MOVES,
)
ONE_PRODUCT = Words("Batch the products: torch.bmm(torch.stack(a), torch.stack(b)), or torch.vmap.")
ONE_NETWORK = Words(
    "Make the networks of one shape one: torch.vmap over torch.func.stack_module_state, or weights of [networks, in, "
    "out] and torch.bmm."
)
LEAST_OF_PRODUCTS = 0.05
"""Operands have to be put together, and the model is another."""


@remedy("batched_matmul", "launch", "small-matmuls", LEAST_OF_PRODUCTS)
def batched_matmul(m: Measurements) -> Offer:
    """Wherever small products of one shape, or small networks of one, follow each other: whichever gains more."""
    if m.replay is not None and m.replay.gain_ms(ENSEMBLES) > m.replay.gain_ms(PRODUCTS):
        return Offer(ONE_NETWORK, ENSEMBLES)
    return Offer(ONE_PRODUCT, PRODUCTS)


FUSED = replace(FUSED_OPTIMIZER, pessimistic=lambda tape: optimizer_by_lists(tape) or optimizer_fused(tape))
BY_LISTS = Scenario(
    "fused_optimizer",
    optimizer_by_lists,
    "each of the optimizer's operators takes a few dozen tensors in one launch",
    spread=OF_KERNELS,
)
LOOPS = Scenario(
    "fused_optimizer",
    tensors_listed,
    "each operator of a loop over tensors takes a few dozen of them in one launch",
    spread=OF_KERNELS,
)
FUSE = Words("Use the fused optimizer: torch.optim.AdamW(..., fused=True).")
LISTS = everywhere("Update all tensors at once: the optimizer with foreach=True, or fused=True.")
GROUPS = everywhere(
    "Put parameters with the same settings into one group of the optimizer: foreach=True and fused=True take the "
    "tensors of a group at once, and these groups have one or a few."
)
DROP = everywhere(
    "Drop gradients instead of writing zeros into one after the other: optimizer.zero_grad(set_to_none=True)."
)
NORMS = Words(
    "Take all tensors at once instead of in a loop: clip_grad_norm_(..., foreach=True) or torch._foreach_norm(tensors)."
)
UPDATE_TOGETHER = "Update all tensors at once instead of in a loop over them:"
AVERAGES = "torch._foreach_lerp_(averages, weights, 1 - decay), or torch._foreach_mul_ and torch._foreach_add_"
NORM = {"norm", "linalg_norm", "linalg_vector_norm", "sum", "isfinite", "isnan", "isinf", "all", "any"}


@remedy("fused_optimizer", "memory", "optimizer-not-fused")
def fused_optimizer(m: Measurements) -> Offer | None:
    """Where an optimizer makes several passes, or it or another loop goes from tensor to tensor: what gains more."""
    tape, replay = tape_of(m), m.replay
    if tape is None or replay is None:
        return None
    loops = tensor_loops(tape)
    of_loops = None if loops is None else Offer(_instead(loops.names), LOOPS)
    offers = [one for one in (_of_optimizer(tape), of_loops) if one is not None]
    return max(offers, key=lambda one: replay.gain_ms(one.scenario), default=None)


def _of_optimizer(tape: Tape) -> Offer | None:
    if optimizer_fused(tape) is not None:
        return Offer(FUSE, FUSED)
    if optimizer_by_lists(tape) is not None:
        return Offer(GROUPS if small_groups(tape) else LISTS, BY_LISTS)
    return None


def _instead(names: tuple[str, ...]) -> Words:
    """What to call instead of these operators."""
    kinds = {name.removeprefix("aten::").removeprefix("_foreach_").rstrip("_") for name in names}
    if kinds == {"zero"}:
        return DROP
    if kinds & NORM:
        return NORMS
    if {"mul", "add"} <= kinds or "lerp" in kinds:
        return Words(f"{UPDATE_TOGETHER} {AVERAGES}.")
    calls = ", ".join(f"torch._foreach_{kind}_" for kind in sorted(kinds - {"to", "clone"})) or "torch._foreach_copy_"
    return Words(f"{UPDATE_TOGETHER} {calls}.")
