"""What a stored report says of its run: the program, and what its step rests on."""

from __future__ import annotations

import json

import pytest

from traceanalyzer.base import UnreadableInputError
from traceanalyzer.history.named import NOTHING_SAID, recording_name, said_by


def said(paths=(), command="", basis="recorded", source=None, steps="profiler_step"):
    conditions = [{"name": "command", "value": command}] if command else []
    return said_by(
        json.dumps(
            {
                "inputs": [{"path": path} for path in paths],
                "summary": {"basis": basis},
                "metrics": {
                    "step_source": steps,
                    "unprofiled": {"source": source} if source else None,
                },
                "tables": {"conditions": conditions},
            }
        )
    )


@pytest.mark.parametrize(
    ("paths", "name"),
    [
        (["runs/adam.base.json.gz"], "adam.base"),
        (["runs/night/trace.rank0.json.gz"], "night"),
        (["runs/night/timings.rank0.jsonl"], "night"),
        (["runs/night/nsys.sqlite.gz"], "night"),
        (["runs/night/host_12.1700000123456.pt.trace.json"], "night"),
        (["runs/night/a.json", "runs/night/b.json"], "night"),
        (["trace.json"], "trace"),
        ([], ""),
    ],
)
def test_a_recording_has_the_name_that_a_person_gave(paths, name):
    assert recording_name(paths) == name


def test_a_command_names_the_program_where_it_is_more_than_the_interpreter():
    assert said(["a/adam.json"], "python3 train.py --batch 8").name == "python3 train.py --batch 8"
    assert said(["a/adam.json"], "python3").name == "adam"


def test_a_step_rests_on_a_stopwatch_an_estimate_or_the_recording():
    assert said(basis="unprofiled", source="measured").basis == "measured"
    assert said(basis="unprofiled", source="estimated").basis == "estimated"
    assert said(source="estimated").basis == "recorded"
    assert said(steps="timing_log").basis == "measured"


def test_a_report_of_another_version_says_nothing_and_a_damaged_one_is_refused():
    assert said_by("{}") == NOTHING_SAID
    with pytest.raises(UnreadableInputError, match="the history is damaged"):
        said_by('{"inputs": 3}')
