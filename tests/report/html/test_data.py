"""The timeline on its way to the page: harmless, bounded, nothing lost but what is counted."""

from __future__ import annotations

import dataclasses
import html
import json
import re
from importlib.resources import files

import numpy as np
import pytest

from tests.report.html.timelines import timeline
from tests.report.reports import HOSTILE
from traceanalyzer.report.html import data
from traceanalyzer.report.html.data import first_view, json_block, shortened, timelines_block
from traceanalyzer.report.html.pictures.colours import of_category
from traceanalyzer.report.timeline.lanes import Category, Lane, Shown

STYLE = (files("traceanalyzer.report.html") / "assets" / "colours.css").read_text(encoding="utf-8")


def decoded(block):
    return json.loads(re.fullmatch(r"<script [^>]*>(.*)</script>", block)[1])


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_ends_the_element_that_it_stands_in(text):
    block = json_block("x", {"name": text, "list": [text]})
    assert block.count("<") == 2
    assert decoded(block)["name"].isprintable() or text == ""
    assert html.unescape(block) == block, "entities would be text, not characters, in there"


def test_columns_are_aligned_by_lane_and_time():
    one = timeline()
    lanes = one.events.take(np.arange(10))
    two = dataclasses.replace(
        one,
        lanes=[Lane("a"), Lane("b")],
        events=dataclasses.replace(lanes, lane=(np.arange(10) % 2).astype(np.int32)),
    )
    (read,) = decoded(timelines_block([two]))
    columns = ("category", "start", "length", "name", "told")
    assert {len(read[name]) for name in columns} == {10}
    assert not {"about", "link", "onPath", "filled"} & read.keys(), "alike for all: left out"
    assert read["counts"] == [5, 5]
    assert read["length"] == [1, 3, 5, 7, 9, 2, 4, 6, 8, 10]
    assert np.cumsum(read["start"][:5]).tolist() == [0, 200, 400, 600, 800]
    assert np.cumsum(read["start"][5:]).tolist() == [100, 300, 500, 700, 900]


def test_a_link_is_the_place_of_the_event_that_it_means():
    one = timeline(4)
    linked = dataclasses.replace(
        one.events, own=np.array([7, 3, -1, -1]), link=np.array([-1, -1, 7, 99])
    )
    (read,) = decoded(timelines_block([dataclasses.replace(one, events=linked)]))
    assert read["link"] == [0, 0, 1, 0], "counted from 1; what is not shown is nobody's link"


def test_the_longest_events_are_kept_with_their_names_and_the_count_tells():
    kept = shortened(timeline(names=("a", "b", "c", "d", "e")), 2)
    assert (kept.events.end - kept.events.start).tolist() == [9, 10]
    assert [kept.names[i] for i in kept.events.name] == ["d", "e"]
    assert kept.shown == [Shown("device ops", 2, 15)]
    assert [kept.detail[i] if i >= 0 else None for i in kept.events.detail] == [None, "why"]


def test_however_long_the_names_it_stays_within_its_limit(monkeypatch):
    monkeypatch.setattr(data, "FIRST_BYTES", 40_000)
    monkeypatch.setattr(data, "REST_BYTES", 40_000)
    long = timeline(5_000, [f"{i}" * 40 for i in range(5_000)])
    block = timelines_block([long, long, long])
    assert len(block) <= 121_000
    assert all(len(read["start"]) >= data.FEW for read in decoded(block))


def test_a_host_range_that_dwarfs_the_step_is_not_shown_whole_at_first():
    one = timeline()
    assert first_view(one) == one.extent
    assert first_view(dataclasses.replace(one, extent=(-1_000_000, 1_000))) == (-500, 1_000)


def test_every_category_has_a_colour_in_light_and_dark():
    for category in Category:
        assert STYLE.count(f" --{of_category(category)}:") == 2, category
