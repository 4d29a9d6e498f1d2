"""Limits as they are written, what they are held against, and policies."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from tests.analyzed import reported
from tests.comparison.build import idle, part, report
from tests.recorded import ranks
from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.comparison.compare import compare_reports
from traceanalyzer.comparison.limits import Limit, LimitError, check_limits, read_policy
from traceanalyzer.comparison.metrics import figures_by_path
from traceanalyzer.comparison.verdicts import Checked, limit_rows

BASE = report(part("aten::mm", "gemm", 5), idle("sync", 5, "aten::item", "cudaStreamSynchronize"))
SLOW = report(part("aten::mm", "gemm", 5), idle("sync", 7, "aten::item", "cudaStreamSynchronize"))


def verdicts(limits, now=SLOW, before=BASE, **options):
    comparison = compare_reports(before, now) if before else None
    return check_limits(limits, now, before, comparison, **options)


@pytest.mark.parametrize(
    ("text", "value", "relative"),
    [
        ("5.2", 5.2, False),
        (0.1, 0.1, False),
        ("10%", 0.1, False),
        ("+3%", 0.03, True),
        ("-5%", -0.05, True),
        ("-2", -2, False),
    ],
)
def test_how_limits_are_written(text, value, relative):
    limit = Limit.of("step_time_ms.mean", "max", text)
    assert (limit.value, limit.relative) == (pytest.approx(value), relative)


@pytest.mark.parametrize("text", ["", "fast", "+3", "3 %%", "nan", "1e3", "+-3%", True])
def test_limits_that_make_no_sense(text):
    with pytest.raises(LimitError, match=r"step_time_ms\.mean"):
        Limit.of("step_time_ms.mean", "max", text)


@pytest.mark.parametrize(
    ("metric", "bound", "text", "outcome"),
    [
        ("step_time_ms.mean", "max", "12.5", "ok"),
        ("step_time_ms.mean", "max", "11.9", "breach"),
        ("step_time_ms.mean", "max", "+3%", "breach"),
        ("step_time_ms.mean", "max", "+25%", "ok"),
        ("step_time_ms.mean", "max", "-1%", "breach"),
        ("idle_ms.sync", "max", "+10%", "breach"),
        ("budget_ms.compute", "max", "+0%", "ok"),
        ("step_time_ms.mean", "min", "+10%", "ok"),
        ("step_time_ms.mean", "min", "13", "breach"),
        ("roofline.mfu", "min", "0.1", "missing"),
        ("roofline.mfu", "min", "-3%", "missing"),
    ],
)
def test_whether_a_limit_holds(metric, bound, text, outcome):
    (verdict,) = verdicts([Limit.of(metric, bound, text)])
    assert verdict.outcome == outcome
    assert verdict.holds(allow_missing=False) is (outcome == "ok")
    assert verdict.holds(allow_missing=True) is (outcome != "breach")


def test_noise_breaches_no_limit_unless_it_is_strict():
    a_little = report(
        part("aten::mm", "gemm", 5.01), idle("sync", 5.08, "aten::item", "cudaStreamSynchronize")
    )
    limits = [
        Limit.of("step_time_ms.mean", "max", "+0.5%"),
        Limit.of("idle_ms.sync", "max", "+0.5%"),
    ]
    assert [v.outcome for v in verdicts(limits, a_little)] == ["noise", "noise"]
    assert [v.outcome for v in verdicts(limits, a_little, strict=True)] == ["breach", "breach"]
    absolute = [Limit.of("step_time_ms.mean", "max", "10.05")]
    assert [v.outcome for v in verdicts(absolute, a_little)] == ["breach"]


def test_unknown_figures_name_near_ones():
    with pytest.raises(LimitError, match=r"did you mean step_time_ms\.median"):
        verdicts([Limit.of("step_time.median", "max", "5")])
    with pytest.raises(LimitError, match="analyze --format json"):
        verdicts([Limit.of("zzzzzzzz", "max", "5")])


def test_what_limits_need():
    with pytest.raises(LimitError, match="needs --baseline"):
        verdicts([Limit.of("step_time_ms.mean", "max", "+3%")], before=None)
    with pytest.raises(LimitError, match="no share"):
        verdicts([Limit.of("step_time_ms.mean", "max", "3%")])
    assert verdicts([Limit.of("gpu_idle_share", "max", "99%")], before=None)[0].outcome == "ok"


@pytest.mark.parametrize(
    ("metric", "text", "outcome"),
    [
        ("kernels.nosuch.device_ms", "1", "missing"),
        ("kernels.nosuch.device_ms", "0", "ok"),
        ("kernels.attention.device_ms", "1", "ok"),
        ("ops.aten::nosuch.calls", "3", "missing"),
        ("modules.nosuch.calls", "0", "missing"),
    ],
    ids=["any name", "not to be there", "a class", "an operator", "no such table"],
)
def test_a_row_that_is_not_there_is_measured_only_where_its_name_is_known(metric, text, outcome):
    recorded = reported(*ranks("kineto/adam_big.base"))
    (verdict,) = verdicts([Limit.of(metric, "max", text)], recorded, before=None)
    assert verdict.outcome == outcome


def test_a_row_that_is_gone_since_the_baseline_takes_nothing():
    recorded = reported(*ranks("kineto/adam_big.base"))
    rows = recorded.tables["ops"]
    one_less = replace(recorded, tables=recorded.tables | {"ops": rows[1:]})
    limit = Limit.of(f"ops.{rows[0].name}.calls", "max", "3")
    (verdict,) = verdicts([limit], one_less, before=recorded)
    assert (verdict.value, verdict.outcome) == (0.0, "ok")
    (verdict,) = verdicts([limit], one_less, before=None)
    assert verdict.outcome == "missing"


def test_no_limit_holds_for_a_file_that_is_cut_off():
    cut = replace(SLOW, inputs=[damaged(SLOW.inputs[0], truncated=True)])
    lost = replace(SLOW, inputs=[damaged(SLOW.inputs[0], lost=3)])
    limit = Limit.of("step_time_ms.mean", "max", "+25%")
    breached = Limit.of("step_time_ms.mean", "max", "1")
    assert [v.outcome for v in verdicts([limit, breached], cut)] == ["missing", "breach"]
    assert [v.outcome for v in verdicts([limit, breached], SLOW, cut)] == ["missing", "breach"]
    assert [v.outcome for v in verdicts([limit], lost)] == ["ok"]
    checked = Checked.of("run.json", cut, verdicts([limit], cut), None)
    assert checked.notes[0] == "run.json is cut off before its end: no limit is known to hold."
    assert limit_rows(checked)[0].beyond == ""
    assert compare_reports(SLOW, cut).verdict == "not_comparable"
    assert compare_reports(cut, cut).verdict != "not_comparable"


def damaged(recorded, **health):
    return replace(recorded, health=replace(recorded.health, **health))


def test_every_figure_has_a_name_also_where_it_was_not_measured():
    figures = figures_by_path(replace(BASE, metrics=replace(BASE.metrics, roofline=None)))
    assert figures["roofline.mfu"].value is None
    assert figures["gpu_idle_share"].unit == "share"
    assert figures["headroom_ms.compute"].value == 0.0
    assert "step_source" not in figures


POLICY = """
baseline = "runs/main.json"
strict = true

