"""Names by which serving frameworks mark one iteration of their engine, and what they say about it."""

from __future__ import annotations

import re

from traceanalyzer.base.frozen import dataclass

_N = r"(\d+)"


@dataclass(frozen=True)
class Iteration:
    """What the marker of an iteration says; None where it does not."""

    framework: str
    phase: str
    """`prefill`, `decode`, `mixed`, `verify`, `idle` or `iteration` (not told)."""
    requests: int | None = None
    tokens: int | None = None
    """New tokens that it computes."""


_VLLM = re.compile(rf"^execute_(?:{_N}_)?context_{_N}\(([^)]*)\)_generation_{_N}\(([^)]*)\)")
_VLLM_NEW_CACHED = re.compile(rf"^execute_new_{_N}_cached_{_N}$")
_SGLANG = re.compile(r"^step\[(\w+)([^\]]*)\]")
_ATOM = re.compile(r"^(prefill|decode)\[([^\]]*)\]")
_TENSORRT_LLM = re.compile(
    rf"^\[Executor\] _forward_step\s*(?:\d+)?: {_N} ctx reqs(?:, {_N} ctx tokens)?, {_N} gen reqs"
)
_SGLANG_PHASES = {"EXTEND": "prefill", "DECODE": "decode", "MIXED": "mixed", "TARGET_VERIFY": "verify", "IDLE": "idle"}


def iteration(name: str) -> Iteration | None:
    """What a range of this name says, None where it marks no iteration."""
    if match := _VLLM.match(name):
        return _vllm(match)
    if match := _VLLM_NEW_CACHED.match(name):
        return Iteration("vLLM", "iteration", int(match[1]) + int(match[2]))
    if match := _SGLANG.match(name):
        phase = _SGLANG_PHASES.get(match[1].upper(), "iteration")
        requests, tokens = _field(match[2], "bs"), _field(match[2], "toks")
        return Iteration("SGLang", phase, requests, requests if tokens is None and phase == "decode" else tokens)
    if match := _ATOM.match(name):
        return Iteration("ATOM", match[1], _field(match[2], "bs"), _field(match[2], "tok"))
    if match := _TENSORRT_LLM.match(name):
        context, generation = int(match[1]), int(match[3])
        tokens = None if match[2] is None else int(match[2]) + generation
        return Iteration("TensorRT-LLM", _phase(context, generation), context + generation, tokens)
    return None


def _vllm(match: re.Match[str]) -> Iteration:
    """Both spellings: tokens in brackets, with the sum of squares behind, or sums of query and key lengths."""
    context, generation = int(match[2]), int(match[4])
    tokens = [_query_tokens(match[3]), _query_tokens(match[5])]
    known = [t for t in tokens if t is not None]
    return Iteration("vLLM", _phase(context, generation), context + generation, sum(known) if known else None)


def _query_tokens(text: str) -> int | None:
    """`888_788544`, `32` or `sq32sk55086sqsq32sqsk55086`."""
    match = re.match(r"(?:sq)?(\d+)", text)
    return int(match[1]) if match else None


def _field(text: str, name: str) -> int | None:
    match = re.search(rf"(?:^|\s){name}=(\d+)", text)
    return int(match[1]) if match else None


def _phase(context: int, generation: int) -> str:
    if context and generation:
        return "mixed"
    return "prefill" if context else "decode" if generation else "idle"
