"""The marks that serving frameworks set around an iteration, as found in their recordings and sources."""

from __future__ import annotations

import pytest

from traceanalyzer.analysis.names.serving import Iteration, iteration


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
        ("step[DECODE bs=32 g_sqsq=32 g_sqsk=32785 g_sk=32785]", Iteration("SGLang", "decode", 32, 32)),
        ("step[EXTEND bs=15 toks=15360]", Iteration("SGLang", "prefill", 15, 15360)),
        ("step[MIXED bs=66 c=2 g=64]", Iteration("SGLang", "mixed", 66)),
        ("step[decode bs=4]", Iteration("SGLang", "decode", 4, 4)),
        ("step[idle]", Iteration("SGLang", "idle")),
        ("prefill[bs=2 tok=512 ctx=0 sqsq=1 sqsk=1 sk=1]", Iteration("ATOM", "prefill", 2, 512)),
        ("[Executor] _forward_step 7: 0 ctx reqs, 8 gen reqs", Iteration("TensorRT-LLM", "decode", 8)),
        ("[Executor] _forward_step: 1 ctx reqs, 8 gen reqs", Iteration("TensorRT-LLM", "mixed", 9)),
        (
            "[Executor] _forward_step 9: 2 ctx reqs, 30 ctx tokens, 0 gen reqs",
            Iteration("TensorRT-LLM", "prefill", 2, 30),
        ),
    ],
)
def test_what_marks_say(name: str, said: Iteration) -> None:
    assert iteration(name) == said


@pytest.mark.parametrize("name", ["execute", "step 3", "prefill", "execute_context", "ProfilerStep#3", "decode[", ""])
def test_other_names_mark_nothing(name: str) -> None:
    assert iteration(name) is None