[max]
summary.step_ms = "+3%"
"summary.idle_share" = 0.10
budget_ms = { idle = 2.5, compute = "+1%" }

[min]
roofline.mfu = "-5%"
"""


def test_a_policy(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(POLICY, encoding="utf-8")
    policy = read_policy(path)
    assert policy.baseline == str(tmp_path / "runs/main.json")
    assert (policy.strict, policy.allow_missing) == (True, False)
    assert [(limit.metric, limit.bound, limit.text) for limit in policy.limits] == [
        ("summary.step_ms", "max", "+3%"),
        ("summary.idle_share", "max", "0.1"),
        ("budget_ms.idle", "max", "2.5"),
        ("budget_ms.compute", "max", "+1%"),
        ("roofline.mfu", "min", "-5%"),
    ]


@pytest.mark.parametrize("text", ["[max", "[maxx]\na = 1", "max = 3", "strict = 'yes'", "\xff"])
def test_what_is_no_policy(tmp_path, text):
    path = tmp_path / "policy.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UnreadableInputError, match="not a policy"):
        read_policy(path)


@pytest.mark.parametrize("value", ["[1]", "true", "'fast'", "1979-05-27"])
def test_what_is_no_limit_in_a_policy(tmp_path, value):
    path = tmp_path / "policy.toml"
    path.write_text(f"[max]\ngpu_idle_share = {value}", encoding="utf-8")
    with pytest.raises(LimitError, match="a limit is"):
        read_policy(path)


def checked(*limits, allow_missing=False):
    return Checked("run <1>", verdicts(limits), allow_missing, compare_reports(BASE, SLOW))


LIMITS = [
    Limit.of("step_time_ms.mean", "max", "+3%"),
    Limit.of("gpu_idle_share", "max", "99%"),
    Limit.of("roofline.mfu", "min", "0.1"),
]


def test_junit_has_a_case_a_limit():
    suite = ElementTree.fromstring(checked(*LIMITS, allow_missing=True).junit())[0]  # noqa: S314
    assert {key: suite.get(key) for key in ("tests", "failures", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "skipped": "1",
    }
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == [
        "step_time_ms.mean at most +3%",
        "gpu_idle_share at most 99%",
        "roofline.mfu at least 0.1",
    ]
    assert [[child.tag for child in case] for case in cases] == [["failure"], [], ["skipped"]]
    assert "Slower" in (suite.findtext("system-out") or "")


@pytest.mark.parametrize("draw", [Checked.terminal, Checked.markdown])
def test_people_read_the_answer_first(draw):
    assert draw(checked(*LIMITS)).lstrip("*").startswith("FAIL: 2 of 3 limits breached")
    assert draw(checked(LIMITS[1])).lstrip("*").startswith("PASS: the limit holds.")


def test_programs_read_each_limit():
    said = json.loads(json.dumps(checked(*LIMITS).values()))
    assert said["passed"] is False
    assert [(limit["metric"], limit["outcome"], limit["holds"]) for limit in said["limits"]] == [
        ("step_time_ms.mean", "breach", False),
        ("gpu_idle_share", "ok", True),
        ("roofline.mfu", "missing", False),
    ]


def test_what_is_breached_stands_first_with_how_far():
    rows = limit_rows(checked(*reversed(LIMITS)))
    assert [row.outcome.startswith("holds") for row in rows] == sorted(
        row.outcome.startswith("holds") for row in rows
    )
    assert rows[-1].beyond == ""
    assert any(row.beyond for row in rows)


@pytest.mark.parametrize("text", ["-3", "-0.1"])
def test_no_time_is_below_nothing(text):
    with pytest.raises(LimitError, match="no such figure is below 0"):
        check_limits([Limit.of("step_time_ms.mean", "max", text)], SLOW, None, None)


def test_no_share_is_more_than_all():
    with pytest.raises(LimitError, match=r"a share is 0 to 1; say 0\.1 or 10%"):
        check_limits([Limit.of("gpu_idle_share", "max", "10")], SLOW, None, None)
