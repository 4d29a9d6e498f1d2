"""What the fuzzer found, minimised (`tests/hostile/finds`), and that it still runs."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.analyzed import remembering
from tests.fuzz.guard import Find, failure, guarded
from tests.fuzz.kinds import KINDS
from traceanalyzer.fleet.digests.files import METADATA, SCHEMA

FINDS = sorted(Path(__file__).with_name("finds").iterdir())


@pytest.mark.parametrize("find", FINDS, ids=lambda find: find.name)
def test_a_find_stays_mended(find, tmp_path, monkeypatch):
    """By the command that its name ends in."""
    remembering(monkeypatch, {})
    kind = KINDS[find.name.split("-")[1]]
    outcomes = [
        failure(kind, find.read_bytes(), tmp_path, number)
        for number in kind.numbers(find.suffix[1:])
    ]
    assert set(outcomes) | {"accepted"} <= {"accepted", "refused"}
    assert outcomes


@pytest.mark.parametrize(
    "find", [find for find in FINDS if "-digest-" in find.name], ids=lambda find: find.name
)
def test_a_find_of_a_digest_has_the_present_schema(find):
    """One of an older schema is refused for that alone, and tests nothing: make it again with the
    same fault in it."""
    assert json.loads(pq.read_metadata(find).metadata[METADATA])["schema"] == SCHEMA


@pytest.mark.parametrize("name", [name for name in KINDS if name != "snapshot"])
def test_a_few_cases_of_each_kind(name, tmp_path):
    assert [
        found for n in range(2) if isinstance(found := guarded(KINDS[name], 0, n, tmp_path), Find)
    ] == []


def test_a_case_depends_on_its_seed_and_number_alone(tmp_path):
    import random

    first, second = (KINDS["kineto"].case(random.Random("kineto/1/2")) for _ in range(2))  # noqa: S311
    assert first == second
