"""Which strings a test holds of."""

from __future__ import annotations

import re

from traceanalyzer.analysis.algebra import lookup, texts_where

NAMES = [
    "aten::mm",
    "fp16_gemm",
    "fp32_gemm",
    "step 1",
    "step 2",
    "[[4, 8], []]",
    "[[2, 2], []]",
    "",
]


def test_each_string_is_told_by_itself_in_ordinary_recordings() -> None:
    found = texts_where(NAMES, {"step 2"}.__contains__)
    assert found.tolist() == [text == "step 2" for text in NAMES] + [False]
    found = texts_where(NAMES, re.compile("fp16").search)
    assert found.tolist() == ["fp16" in text for text in NAMES] + [False]


def test_sizes_of_tensors_are_tested_once() -> None:
    asked: list[str] = []
    sizes = [f"[[{i}, {i + 1}], []]" for i in range(100)]
    texts_where([*NAMES, *sizes], asked.append)
    assert asked == [text for text in NAMES if text != "[[2, 2], []]"]


def test_of_many_strings_those_with_other_numbers_are_tested_once() -> None:
    many = [f"request {i}" for i in range(lookup.MANY_TEXTS)]
    asked: list[str] = []
    assert texts_where(
        many, lambda text: asked.append(text) or text.startswith("req")
    ).sum() == len(many)
    assert asked == ["request 0"]


def test_lists_asked_about_by_turns_are_told_apart() -> None:
    first = ["a", "b"]
    second = ["b", "a"]
    for _ in range(2):
        assert texts_where(first, "a".__eq__).tolist() == [True, False, False]
        assert texts_where(second, "a".__eq__).tolist() == [False, True, False]
    first.append("a")
    assert texts_where(first, "a".__eq__).tolist() == [True, False, True, False]
