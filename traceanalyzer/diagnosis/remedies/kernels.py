"""Remedies for kernels: less work, fewer bytes, faster units."""

from traceanalyzer.analysis.groups.passes import MIN_CHAIN
from traceanalyzer.base import NS_PER_MS, regex
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
from traceanalyzer.replay.changes.attention import attention_fused
from traceanalyzer.replay.changes.called_again import have_one_input, without_repeated_calls
from traceanalyzer.replay.changes.causal import causal_by_name
from traceanalyzer.replay.changes.compiling import functions_compiled
from traceanalyzer.replay.changes.computed_ahead import without_frozen_calls
from traceanalyzer.replay.changes.fusion import WRITTEN_OUT, Reading, fusing
from traceanalyzer.replay.changes.gradients.unread_branch import (
    unread_branch,
    without_unread_branch,
)
from traceanalyzer.replay.changes.gradients.unread_gradients import (
    unread_gradients,
    without_unread_gradients,
)
from traceanalyzer.replay.changes.gradients.unread_graph import (
    NODE_SHARE,
    OPTIMISTIC_NODE_SHARE,
    PESSIMISTIC_NODE_SHARE,
    unread_graph,
    without_graph,
)
from traceanalyzer.replay.changes.gradients.weights_passed import (
    weights_passed,
    without_weights_passed,
)
from traceanalyzer.replay.changes.kernels import (
    SPACE,
    changes_layout,
    dimensions,
    odd_padded,
    padded,
)
from traceanalyzer.replay.changes.kernels import channels_last as in_channels_last
from traceanalyzer.replay.changes.preallocated import SLOW_WRITE, preallocated
from traceanalyzer.replay.changes.precision import (
    HALF,
    OPTIMISTIC,
    PESSIMISTIC,
    TENSOR_EFFICIENCY,
    USUAL,
    in_16_bits,
    in_32_bits,
    in_tf32,
    wide_products,
)
from traceanalyzer.replay.changes.read_again import longest_again, with_cache
from traceanalyzer.replay.changes.recompute import HOOKED_SHARE, kept
from traceanalyzer.replay.changes.sparse_gradients import with_sparse_gradients
from traceanalyzer.replay.changes.weights_cast import weights_cast_once
from traceanalyzer.replay.patterns.named import launched_within
from traceanalyzer.replay.patterns.tokens import tokens_turned
from traceanalyzer.replay.tape import Tape
from traceanalyzer.replay.whatif import Replay

FUSED_CHAINS = scenario_of(
    "fuse_elementwise",
    functions_compiled(Reading.TYPICAL, MIN_CHAIN),
    figures={"chain": MIN_CHAIN},
    optimistic=fusing(WRITTEN_OUT, Reading.OPTIMISTIC, MIN_CHAIN),
    pessimistic=functions_compiled(Reading.PESSIMISTIC, MIN_CHAIN, library=True),
)
LEAST_SAVED_BY_KERNELS = 0.02
"""Share of the step that its kernels must become shorter by: what only saves launches is for a
compiler."""
LEAST_OF_CHAINS = 0.08
"""Less often lies between operators that no library has together, or within what fused kernels
differ by."""
FUSED_ATTENTION = scenario_of("fused_attention", attention_fused)
CAUSAL_ATTENTION = scenario_of("fused_attention", causal_by_name, "assumes_causal")
IN_CHANNELS_LAST = scenario_of("channels_last", in_channels_last)
LEAST_OF_LAYOUT = 0.04
"""Other kernels come with the other layout: for few channels, or groups of them, slower ones."""
OTHER_NORMS = regex(r"group_norm|instance_norm")
"""Norms between convolutions that have no version for channels last."""
LAUNCH_BOUND = (
    0.2  # share of the step that is idle for launches from which kernels hide behind them
)
PREALLOCATED = scenario_of(
    "preallocate", preallocated(), pessimistic=preallocated(times=SLOW_WRITE)
)
preallocate = replay_decides(
    "a tensor is joined again, larger, in every step", "memory", PREALLOCATED
)
TF32 = scenario_of("tf32", in_tf32, figures={"efficiency": TENSOR_EFFICIENCY})
tf32 = replay_decides("fp32 matrices are multiplied on the ordinary cores", "compute", TF32)
IN_BF16 = scenario_of(
    "low_precision",
    in_16_bits(USUAL),
    figures={"efficiency": TENSOR_EFFICIENCY},
    optimistic=in_16_bits(OPTIMISTIC),
    pessimistic=in_16_bits(PESSIMISTIC),
)
IN_FP32 = scenario_of(
    "low_precision",
    in_32_bits(HALF),
    "assumes_single",
    optimistic=in_32_bits(0.4),
    pessimistic=in_32_bits(0.7),
)
WEIGHTS_IN_BF16 = scenario_of("low_precision", weights_cast_once, "assumes_weights")
LEAST_OF_BF16 = 0.05  # casts of small tensors cost launches; results differ a little
PADDED = scenario_of("pad_shapes", padded)
KEPT = scenario_of("no_recompute", kept(HOOKED_SHARE), pessimistic=kept(1.0))
CALLED_ONCE = scenario_of("no_recompute", without_repeated_calls, "assumes_called_once")
MAYBE_CALLED_ONCE = scenario_of(
    "no_recompute",
    without_repeated_calls,
    "assumes_maybe_once",
    pessimistic=lambda tape: tape,
)
MADE_AHEAD = scenario_of(
    "no_recompute", without_frozen_calls, "assumes_ahead", pessimistic=lambda tape: tape
)
LEAST_MADE_AHEAD = 0.1
"""Share of the step that a frozen network must take: what it makes has to be stored and read."""
CACHE_LAUNCHES = 2.0  # a key and a value are joined to those before
CAREFUL_CACHE_LAUNCHES = 6.0
WITH_CACHE = scenario_of(
    "no_recompute",
    with_cache(CACHE_LAUNCHES),
    "assumes_cache",
    pessimistic=with_cache(CAREFUL_CACHE_LAUNCHES),
)
FROZEN = scenario_of("freeze_parameters", without_unread_gradients)
BESIDE = scenario_of("freeze_parameters", without_unread_branch, "assumes_beside")
PASSED = scenario_of("freeze_parameters", without_weights_passed, "assumes_through")
WITHOUT_GRAPH = scenario_of(
    "freeze_parameters",
    without_graph(NODE_SHARE),
    "assumes_graph",
    figures={
        "share": NODE_SHARE,
        "most": OPTIMISTIC_NODE_SHARE,
        "least": PESSIMISTIC_NODE_SHARE,
    },
    optimistic=without_graph(OPTIMISTIC_NODE_SHARE),
    pessimistic=without_graph(PESSIMISTIC_NODE_SHARE),
)
LEAST_OF_FREEZING = 0.05
"""Less is one layer's gradients, and may be of a parameter that is trained in other steps."""
SPARSE = scenario_of("sparse_gradients", with_sparse_gradients)
LEAST_OF_SPARSE = 0.05
"""Optimizers for sparse gradients launch more, and wait to know how many rows there are."""


