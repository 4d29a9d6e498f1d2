"""The order of advice, and what findings count where advice on several gains more than the step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from traceanalyzer.diagnosis.diagnose import _gains, _lifted
from traceanalyzer.diagnosis.draft import Draft
from traceanalyzer.diagnosis.finding import (
    AfterOthers,
    BottleneckClass,
    Finding,
    Recommendation,
    Summary,
)
from traceanalyzer.diagnosis.ranking import (
    is_for_first_screen,
    ranked_advice,
    ranked_findings,
    rated_findings,
    with_reason,
)

STEP_MS = 10.0


def advice(id_: str, cls: BottleneckClass, step_ms: float | None = None) -> Recommendation:
    """A change whose range holds no step as long as today's."""
    speedup = None if step_ms is None else STEP_MS / step_ms
    return Recommendation(id_, cls, "", step_ms, speedup, "", None, step_ms, step_ms)


def ids(found: list[Recommendation]) -> list[str]:
    return [one.id for one in found]


def test_a_little_gain_stands_behind_a_large_one_of_two_changes() -> None:
    """1.06x alone, 3.3x with another change, 1.25x alone, and one of which nothing is known."""
    both = AfterOthers(["remove_syncs"], 3.0, 2.5, 3.5, STEP_MS / 3.0)
    graph = replace(advice("graph", "launch"), together=both)
    found = [advice("none", "compute"), advice("little", "memory", 9.4), graph]
    assert ids(ranked_advice(found, STEP_MS)) == ["graph", "little", "none"]
    clear = advice("clear", "memory", 8.0)
    assert ids(ranked_advice([*found, clear], STEP_MS)) == ["clear", "graph", "little", "none"]


def test_of_two_that_lead_to_the_same_step_the_surer_comes_first() -> None:
    """5.012 and 5.014 ms are both printed as 5.01."""
    wide = replace(advice("wide", "memory", 5.012), low_ms=2.0, high_ms=9.0)
    narrow = replace(advice("narrow", "transfer", 5.014), low_ms=4.5, high_ms=5.5)
    better = replace(wide, id="better", predicted_step_ms=4.9)
    found = ranked_advice([wide, narrow, better], STEP_MS)
    assert ids(found) == ["better", "narrow", "wide"]


def test_of_two_that_lead_to_the_same_step_the_easier_comes_first() -> None:
    hours = replace(advice("hours", "memory", 5.0), remedy="fuse_elementwise")
    line = replace(advice("line", "memory", 5.0), remedy="compile", low_ms=2.0)
    assert ids(ranked_advice([hours, line], STEP_MS)) == ["line", "hours"]


def test_what_needs_a_change_that_is_advised_stands_behind_it() -> None:
    """Syncs first, 1.08x alone, then a graph, 3.3x with it."""
    both = AfterOthers(["remove_syncs"], 3.0, 2.5, 3.5, STEP_MS / 3.0)
    graph = replace(advice("graph", "launch"), together=both)
    syncs = replace(advice("host-waits", "sync", 9.2), remedy="remove_syncs")
    assert ids(ranked_advice([graph, syncs], STEP_MS)) == ["host-waits", "graph"]


def test_what_may_not_help_against_the_verdict_precedes_an_unknown_gain_for_something_else() -> (
    None
):
    unknown = advice("undersized-kernels", "compute")
    unsure = replace(advice("host-work", "host", 3.0), high_ms=STEP_MS)
    summary = Summary("host", 0.8, "", "recorded", STEP_MS)
    found = ranked_advice([unknown, unsure], STEP_MS)
    assert ids(found) == ["undersized-kernels", "host-work"]
    assert ids(with_reason(found, summary)) == ["host-work", "undersized-kernels"]


def test_advice_on_findings_that_overlap_stays_with_its_own() -> None:
    """8 and 3 of 10 ms: the second finding's 2 ms are counted with the first; a third one has what
    is left of its 3 ms."""
    settled = [
        (Draft(name, "host", name, "none", None, []), headroom)
        for name, headroom in (("shapes", 5.0), ("layout", 2.0), ("copies", 3.0))
    ]
    gains = _gains(
        settled, [advice("shapes", "host", 2.0), advice("layout", "memory", 7.0)], STEP_MS
    )
    assert gains == [8.0, None, 0.0]
    assert _lifted(settled, gains, STEP_MS) == [8.0, None, pytest.approx(2.0)]


def test_what_the_first_screen_has_is_first_everywhere() -> None:
    """Faster kernels of unknown gain, and what gains 2 %, stand behind all that it shows."""
    vague = advice("gpu-busy", "compute")
    little = advice("little", "memory", 9.8)
    unsure = replace(advice("unsure", "sync", 8.0), high_ms=11.0)
    unknown = advice("undersized-kernels", "compute")
    found = ranked_advice([vague, little, unsure, unknown], STEP_MS)
    shown = [one for one in found if is_for_first_screen(one)]
    assert ids(found)[:2] == ids(shown)
    assert sorted(ids(shown)) == ["undersized-kernels", "unsure"]


def test_what_answers_the_verdict_saves_half_as_much_to_be_first() -> None:
    """1.18x against the wait for data, 1.08x against launches, of which the verdict speaks: it saves
    less than half. 1.12x is enough."""
    summary = Summary("launch", 0.6, "", "recorded", STEP_MS)
    loader = advice("input-wait", "input", STEP_MS / 1.18)
    little = advice("launch-bound", "launch", STEP_MS / 1.08)
    found = with_reason(ranked_advice([loader, little], STEP_MS), summary)
    assert ids(found) == ["input-wait", "launch-bound"]
    assert (
        found[0].instead == "It gains more than the advice against launch overhead alone (1.08x)."
    )
    enough = advice("launch-bound", "launch", STEP_MS / 1.12)
    found = with_reason(ranked_advice([loader, enough], STEP_MS), summary)
    assert ids(found) == ["launch-bound", "input-wait"]


def found_of(id_: str, cls: BottleneckClass, headroom_ms: float | None) -> Finding:
    return Finding(id_, cls, id_, "info", headroom_ms, [])


def test_the_finding_that_the_verdict_rests_on_comes_first() -> None:
    """A rank that loads its input itself: its headroom is counted in none, and advice says what it
    costs. What launches cost is more than what this rank waits for itself."""
    launches = found_of("launch-bound", "launch", 4.0)
    own = found_of("input-wait", "input", 0.2)
    straggler = found_of("straggler", "input", None)
    fix = advice("straggler", "input", 5.0)
    summary = Summary("input", 0.7, "", "recorded", STEP_MS)
    ranked = ranked_findings([launches, own, straggler], [fix], summary)
    assert [one.id for one in ranked] == ["straggler", "launch-bound", "input-wait"]
    # whoever reads the JSON has them by headroom, as severe as advice says
    rated = rated_findings([own, straggler, launches], [fix], STEP_MS)
    assert [one.id for one in rated] == ["launch-bound", "input-wait", "straggler"]
    assert rated[-1].severity == "high", "it costs half of the step"
    # without advice nothing says what it costs: the verdict rests on what is known
    ranked = ranked_findings([launches, own, straggler], [], summary)
    assert [one.id for one in ranked] == ["input-wait", "launch-bound", "straggler"]
    # without a verdict they stand by headroom
    unnamed = replace(summary, bottleneck="inconclusive")
    assert ranked_findings([own, launches], [], unnamed)[0].id == "launch-bound"
