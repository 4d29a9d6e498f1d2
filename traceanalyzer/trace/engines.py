"""How serving engines record iterations of a running server: what is wrapped around the server's
process does not reach its workers."""

from collections.abc import Iterable, Iterator

VLLM = (
    'vllm serve --profiler-config \'{"profiler": "torch", "torch_profiler_dir": "DIR"}\', then POST '
    "/start_profile and /stop_profile"
)
SGLANG = "SGLANG_TORCH_PROFILER_DIR=DIR, then POST /start_profile"
TENSORRT_LLM = (
    "TLLM_PROFILE_START_STOP=100-150 nsys profile -c cudaProfilerApi --cuda-graph-trace=node -t "
    "cuda,nvtx"
)
OWN_PROFILERS = {"vllm": VLLM, "sglang": SGLANG, "tensorrt_llm": TENSORRT_LLM}
"""By the engine's name in `iterations`."""
ENDS_WITH_ERROR = "The log ends with an error."
"""How the note on a log begins whose run or server died."""
ANY_ENGINE = (
    "with the engine's own profiler (vLLM and SGLang: /start_profile; TensorRT-LLM: nsys with "
    "TLLM_PROFILE_START_STOP)"
)


def errors_at_end(notes: Iterable[str]) -> Iterator[str]:
    """The notes on a log that say with which error its run or server died."""
    return (note for note in notes if note.startswith(ENDS_WITH_ERROR))


def with_profiler_of(engine: str) -> str:
    """What records iterations of a server, in words behind "record"; of any engine where it is not
    known."""
    flags = OWN_PROFILERS.get(engine)
    return ANY_ENGINE if flags is None else f"with the engine's own profiler ({flags})"
