"""Remedies for kernels: less work, fewer bytes, faster units."""

from traceanalyzer.analysis.groups.passes import MIN_CHAIN
from traceanalyzer.base import NS_PER_MS
from traceanalyzer.diagnosis.finding import Words, everywhere
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.remedies.program import program, tape_of
from traceanalyzer.diagnosis.remedies.remedy import Offer, remedy, wherever
from traceanalyzer.replay.changes.attention import attention_fused
from traceanalyzer.replay.changes.compiling import functions_compiled
from traceanalyzer.replay.changes.fusion import WRITTEN_OUT, Reading, fusing
from traceanalyzer.replay.changes.kernels import SPACE, changes_layout, dimensions, odd_padded, padded
from traceanalyzer.replay.changes.kernels import channels_last as in_channels_last
from traceanalyzer.replay.changes.precision import TENSOR_EFFICIENCY, in_16_bits, in_tf32, wide_products
from traceanalyzer.replay.changes.recompute import HOOKED_SHARE, kept
from traceanalyzer.replay.limits import OF_KERNELS
from traceanalyzer.replay.scenarios import Scenario

FUSED_CHAINS = Scenario(
    "fuse_elementwise",
    functions_compiled(Reading.TYPICAL, MIN_CHAIN),
    f"each run of at least {MIN_CHAIN} kernels of written-out operators on the same data is one kernel: it moves what "
    "the largest of them moves, has the arithmetic of all, and reads a reduction's rows again; the host spends on it "
    "what it did, or what calling a compiled function costs (lower end: one launch; upper end: it takes as long as the "
    "longest, and a single one before its first reduction stays, as with a library's operator)",
    optimistic=fusing(WRITTEN_OUT, Reading.OPTIMISTIC, MIN_CHAIN),
    pessimistic=functions_compiled(Reading.PESSIMISTIC, MIN_CHAIN, library=True),
    spread=OF_KERNELS,
)
FUSE = Words(
    "Fuse the chain: a library operator (F.layer_norm, F.group_norm, F.gelu, F.cross_entropy), @torch.compile on the "
    "function, or a Triton kernel.",
    "Fuse the chain of elementwise and reduction kernels into one kernel.",
)
LEAST_SAVED_BY_KERNELS = 0.02
"""Share of the step that its kernels must become shorter by: what only saves launches is for a compiler."""
LEAST_OF_CHAINS = 0.08
"""What is gained less often lies between operators that no library has together, and is within what fused kernels
differ by."""


@remedy("fuse_elementwise", "memory", "memory-chains", LEAST_OF_CHAINS)
def fuse_elementwise(m: Measurements) -> Offer | None:
    """Where elementwise kernels follow each other, and fusing them shortens the GPU's own time, not launches alone."""
    replay = m.replay
    saved_ns = None if replay is None else replay.kernels_saved_ns(FUSED_CHAINS)
    if replay is None or saved_ns is None or saved_ns < LEAST_SAVED_BY_KERNELS * replay.base_ms * NS_PER_MS:
        return None
    return Offer(FUSE, FUSED_CHAINS)


fused_attention = wherever(
    "attention is written out",
    "fused_attention",
    "memory",
    "attention-written-out",
    Words("Use F.scaled_dot_product_attention(q, k, v) (transformers: attn_implementation='sdpa')."),
    Scenario(
        "fused_attention",
        attention_fused,
        "attention's products, the passes over the scores between them and the copies for them are one kernel, "
        "forward and backward each, that takes the time of the products and exponentials",
        spread=OF_KERNELS,
    ),
)

IN_CHANNELS_LAST = Scenario(
    "channels_last",
    in_channels_last,
    "without the kernels that change the layout around convolutions; batch norms reach 40% of the memory's bandwidth",
    spread=OF_KERNELS,
)
PLANES = Words("Use channels-last: model.to(memory_format=torch.channels_last), and the inputs, too.")
VIDEO = Words("Use channels-last: model.to(memory_format=torch.channels_last_3d), and the inputs, too.")
LEAST_OF_LAYOUT = 0.04
"""Other kernels come with the other layout: for few channels, or groups of them, slower ones."""


@remedy("channels_last", "memory", "channels-last", LEAST_OF_LAYOUT)
def channels_last(m: Measurements) -> Offer | None:
    """Wherever a library changes layouts around its convolutions in two or three dimensions."""
    tape = tape_of(m)
    if tape is None or not changes_layout(tape).any():
        return None
    space = (dimensions(tape) == SPACE) & changes_layout(tape)
    return Offer(VIDEO if space.any() else PLANES, IN_CHANNELS_LAST)


