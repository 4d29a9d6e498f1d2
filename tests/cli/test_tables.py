"""What tables say to people: one origin of times, operators by their own time, names that are near."""

import re

import pytest

from tests.recorded import ROOT

SYNC_BOUND = str(ROOT / "sample_traces" / "sync_bound")
NSYS = str(ROOT / "sample_traces" / "nsys_input_bound")


def longest_gaps(text):
    """The start and the length of the gaps shown."""
    rows = re.findall(r"^ +(-?[\d,]+\.\d{3}) +([\d.]+) ", text, re.MULTILINE)
    return {length: start for start, length in rows}


@pytest.mark.parametrize("options", [["--all"], ["--top", "50"], ["--min-us", "100", "--all"]])
def test_gaps_count_from_one_origin_however_many_are_shown(run, options):
    few = run("gaps", SYNC_BOUND)[1]
    more = run("gaps", SYNC_BOUND, *options)[1]
    assert few.count("start counts from the start of step 0.") == 1
    assert more.count("start counts from the start of step 0.") == 1
    shown = longest_gaps(few)
    assert shown
    assert {length: longest_gaps(more)[length] for length in list(shown)[:3]} == dict(
        list(shown.items())[:3]
    )


def test_a_stretch_without_events_says_so(run):
    out = run("gaps", NSYS, "--all", "--format", "csv")[1]
    assert "host outside operators" not in out


def test_operators_are_shown_by_what_they_launch_themselves(run):
    out = run("show", "ops", SYNC_BOUND)[1]
    assert "device self adds up to all device time" in out
    names = [line.split()[0] for line in out.splitlines() if line.startswith("  aten::")]
    assert names[0] == "aten::addmm"
    assert "aten::linear" not in names[:3]


@pytest.mark.parametrize(
    ("word", "table"), [("collectives", "comm"), ("kernel", "kernels"), ("operators", "ops")]
)
def test_a_table_by_another_word_is_offered_by_its_name(run, word, table):
    status, _, err = run("show", word, SYNC_BOUND)
    assert status == 2
    assert f"did you mean {table}?" in err


@pytest.mark.parametrize("table", ["kernels", "ops", "path"])
def test_shares_of_the_step_say_of_which_step(run, table):
    status, out, _ = run("show", table, SYNC_BOUND)
    assert status == 0
    assert "share of step is of the recorded step" in " ".join(out.split())