@remedy("sparse_gradients", "memory", LEAST_OF_SPARSE)
def sparse_gradients(_: Measurements) -> Offer:
    """Wherever an optimizer goes through all rows of an embedding's table of which few are looked
    up."""
    return Offer(words("sparse_gradients"), SPARSE)


@remedy("freeze_parameters", "compute", LEAST_OF_FREEZING)
def freeze_parameters(m: Measurements) -> Offer | None:
    """Where the backward pass goes on after the last gradient that an optimizer takes, or through
    weights whose gradients are only added up: of a network beside the one that is trained, or after
    it; or where autograd makes nodes that no backward pass reads."""
    tape = tape_of(m)
    if tape is None:
        return None
    graph = unread_graph(tape)
    if graph is not None:
        how = words("freeze_parameters", "graph", count=graph.nodes)
        return Offer(how, WITHOUT_GRAPH, against=("launch-bound", "launch"))
    unread = unread_gradients(tape)
    if unread is not None:
        return Offer(words("freeze_parameters", count=unread.gradients), FROZEN)
    beside = unread_branch(tape)
    if beside is not None:
        return Offer(words("freeze_parameters", "beside", count=beside.gradients), BESIDE)
    passed = weights_passed(tape)
    if passed is None:
        return None
    return Offer(words("freeze_parameters", "through", count=passed.gradients), PASSED)


@remedy("no_recompute", "compute", min_pessimistic_share=0.0)
def no_recompute(m: Measurements) -> Offer:
    """Wherever a forward pass runs again, or a model is called without gradients before it is called
    with them, unchanged (whichever gains more), a text is read again for each word that is written, or a
    frozen network works in each step of a training."""
    replay = m.replay
    tape = tape_of(m)
    if replay is None or tape is None:
        return Offer(words("no_recompute"), KEPT)
    words_again = longest_again(tape)
    if words_again:
        return Offer(words("no_recompute", "cache", count=words_again), WITH_CACHE)
    if replay.gain_ms(CALLED_ONCE) > replay.gain_ms(KEPT):
        once = CALLED_ONCE if have_one_input(tape) else MAYBE_CALLED_ONCE
        return Offer(words("no_recompute", "called_once"), once)
    ahead_ms = replay.gain_ms(MADE_AHEAD)
    if ahead_ms > max(replay.gain_ms(KEPT), LEAST_MADE_AHEAD * replay.base_ms):
        return Offer(words("no_recompute", "ahead"), MADE_AHEAD)
    return Offer(words("no_recompute"), KEPT)


