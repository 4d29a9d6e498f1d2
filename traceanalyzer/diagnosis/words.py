"""Advice in the words of the program's framework: what only PyTorch has is not recommended to anything else."""

from __future__ import annotations

import re

from traceanalyzer.analysis.joined.framework import Framework

PYTORCH_WORDS = re.compile(
    r"torch|DataLoader|\.item\(\)|\.cpu\(\)|non_blocking|pin_memory|Python|with_stack|no_sync|\bDDP\b|FSDP|autocast"
    r"|channels_last|\bF\.\w|scaled_dot_product|(?<!jax\.)\bnn\.|record_function|persistent_workers|cudnn_sdp"
)
"""Words that mean something in programs with PyTorch alone."""

CUDA = {
    "launch-bound": "Give the GPU more work per launch: capture the repeated part in a CUDA graph "
    "(cudaStreamBeginCapture, cudaGraphLaunch), fuse small kernels, or give each launch more data.",
    "launch-latency": "Fuse short kernels or enlarge them; queued kernels cost about 1 us each.",
    "host-waits": "Do not wait for the GPU in the loop: cudaStreamSynchronize, cudaDeviceSynchronize and blocking "
    "copies empty its queue. Queue the next work first, copy with cudaMemcpyAsync and pinned memory, and wait for an "
    "event where a result is read; in OpenACC use async queues.",
    "host-waits-and-launches": "Remove the waits, then also launch faster: a loop without waits can be captured in a "
    "CUDA graph.",
    "input-wait": "Load ahead: prepare the next input on another thread while the GPU works, in pinned memory "
    "(cudaHostAlloc), and copy it with cudaMemcpyAsync on a stream of its own.",
    "slow-input": "Load ahead: prepare the next input on other threads while the GPU works; a faster or local copy of "
    "the data.",
    "host-work": "Take CPU work out of the loop: run it on another thread or on the GPU, or queue the next GPU work "
    "before it; record CPU samples (nsys profile --sample=process-tree) to see the functions.",
    "exposed-communication": "Overlap or shrink communication: start it on a stream of its own as soon as its data is "
    "ready, in fewer and larger messages, in lower precision.",
    "exposed-copies": "Copy on a stream of its own with cudaMemcpyAsync and pinned memory (cudaHostAlloc) while "
    "kernels run; send less: smaller types, or keep the data on the GPU.",
    "memory-chains": "Fuse this chain into one kernel, so that data is read and written once.",
    "fp32-matmul": "Use the tensor cores for these matmuls: TF32 (cublasSetMathMode, CUBLAS_TF32_TENSOR_OP_MATH) "
    "or 16-bit inputs, if the accuracy allows.",
    "gpu-busy": "Make the top kernels cheaper: lower precision, fusion, better shapes; Nsight Compute (ncu) says what "
    "limits each.",
    "attention-written-out": "Use a fused attention kernel (cuDNN, FlashAttention): it keeps the scores on the chip.",
    "channels-last": "Keep tensors in NHWC from end to end: convolutions then need no transposition.",
    "layout-copies": "Keep one layout through the chain; cuBLAS takes transposed operands.",
    "repeated-casts": "Cast once and keep the result.",
    "wave-quantisation": "Change a size so that the blocks fill whole waves of the SMs, or choose another tile "
    "(cuBLASLt's heuristics, CUTLASS).",
    "small-matmuls": "Batch these small matmuls: cublasGemmStridedBatchedEx, or a grouped GEMM.",
    "optimizer-not-fused": "Update all parameters in one kernel.",
}
JAX = {
    "launch-bound": "Give the GPU more work per launch: put the whole step into one jit function, several steps into "
    "one call (jax.lax.scan), or raise the batch size.",
    "host-waits": "Do not read values in the step: float(x), np.asarray(x), print(x) and block_until_ready() each "
    "wait; read them once every many steps.",
    "host-waits-and-launches": "Remove the waits, then also launch faster: several steps in one call (jax.lax.scan).",
    "input-wait": "Load ahead: prepare the next batch on another thread and put it on the GPU (jax.device_put) before "
    "the step needs it.",
    "host-work": "Take CPU work out of the loop: jit the whole step; logging and metrics on another thread.",
    "exposed-communication": "Overlap or shrink communication: XLA's latency-hiding scheduler "
    "(--xla_gpu_enable_latency_hiding_scheduler=true), lower precision, larger messages.",
    "memory-chains": "XLA fuses what one jit function holds: put the chain into one, or write it as a Pallas kernel.",
    "fp32-matmul": "Use the tensor cores for these matmuls: jax_default_matmul_precision = 'tensorfloat32', or "
    "bfloat16 inputs, if the accuracy allows.",
    "attention-written-out": "Use jax.nn.dot_product_attention with implementation='cudnn': it keeps the scores on the "
    "chip.",
}
_WORDS = {Framework.CUDA: CUDA, Framework.JAX: {**CUDA, **JAX}}


_WITHOUT_STEPS = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r",? ?\bper (recorded )?step\b", ""),
        (r"\bsteady state\b", "whole recording"),
        (r"^a step, ", ""),
        (r",? a step\b(?! without)", ""),
        (r"\b(each|the) previous step\b|\bthe step before\b", "earlier work"),
        (r"\b([Cc])apture the (whole )?step\b", r"\1apture the repeated part"),
        (r"\b([Aa])head of the step\b", r"\1head"),
        (r" behind the step\b", ""),
        (r"\ba step without\b", "work without"),
        (r"once every many steps|once every 100 steps", "seldom"),
        (r"one step ahead|one batch ahead", "ahead of its use"),
        (r"\brest of the step: it takes\b", "rest: all takes"),
        (r"\bof the recorded step\b", "of the recording"),
        (r"\ba fused step\b", "a fused update"),
        (r"\bmore of the step, or several steps,", "more"),
        (r"\b(the|each|every|whole) step\b", "the loop"),
        (r"; if it is the program's start, later steps do not have it", ""),
    )
)
"""How what is said of a step reads where the recording has none: everything is then of the whole recording."""


def without_steps(text: str) -> str:
    """A text of a rule for a recording in which no steps are known."""
    for pattern, instead in _WITHOUT_STEPS:
        text = pattern.sub(instead, text)
    return text


def in_words_of(framework: Framework, id_: str, action: str) -> str | None:
    """The advice with this id as a program in that framework can take it; None where it has no such thing."""
    if framework is Framework.PYTORCH or not PYTORCH_WORDS.search(action):
        return action
    return _WORDS[framework].get(id_)
