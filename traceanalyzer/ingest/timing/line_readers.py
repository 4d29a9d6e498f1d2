"""Which function reads the lines of a format that is more than keys and values."""

from collections.abc import Callable
from functools import partial

from traceanalyzer.ingest.timing.printed import memory_line, phase_line
from traceanalyzer.ingest.timing.records import Values
from traceanalyzer.ingest.timing.special import (
    MICRO_PHASES,
    deepspeed_phases,
    deepspeed_timer,
    hf_trainer_summary,
    mlperf_event,
    progress_bar,
    searched,
    sglang_batch,
    tensorrt_llm_iteration,
    tensorrt_llm_metrics,
    vllm_iteration,
    vllm_throughput,
)
from traceanalyzer.ingest.timing.trainers import (
    darknet_line,
    dll_line,
    keras_samples,
    stylegan_line,
    tinygrad_line,
)

READERS: dict[str, Callable[[str], Values | None]] = {
    "vLLM iterations": searched(vllm_iteration),
    "TensorRT-LLM iterations": searched(tensorrt_llm_iteration),
    "TensorRT-LLM metrics": tensorrt_llm_metrics,
    "SGLang batches": searched(sglang_batch),
    "vLLM": searched(vllm_throughput),
    "MLPerf": mlperf_event,
    "darknet": searched(darknet_line),
    "tinygrad": searched(tinygrad_line),
    "StyleGAN": searched(stylegan_line),
    "keras, by samples": searched(keras_samples),
    "DLLogger": searched(dll_line),
    "HF Trainer": searched(hf_trainer_summary),
    "DeepSpeed": searched(deepspeed_timer),
    "DeepSpeed micro-steps": searched(partial(deepspeed_phases, pattern=MICRO_PHASES)),
    "Lightning": searched(partial(progress_bar, lightning=True)),
    "progress bar": searched(partial(progress_bar, lightning=False)),
    "printed phases": searched(phase_line),
    "printed memory": searched(memory_line),
}
"""By the name of their format."""
