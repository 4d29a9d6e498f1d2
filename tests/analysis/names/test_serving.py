"""The marks that serving frameworks set around an iteration, as found in their recordings and
sources."""

from __future__ import annotations

import pytest

from traceanalyzer.analysis.names.serving import Iteration, framework_of, iteration


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("execute_context_0(0)_generation_32(32)", Iteration("vLLM", "decode", 32, 32)),
        ("execute_context_1(888_788544)_generation_0(0)", Iteration("vLLM", "prefill", 1, 888)),
        (
            "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)",
            Iteration("vLLM", "decode", 32, 32),
        ),
        (
            "execute_8192_context_9(sq8155sk8155sqsq9sqsk9)_generation_37(sq37sk1sqsq1sqsk1)",
            Iteration("vLLM", "mixed", 46, 8192),
        ),
        ("execute_new_2_cached_30", Iteration("vLLM", "iteration", 32)),
        (
            "step[DECODE bs=32 g_sqsq=32 g_sqsk=32785 g_sk=32785]",
            Iteration("SGLang", "decode", 32, 32),
        ),
        ("step[EXTEND bs=15 toks=15360]", Iteration("SGLang", "prefill", 15, 15360)),
        ("step[MIXED bs=66 c=2 g=64]", Iteration("SGLang", "mixed", 66)),
        ("step[decode bs=4]", Iteration("SGLang", "decode", 4, 4)),
        ("step[idle]", Iteration("SGLang", "idle")),
        ("prefill[bs=2 tok=512 ctx=0 sqsq=1 sqsk=1 sk=1]", Iteration("ATOM", "prefill", 2, 512)),
        (
            "[Executor] _forward_step 7: 0 ctx reqs, 8 gen reqs",
            Iteration("TensorRT-LLM", "decode", 8),
        ),
        ("[Executor] _forward_step: 1 ctx reqs, 8 gen reqs", Iteration("TensorRT-LLM", "mixed", 9)),
        (
            "[Executor] _forward_step 9: 2 ctx reqs, 30 ctx tokens, 0 gen reqs",
            Iteration("TensorRT-LLM", "prefill", 2, 30),
        ),
    ],
)
def test_what_marks_say(name: str, said: Iteration) -> None:
    found = iteration(name)
    assert found is not None
    assert (found.framework, found.phase, found.requests, found.tokens) == (
        said.framework,
        said.phase,
        said.requests,
        said.tokens,
    )


@pytest.mark.parametrize(
    ("name", "tokens", "kv_tokens", "pairs"),
    [
        ("execute_context_1(888_788544)_generation_0(0)", 888, None, 888 * 889 // 2),
        (
            "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)",
            8192,
            8430 + 34489,
            7671310 + 34489 - (7475785 - 8155) // 2,
        ),
        ("step[DECODE bs=64 g_sq=128 g_sqsq=256 g_sqsk=9000 g_sk=4500]", 128, 4500, 9000 - 64),
        ("step[DECODE bs=64 g_sqsq=64 g_sqsk=4500 g_sk=4500]", 64, 4500, 4500),
        ("step[DECODE bs=64 g_sqsq=256 g_sqsk=9000 g_sk=4500]", None, 4500, None),
        (
            "step[MIXED bs=3 c=1 g=2 c_sq=10 c_sk=10 c_sqsq=100 c_sqsk=100 g_sq=2 g_sk=9 g_sqsq=2 g_sqsk=9]",
            12,
            19,
            64,
        ),
        ("step[TARGET_VERIFY bs=2 c_sq=8 c_sk=50 c_sqsq=32 c_sqsk=200]", 8, 50, 188),
        (
            "step[EXTEND bs=1 toks=1025 c_sqsq=1050625 c_sqsk=1050625 c_sk=1025]",
            1025,
            1025,
            1025 * 1026 // 2,
        ),
        ("execute_diffusion_2_1024x1024", None, None, None),
    ],
)
def test_the_sums_that_attention_needs(
    name: str, tokens: int | None, kv_tokens: int | None, pairs: int | None
) -> None:
    found = iteration(name)
    assert found is not None
    assert (found.tokens, found.kv_tokens, found.pairs) == (tokens, kv_tokens, pairs)


def test_marks_of_vllm_set_in_another_engine() -> None:
    marks = [
        found for name in ("execute_context_0(0)_generation_2(2)",) if (found := iteration(name))
    ]
    assert framework_of(marks, ["aten::mm"]) == "vLLM"
    assert (
        framework_of(marks, ["sglang/srt/model_executor/model_runner.py(12): forward"]) == "SGLang"
    )
    own = [found for name in ("step[DECODE bs=2]",) if (found := iteration(name))]
    assert framework_of([*marks, *own], []) == "SGLang"


@pytest.mark.parametrize(
    "name", ["execute", "step 3", "prefill", "execute_context", "ProfilerStep#3", "decode[", ""]
)
def test_other_names_mark_nothing(name: str) -> None:
    assert iteration(name) is None