tf32 = wherever(
    "fp32 matrices are multiplied on the ordinary cores",
    "tf32",
    "compute",
    "fp32-matmul",
    Words(
        "Allow TF32 for products: torch.set_float32_matmul_precision('high').",
        "Allow TF32 for products: the math mode or compute type CUBLAS_COMPUTE_32F_FAST_TF32.",
    ),
    Scenario(
        "tf32",
        in_tf32,
        f"products of fp32 matrices reach {TENSOR_EFFICIENCY:.0%} of the tensor cores' dense TF32 peak; clocks are "
        "lower where they pause less",
        spread=OF_KERNELS,
    ),
)

USUAL_TRAFFIC = 0.6
"""Share of their time that kernels on fp32 activations keep: half of the bytes, and some stay in fp32."""
INDEXED_TRAFFIC = 0.85
"""The same of kernels for operands that do not lie alike in memory: half of the bytes, but at 0.6 times the rate."""
IN_BF16 = Scenario(
    "low_precision",
    in_16_bits(TENSOR_EFFICIENCY, USUAL_TRAFFIC, INDEXED_TRAFFIC),
    f"products reach {TENSOR_EFFICIENCY:.0%} of the dense bf16 peak and cost a tenth more for casts, which the host "
    "launches, too; kernels that move fp32 activations at the memory's rate take 60% of their time, those that spread "
    "an operand 85% (upper end: 80% and all, and products half of the peak); what takes a parameter beside them stays "
    "in fp32",
    optimistic=in_16_bits(0.85, 0.5, 0.7),
    pessimistic=in_16_bits(0.5, 0.8, 1.0),
    spread=OF_KERNELS,
)
LEAST_OF_BF16 = 0.05
"""Casts of small tensors cost launches; results differ a little."""


@remedy("low_precision", "compute", "fp32-matmul", LEAST_OF_BF16)
def low_precision(m: Measurements) -> Offer:
    """Wherever matrices are multiplied in fp32 or TF32."""
    known = program(m)
    if known.lightning:
        how = "Trainer(precision='bf16-mixed')"
    elif known.accelerate:
        how = "Accelerator(mixed_precision='bf16'), or bf16=True in TrainingArguments"
    else:
        how = "with torch.autocast('cuda', torch.bfloat16): around forward and loss"
    words = Words(f"Compute in bf16: {how}.", "Compute in bf16: bf16 operands.")
    return Offer(words, IN_BF16, against=("fp32-matmul", "memory") if _fewer_bytes(m) else None)


def _fewer_bytes(m: Measurements) -> bool:
    """Whether most of what kernels save is time of those that are limited by memory, not of products."""
    tape = tape_of(m)
    found = None if tape is None else IN_BF16.change(tape)
    if tape is None or found is None:
        return False
    saved = tape.duration - found.duration
    return float(saved[wide_products(tape)].sum()) < 0.5 * float(saved.sum())


PADDED = Scenario(
    "pad_shapes",
    padded,
    "products of odd sizes reach what aligned ones reach, and the last wave of blocks is full",
    spread=OF_KERNELS,
)
FILL_WAVES = Words(
    "Change a size (batch, sequence, hidden) so that the blocks fill whole waves of the SMs, or let autotuning choose "
    "another tile: torch.compile(mode='max-autotune').",
    "Change a size so that the blocks fill whole waves of the SMs, or choose another tile (cuBLASLt's heuristics, "
    "CUTLASS).",
)
PAD = Words("Pad odd sizes (vocabulary, hidden, sequence length) to multiples of 64, e.g. nn.Embedding(num + pad).")


@remedy("pad_shapes", "compute", "misaligned-matmul")
def pad_shapes(m: Measurements) -> Offer:
    """Wherever products have odd sizes, or a mostly empty last wave."""
    odd = (tape := tape_of(m)) is not None and odd_padded(tape) is not None
    return Offer(PAD if odd else FILL_WAVES, PADDED)


no_recompute = wherever(
    "a forward pass runs again",
    "no_recompute",
    "compute",
    "gpu-busy",
    everywhere(
        "Keep activations where memory allows: model.gradient_checkpointing_disable(), or checkpoint every 2nd block."
    ),
    Scenario(
        "no_recompute",
        kept(HOOKED_SHARE),
        "operators of the forward pass that run again within the backward pass are gone, and so are the host's "
        "hooks on what is saved, a quarter of its time for the others (upper end: they stay); it takes the memory "
        "that checkpointing saves",
        pessimistic=kept(1.0),
        spread=OF_KERNELS,
    ),
)