@remedy("fuse_elementwise", "memory", LEAST_OF_CHAINS)
def fuse_elementwise(m: Measurements) -> Offer | None:
    """Where elementwise kernels follow each other, and fusing them shortens the GPU's own time, not
    launches alone."""
    replay = m.replay
    saved_ns = None if replay is None else replay.kernels_saved_ns(FUSED_CHAINS)
    if (
        replay is None
        or saved_ns is None
        or saved_ns < LEAST_SAVED_BY_KERNELS * replay.base_ms * NS_PER_MS
    ):
        return None
    return Offer(words("fuse_elementwise"), FUSED_CHAINS)


@remedy("fused_attention", "memory")
def fused_attention(m: Measurements) -> Offer:
    """Wherever attention is written out, or a kernel of attention gets one square mask for all heads
    and items, which most often is a causal one: whichever gains more."""
    replay = m.replay
    if replay is not None and replay.gain_ms(CAUSAL_ATTENTION) > replay.gain_ms(FUSED_ATTENTION):
        causal = words("fused_attention", "causal")
        return Offer(causal, CAUSAL_ATTENTION, against=("gpu-busy", "compute"))
    return Offer(words("fused_attention"), FUSED_ATTENTION)


@remedy("channels_last", "memory", LEAST_OF_LAYOUT)
def channels_last(m: Measurements) -> Offer | None:
    """Wherever a library changes layouts around its convolutions in two or three dimensions, no
    norm without such a version stands between them, and launches are not what the step waits for,
    nor would be on a slow host; or where the tokens that a convolution cuts keep its layout."""
    tape = tape_of(m)
    if tape is None or _layout_does_not_pay(m, tape):
        return None
    if tokens_turned(tape).any():
        return Offer(words("channels_last", "tokens"), IN_CHANNELS_LAST)
    if not changes_layout(tape).any():
        return None
    space = (dimensions(tape) == SPACE) & changes_layout(tape)
    return Offer(words("channels_last", "video" if space.any() else "planes"), IN_CHANNELS_LAST)


def _layout_does_not_pay(m: Measurements, tape: Tape) -> bool:
    """Whether other layouts come back around norms that have none, hide behind launches, or leave
    the step to a host that is hardly faster than the GPU and has more to do: of five such programs
    that were timed with the other layout none was faster."""
    idle = m.step.idle
    waits_for_launches = idle is not None and idle.launch >= LAUNCH_BOUND * m.step.step_ms
    return (
        waits_for_launches
        or (m.replay is not None and _leaves_the_host(m.replay))
        or bool(launched_within(tape, OTHER_NORMS).any())
    )


def _leaves_the_host(replay: Replay) -> bool:
    """Whether other layouts gain enough on the usual host, and not on a slow one."""
    least_ms = LEAST_OF_LAYOUT * replay.base_ms
    on_slow_ms = replay.slow_host_gain_ms(IN_CHANNELS_LAST)
    return on_slow_ms < least_ms <= replay.gain_ms(IN_CHANNELS_LAST)


@remedy("low_precision", "compute", LEAST_OF_BF16)
def low_precision(m: Measurements) -> Offer:
    """Wherever matrices are multiplied in fp32 or TF32, kernels calculate with doubles, or the weights of
    a model that is not trained are cast in each call: what gains more."""
    replay = m.replay
    others = (IN_BF16, IN_FP32)
    if replay is not None and replay.gain_ms(WEIGHTS_IN_BF16) > max(map(replay.gain_ms, others)):
        weights = words("low_precision", "weights")
        return Offer(weights, WEIGHTS_IN_BF16, against=("gpu-busy", "memory"))
    if replay is not None and replay.gain_ms(IN_FP32) > replay.gain_ms(IN_BF16):
        return Offer(words("low_precision", "single"), IN_FP32, against=("gpu-busy", "memory"))
    # Against memory where most of what kernels save is time of those that it limits, not of
    # products.
    known = program(m)
    tape = tape_of(m)
    fewer_bytes = False
    in_bf16 = IN_BF16.change(tape) if tape is not None else None
    if tape is not None and in_bf16 is not None:
        saved = tape.duration - in_bf16.duration
        fewer_bytes = float(saved[wide_products(tape)].sum()) < 0.5 * float(saved.sum())
    how = "lightning" if known.lightning else "accelerate" if known.accelerate else "autocast"
    action = words("low_precision", by=text("low_precision", how))
    return Offer(action, IN_BF16, against=("fp32-matmul", "memory") if fewer_bytes else None)


@remedy("pad_shapes", "compute")
def pad_shapes(m: Measurements) -> Offer:
    """Wherever products have odd sizes, or a mostly empty last wave."""
    tape = tape_of(m)
    odd = tape is not None and odd_padded(tape) is not None
    return Offer(words("pad_shapes", "pad" if odd else "fill_waves"), PADDED)
