"""Sets of programs: each is found, and says what it is about."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("torch")

from benchmarks.pairs.sets import names, of_two_ranks, programs


@pytest.mark.parametrize("name", names())
def test_every_set_has_programs_with_and_without_a_remedy(name: str) -> None:
    found = programs(name)
    assert len(found) >= 7
    assert all(one.make.__doc__ and one.timed[0] == "base" and len(one.timed) > 1 for one in found)


def test_a_program_is_called_as_no_other() -> None:
    count = Counter(one.name for name in names() for one in programs(name))
    assert [name for name, times in count.items() if times > 1] == []
    assert sum(map(of_two_ranks, names())) == 7
