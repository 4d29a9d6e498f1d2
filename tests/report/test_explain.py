"""Words that a report prints are explained as it prints them."""

import pytest

from traceanalyzer.report.explain import explained


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("floor", "floor_ms"),
        ("launch p50", "launch_p50_us"),
        ("queue delay p95", "queue_delay_p95_us"),
    ],
)
def test_a_figure_is_found_by_its_label(printed, name):
    assert {one.name for one in explained(printed)} == {name}


def test_a_name_comes_before_a_label():
    assert {one.name for one in explained("budget_ms.idle")} == {"idle"}


@pytest.mark.parametrize("name", ["M_W", "S_w", "S_t"])
def test_the_papers_names_of_a_pipelines_slowdown_are_known(name):
    assert explained(name)
