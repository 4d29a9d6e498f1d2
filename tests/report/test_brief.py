"""What the first screen leaves out of a text."""

from __future__ import annotations

import pytest

from traceanalyzer.report.brief import brief


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
