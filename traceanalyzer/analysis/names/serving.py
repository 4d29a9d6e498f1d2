"""Names by which serving frameworks mark one iteration of their engine, and what they say about
it."""

import re
from collections.abc import Iterable, Sequence

from traceanalyzer.base import dataclass, regex

_N = r"(\d{1,18})"


@dataclass(frozen=True)
class Iteration:
    """What the marker of an iteration says; None where it does not."""

    framework: str
    phase: str  # `prefill`, `decode`, `mixed`, `verify`, `idle` or `iteration` (not told)
    requests: int | None = None
    tokens: int | None = None  # new tokens that it computes
    kv_tokens: int | None = None  # sum of the requests' lengths: what attention reads of the cache
    pairs: int | None = None  # pairs of a new token and one that it sees, over all requests


VLLM = "vLLM"
_VLLM = regex(rf"^execute_(?:{_N}_)?context_{_N}\(([^)]*)\)_generation_{_N}\(([^)]*)\)")
_VLLM_NEW_CACHED = regex(rf"^execute_new_{_N}_cached_{_N}$")
_DIFFUSION = regex(rf"^execute_diffusion_{_N}_\d+x\d+")
_SGLANG = regex(r"^step\[(\w++)([^\]]*+)\]")
_OF_SGLANG = regex(r"^step\[\w+[ \]]|\bsglang/|\bsgl_kernel::|\bsglang::")
_ATOM = regex(r"^(prefill|decode)\[([^\]]*)\]")
_TENSORRT_LLM = regex(
    rf"^\[Executor\] _forward_step\s*(?:\d+)?: {_N} ctx reqs(?:, {_N} ctx tokens)?, {_N} gen reqs"
)
_SGLANG_PHASES = {
    **dict.fromkeys(("EXTEND", "SPLIT_PREFILL", "DLLM_EXTEND", "PREBUILT"), "prefill"),
    "DECODE": "decode",
    "MIXED": "mixed",
    "TARGET_VERIFY": "verify",
    "IDLE": "idle",
}
_SUMS = regex(r"(sqsq|sqsk|sq|sk)(\d{1,18})")
_STARTS = ("execute_", "step[", "prefill[", "decode[", "[Executor]")
Sums = dict[
    str, int
]  # sums over requests of query lengths (`sq`), key lengths (`sk`), their squares and products


def iteration(name: str) -> Iteration | None:
    """What a range of this name says, None where it marks no iteration."""
    if not name.startswith(_STARTS):
        return None
    if match := _VLLM.match(name):
        context = int(match[2])
        generation = int(match[4])
        return _summed(
            VLLM,
            iteration_phase(context, generation),
            context + generation,
            [_vllm(match[3]), _vllm(match[5])],
        )
    if match := _VLLM_NEW_CACHED.match(name):
        return Iteration(VLLM, "iteration", int(match[1]) + int(match[2]))
    if match := _DIFFUSION.match(name):
        return Iteration(VLLM, "iteration", int(match[1]))
    if match := _SGLANG.match(name):
        return _sglang(_SGLANG_PHASES.get(match[1].upper(), "iteration"), _fields(match[2]))
    if match := _ATOM.match(name):
        fields = _fields(match[2])
        return _summed(
            "ATOM",
            match[1],
            fields.get("bs"),
            [{"sq": fields["tok"]} | fields] if "tok" in fields else [],
        )
    if match := _TENSORRT_LLM.match(name):
        context = int(match[1])
        generation = int(match[3])
        tokens = None if match[2] is None else int(match[2]) + generation
        return Iteration(
            "TensorRT-LLM", iteration_phase(context, generation), context + generation, tokens
        )
    return None


@dataclass(frozen=True)
class Split:
    """The requests of an iteration that are prefilled and those that decode, with their new
    tokens."""

    context_requests: int | None = None
    context_tokens: int | None = None
    generation_requests: int | None = None
    generation_tokens: int | None = None


