"""What the fuzzer found, minimised (`tests/hostile/finds`), and that it still runs."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.analyzed import remembering
from tests.fuzz import guard
from tests.fuzz.guard import Find, failure, guarded
from tests.fuzz.kinds import KINDS, Kind
from tests.fuzz.model import is_sound
from tests.fuzz.use import CHEAP, READ
from traceanalyzer.fleet.digests.files import METADATA, SCHEMA
from traceanalyzer.trace import ApiCalls, Trace

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


def test_half_of_the_cases_only_read_and_few_measure_everything():
    kind = KINDS["proton"]
    chosen = [kind.commands[kind.chosen(str(n).encode())][0] for n in range(1000)]
    dear = [name for name in chosen if name not in CHEAP and name != READ]
    assert 450 < chosen.count(READ) < 550
    assert 70 < len(dear) < 130


def test_an_unsound_model_is_a_find(tmp_path):
    def traced(**columns):
        return Trace("a.json", "kineto", ["aten::mm"], api_calls=ApiCalls(**base | columns))

    base = {f.name: np.zeros(2, f.metadata["dtype"]) for f in fields(ApiCalls)}
    base["thread"] -= 1
    is_sound(traced())
    for column, odd in {"start": [5, 3], "end": [-7, 0], "name": [1, 0], "thread": [0, 4]}.items():
        with pytest.raises(AssertionError, match="api_calls"):
            is_sound(traced(**{column: np.array(odd, base[column].dtype)}))


def test_a_case_that_never_answers_is_a_find(tmp_path, monkeypatch):
    """Also where no signal gets through to Python."""

    def stuck(*_):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF])
        time.sleep(60)

    monkeypatch.setattr(guard, "STUCK_S", 0.2)
    monkeypatch.setattr(Kind, "use", stuck)
    found = list(guard.served(KINDS["proton"], 0, 3, tmp_path, time.monotonic() + 1))
    assert [(find.number, find.why.split(":")[0]) for find in found] == [(3, "Killed")]


def test_a_case_depends_on_its_seed_and_number_alone(tmp_path):
    import random

    first, second = (KINDS["kineto"].case(random.Random("kineto/1/2")) for _ in range(2))  # noqa: S311
    assert first == second
