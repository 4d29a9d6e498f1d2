"""Sizes as texts print them."""

import pytest

from traceanalyzer.ingest.texts.figures import size_in


@pytest.mark.parametrize(("letter", "power"), [("K", 10), ("M", 20), ("G", 30), ("T", 40)])
def test_every_unit_that_is_found_has_a_size(letter: str, power: int) -> None:
    for unit in (f"{letter}B", f"{letter}iB"):
        assert size_in(f"tried to allocate 1.5 {unit}") == 1.5 * 2**power


def test_bytes() -> None:
    assert size_in("4,096 bytes") == 4096
    assert size_in("12 B") == 12
    assert size_in("no size") is None
