"""The runs of a history for people: by program, newest last."""

from __future__ import annotations

from tests.history.test_pages import stored
from traceanalyzer.history.run_list import runs_document
from traceanalyzer.history.runs import Tags
from traceanalyzer.report.printed import Printed


def listed(*runs):
    return Printed(runs_document(runs)).terminal(80)


def test_runs_stand_by_program_newest_last():
    text = listed(
        stored(1, "train.py", 2.0, step_basis="estimated"),
        stored(2, "serve.py", 9.0),
        stored(
            3, "train.py", 1.0, step_basis="measured", change_share=-0.5, verdict="likely_faster"
        ),
    )
    assert "3 runs of 2 programs" in text
    of_one, of_several = text.split("\ntrain.py\n")
    assert "serve.py" in of_one
    course = "1.00 ms in the last (-50.0% against the one before, likely faster)."
    assert course in " ".join(of_several.split())
    rows = [line.split() for line in of_several.splitlines() if line.lstrip()[:1] in "13"]
    assert rows[0][:5] == ["1", "2.00", "estimate", "-", "-"]
    assert rows[1][:6] == ["3", "1.00", "stopwatch", "-50.0", "likely", "faster"]


def test_unlike_programs_are_listed_and_none_is_compared():
    text = listed(stored(1, "a.json"), stored(2, "b.json"))
    assert "2 runs, each of a program of its own: none is compared." in text
    assert "change" not in text
    assert "--tag program=NAME" in " ".join(text.split())


def test_what_names_the_program_is_no_tag_of_the_run():
    tags = Tags(program="loop", branch="main", commit="c0ffee")
    text = listed(stored(1, "loop · branch=main", tags=tags), stored(2, "other"))
    assert "commit=c0ffee" in text
    assert "program=loop" not in text
    assert text.count("branch=main") == 1


def test_a_program_without_steps_says_so():
    text = listed(stored(1, step_ms=None), stored(2, step_ms=None))
    assert "No run has steps." in text
