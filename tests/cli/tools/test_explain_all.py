"""Every word that a report, a comparison or a check can print is explained."""

import re
from typing import get_args

import pytest

from traceanalyzer.cli.tools.explain import ROWS, _columns_of_commands, _switches
from traceanalyzer.comparison import judge, outline, verdicts
from traceanalyzer.comparison.model import Word
from traceanalyzer.diagnosis import effort
from traceanalyzer.diagnosis.classify import LIMITS
from traceanalyzer.diagnosis.pages import finding_page, finding_pages
from traceanalyzer.diagnosis.remedies import REMEDIES
from traceanalyzer.diagnosis.remedies.remedy import entries
from traceanalyzer.replay.scenarios import SCENARIOS
from traceanalyzer.report.explain import _folded, explained, explanations
from traceanalyzer.report.format import label
from traceanalyzer.trials.switches import SWITCHES

ON_SCREENS = (
    "KV cache",
    "larger batch",
    "assumptions",
    "without gain",
    "unsteady",
    "not predicted",
    "gain unknown",
    "may not help",
    "for the same work",
    "per step",
    "headroom",
    "ideal",
    "change",
    "nothing recorded on the host",
    "outside operators and calls",
    "between launches",
    "replayed",
    "timed",
    "profiled or not",
    "below 2%",
    "at least",
    "at most",
    "kernel time",
    "by its kind",
    *(f"limited by {limit.partition(' (')[0]}" for limit in LIMITS.values()),
)


def is_explained(word: str) -> bool:
    return finding_page(word) is not None or bool(explained(word, _columns_of_commands()))


@pytest.mark.parametrize("word", ON_SCREENS)
def test_words_on_screens(word: str) -> None:
    assert is_explained(word)


def test_verdicts_classes_and_efforts() -> None:
    classes = ("compute", "memory", "launch", "communication", "sync", "input", "host", "transfer")
    words = [
        *(f"{cls}-bound" for cls in classes),
        "inconclusive",
        "clear",
        "likely",
        "close call",
        *(word.replace("_", " ") for word in get_args(Word)),
        *(word.lower() for word in judge.WORDS.values()),
        *{text for text in vars(effort).values() if isinstance(text, str) and text in EFFORTS},
        "holds",
        "breached",
        "pass",
        "fail",
        "changed",
        "within noise",
        "spread unknown",
    ]
    assert [word for word in words if not is_explained(word)] == []


EFFORTS = set(effort.EFFORTS.values())


def test_findings_changes_and_scenarios() -> None:
    ids = [
        *(page.id for page in finding_pages().values()),
        *(remedy.id for remedy in REMEDIES),
        *(scenario.id for scenario in SCENARIOS),
        *effort.EFFORTS,
    ]
    assert [one for one in ids if not is_explained(one)] == []


def test_every_figure_and_column_by_name_and_by_label() -> None:
    known = explanations() + _columns_of_commands()
    names = {one.name for one in known} | {label(one.name, one.unit) for one in known}
    assert [name for name in sorted(names) if not is_explained(name)] == []
    assert all(one.meaning for one in known)


def test_columns_of_commands_are_those_that_they_print() -> None:
    printed = {kind.__name__ for kind in (outline.ChangeRow, outline.BudgetRow, verdicts.LimitRow)}
    assert printed <= {row.rpartition(".")[2] for rows in ROWS.values() for row in rows}


def test_what_a_prediction_assumes_is_said_of_every_change_that_is_replayed() -> None:
    silent = [
        remedy.id
        for remedy in REMEDIES
        if any(name.startswith("assumes") for name in entries()[remedy.id])
        and not any("Its replay assumes:" in one.meaning for one in explained(remedy.id))
    ]
    assert silent == []


def test_no_place_to_fill_in_is_left() -> None:
    meanings = [one.meaning for remedy in REMEDIES for one in explained(remedy.id, _switches())]
    assert [text for text in meanings if "{" in text] == []


def test_every_switch_of_try_is_explained() -> None:
    known = {one.name: one.meaning for one in _switches()}
    assert {switch.id for switch in SWITCHES} == set(known)
    assert "num_workers=N" in known["loader_workers"]


def test_no_meaning_sends_to_itself() -> None:
    for one in (*explanations(), *_columns_of_commands(), *_switches()):
        sent = re.findall(r"`explain ([^`]+)`", one.meaning)
        others = [name for name in sent if finding_page(name) is None]
        assert _folded(one.name) not in map(_folded, others), one.name