def split(name: str) -> Split:
    """What the mark of an iteration says of its prefills and its decodes; None where it does
    not."""
    if match := _VLLM.match(name):
        prefills = _vllm(match[3]).get("sq")
        decodes = _vllm(match[5]).get("sq")
        return Split(int(match[2]), prefills, int(match[4]), decodes)
    if match := _TENSORRT_LLM.match(name):
        prefills = 0 if match[1] == "0" else None if match[2] is None else int(match[2])
        return Split(int(match[1]), prefills, int(match[3]), int(match[3]))
    marked = iteration(name)
    match = _SGLANG.match(name) or _ATOM.match(name)
    if marked is None or match is None:
        return Split()
    fields = _fields(match[2])
    decode = Split(0, 0, marked.requests, fields.get("c_sq", marked.tokens))
    context_queries = fields.get("c_sq")
    generating = fields.get("g")
    mixed = Split(fields.get("c"), context_queries, generating, fields.get("g_sq", generating))
    prefill = Split(marked.requests, marked.tokens, 0, 0)
    by_phase = {
        "prefill": prefill,
        "decode": decode,
        "verify": decode,
        "idle": Split(0, 0, 0, 0),
    }
    return by_phase.get(marked.phase or "", mixed)


def framework_of(marked: Sequence[Iteration], names: Iterable[str]) -> str:
    """Whose iterations these are: vLLM's marks are set in other engines too, whose own marks,
    kernels or files (among the recording's names) tell."""
    own = next((one.framework for one in marked if one.framework != VLLM), None)
    return own or (
        "SGLang" if own is None and any(map(_OF_SGLANG.search, names)) else marked[0].framework
    )


def _fields_of(prefix: str, fields: Sums) -> Sums:
    """The fields with that prefix, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in fields.items()
        if name.startswith(prefix)
    }


def _sglang(phase: str, fields: Sums) -> Iteration:
    """New tokens of prefills are `toks` or `c_sq`; a decode has one a request, unless it says
    otherwise."""
    context = _fields_of("c_", fields)
    generation = _fields_of("g_", fields)
    requests = fields.get("bs")
    if "toks" in fields:
        context.setdefault("sq", fields["toks"])
    elif (
        phase == "decode" and requests is not None and generation.get("sqsq", requests) == requests
    ):
        generation.setdefault("sq", requests)
    return _summed("SGLang", phase, requests, [part for part in (context, generation) if part])


def _summed(framework: str, phase: str, requests: int | None, parts: list[Sums]) -> Iteration:
    """The iteration whose prefills and decodes these sums describe."""

    def total(key: str) -> int | None:
        return (
            sum(part[key] for part in parts)
            if parts and all(key in part for part in parts)
            else None
        )

    queries = total("sq")
    products = total("sqsk")
    squares = total("sqsq")
    visible = None
    if queries is not None and products is not None and squares is not None and squares >= queries:
        visible = products - (squares - queries) // 2
    return Iteration(framework, phase, requests, queries, total("sk"), visible)


def _vllm(text: str) -> Sums:
    """`32`, `888_788544` (tokens and the sum of their squares, of prompts without a cache) or
    `sq32sk55086sqsq32sqsk55086`."""
    if text.startswith("sq"):
        return {key: int(value) for key, value in _SUMS.findall(text)}
    tokens, _, squares = text.partition("_")
    if not tokens.isdigit():
        return {}
    sums = {"sq": int(tokens)}
    if squares.isdigit() or tokens == "0":
        sums |= dict.fromkeys(("sqsq", "sqsk"), int(squares or 0))
    return sums


def _fields(text: str) -> Sums:
    return {key: int(value) for key, value in re.findall(r"(?:^|\s)([a-z_]+)=(\d{1,18})", text)}


def iteration_phase(context: int, generation: int) -> str:
    """The phase of an iteration with so many prefills and decodes."""
    if context and generation:
        return "mixed"
    return "prefill" if context else "decode" if generation else "idle"
