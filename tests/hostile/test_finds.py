"""What the fuzzer found, minimised (`tests/hostile/finds`), and that it still runs."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.analyzed import remembering
from tests.fuzz import guard
from tests.fuzz.guard import Find, failure, guarded
from tests.fuzz.kinds import KINDS, Kind
from tests.fuzz.model import is_sound
from tests.fuzz.use import cost, lacking
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


def test_most_cases_only_read_and_few_measure_everything():
    kind = KINDS["proton"]
    chosen = [cost(kind.commands[kind.chosen(str(n).encode())]) for n in range(1000)]
    assert 650 < chosen.count("read") < 750
    assert 30 < chosen.count("report") < 70


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


def test_a_case_that_ends_its_process_is_kept_and_the_next_one_runs(tmp_path, monkeypatch):
    """As where a library of others aborts: also where what aborts is the change of the input."""
    kind = KINDS["proton"]
    third = kind.case(0, 3)

    def use(self, data, folder, number=None):
        if data == third:
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(Kind, "use", use)
    (found,) = guard.served(kind, 0, 3, tmp_path, ends=0)
    assert (found.number, found.data, found.why.split(":")[0]) == (3, third, "Killed")
    (following,) = guard.served(kind, 0, 4, tmp_path, ends=0)
    assert isinstance(following, guard.Answer)
    monkeypatch.setattr(Kind, "case", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    (found,) = guard.served(kind, 0, 3, tmp_path, ends=0)
    assert (found.number, found.data) == (3, b"")
    assert found.why.endswith("the fuzzer's own change")


def test_what_needs_a_module_that_is_missing_is_left_out(monkeypatch):
    monkeypatch.setattr("tests.fuzz.use.find_spec", lambda name: None)
    lacking.cache_clear()
    kind = replace(KINDS["kineto"])
    lacks = {kind.commands[i][0] for i in range(len(kind.commands)) if i not in kind.possible}
    lacking.cache_clear()
    assert lacks == {"digest", "fleet", "export"}
    assert len(kind.commands) - len(kind.possible) == 3  # an export as SQLite is possible


def test_a_case_depends_on_its_seed_and_number_alone():
    kind = KINDS["kineto"]
    in_order = [kind.case(1, number) for number in (2, 3, 14)]
    assert [kind.case(1, number) for number in (14, 3, 2)] == in_order[::-1]


def test_the_first_of_a_group_is_valid_and_the_others_begin_with_it():
    kind = KINDS["kineto"]
    sound = kind.case(1, 10)
    assert all(kind.case(1, number) != sound for number in range(11, 20))
    assert kind.case(1, 10) == sound
