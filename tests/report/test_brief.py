"""What the first screen leaves out of a text."""

from __future__ import annotations

import pytest

from traceanalyzer.report.brief import brief, in_few_words, shown_path


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Keep values there; call .item() seldom.", "Keep values there."),
        ("Keep values there. Call .item() seldom.", "Keep values there."),
        ("Keep values, and call .item() every 100 times.", "Keep values…"),
        ("Capture a graph: wrap the model in its own call", "Capture a graph…"),
        ("Pad sizes (vocabulary, hidden, sequence) to 64", "Pad sizes (vocabulary, hidden…"),
        ("Short.", "Short."),
    ],
)
def test_what_ends_within_a_clause_says_so(text: str, shown: str) -> None:
    assert brief(text, 32) == shown


@pytest.mark.parametrize(
    ("action", "named"),
    [
        ("Remove the sync: keep values on the GPU; drop synchronize().", "Remove the sync"),
        ("Raise the batch size (up to 8 times), and the rate.", "Raise the batch size"),
        ("/home/a/cases.py:33: remove the call (f(x: int)).", "cases.py:33: remove the call"),
        (
            "DataLoader(num_workers=8, prefetch_factor=2)",
            "DataLoader(num_workers=8, prefetch_factor=2)",
        ),
    ],
)
def test_a_change_is_named_by_its_first_clause(action: str, named: str) -> None:
    assert in_few_words(action) == named


def test_standard_input_cannot_be_typed_again() -> None:
    assert shown_path("a b.json", "PATH") == "'a b.json'"
    for none in ("", "-", "x" * 200):
        assert shown_path(none, "PATH") == "PATH"
