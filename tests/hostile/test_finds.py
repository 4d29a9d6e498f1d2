"""What the fuzzer found, minimised (`tests/hostile/finds`), and that it still runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.guard import Find, failure, guarded
from tests.fuzz.kinds import KINDS

FINDS = sorted(Path(__file__).with_name("finds").iterdir())


@pytest.mark.parametrize("find", FINDS, ids=lambda find: find.name)
def test_a_find_stays_mended(find, tmp_path):
    """By the command that its name ends in."""
    kind = KINDS[find.name.split("-")[1]]
    outcomes = [failure(kind, find.read_bytes(), tmp_path, number) for number in kind.numbers(find.suffix[1:])]
    assert set(outcomes) | {"accepted"} <= {"accepted", "refused"}
    assert outcomes


@pytest.mark.parametrize("name", [name for name in KINDS if name != "snapshot"])
def test_a_few_cases_of_each_kind(name, tmp_path):
    assert [found for n in range(4) if isinstance(found := guarded(KINDS[name], 0, n, tmp_path), Find)] == []


def test_a_case_depends_on_its_seed_and_number_alone(tmp_path):
    import random

    first, second = (KINDS["kineto"].case(random.Random("kineto/1/2")) for _ in range(2))  # noqa: S311
    assert first == second
