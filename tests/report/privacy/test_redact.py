"""Nothing that was to be hidden is left, in any format; and the report still reads as one."""

import json
import re
from dataclasses import replace

import pytest

from tests.report.privacy.secret_report import PATTERNS, SECRETS, secret
from tests.report.reports import empty, full, hostile, kernel
from traceanalyzer.report.json import render_json
from traceanalyzer.report.markdown.issue import render_markdown
from traceanalyzer.report.privacy.redact import redact
from traceanalyzer.report.privacy.secrets import Secrets
from traceanalyzer.report.terminal.screen import render_terminal

FORMATS = {
    "json": render_json,
    "markdown": render_markdown,
    "terminal": lambda report: render_terminal(report, 200),
}


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_leaks(form):
    text = FORMATS[form](redact(secret(), PATTERNS))
    assert [s for s in SECRETS if s.lower() in text.lower()] == []


def test_without_patterns_names_stay_and_paths_go():
    text = render_json(redact(secret()))
    assert "SecretModel" in text
    assert "alice" not in text
    assert "projects" not in text


def test_inputs_are_numbered_by_kind():
    assert [i.path for i in redact(secret()).inputs] == [
        "input-1.json",
        "input-2.json",
        "input-3.sqlite",
    ]
    assert redact(secret()).inputs[0].health.notes == ["input-1.json is damaged"]


def test_a_name_has_one_alias_wherever_it_stands():
    report = redact(secret(), PATTERNS)
    assert report.tables["kernels"][0].name == report.tables["kernels"][0].full_name == "kernel-1"
    assert [g.detail for g in report.tables["gaps"]] == ["ended by kernel-1"] * 2
    module = report.tables["kernels"][0].op
    assert module == "name-1"
    assert report.tables["syncs"][0].op == f"{module} > aten::item"
    assert (
        report.findings[0].evidence[0].where
        == f"cudaStreamSynchronize in {module} > aten::item at train.py(118): step"
    )


def test_what_is_not_marked_stays():
    report = redact(secret(), PATTERNS)
    assert report.tables["kernels"][1].name == "gemm"
    assert report.metrics == secret().metrics
    assert report.devices == secret().devices


def test_the_vocabulary_of_the_contract_stays_whatever_the_pattern():
    before = json.loads(render_json(full()))
    after = json.loads(render_json(redact(full(), [re.compile(".")])))
    assert after["summary"]["bottleneck"] == "sync"
    assert [f["class"] for f in after["findings"]] == [f["class"] for f in before["findings"]]
    assert after["tool"] == before["tool"]
    assert after["metrics"]["step_source"] == "profiler_step"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("torch/nn/modules/module.py(1518): _call_impl", "module.py(1518): _call_impl"),
        (
            "autograd::engine::evaluate_function: AddmmBackward0",
            "autograd::engine::evaluate_function: AddmmBackward0",
        ),
        (
            "11.3 GB/s of 20 GB/s, forward / backward, n/a",
            "11.3 GB/s of 20 GB/s, forward / backward, n/a",
        ),
        (
            "void at::native::kernel<4, float>(int, float*)",
            "void at::native::kernel<4, float>(int, float*)",
        ),
        ("\\\\server\\share\\run.txt", "<path>"),
        ("at /opt/x (copy)/z.py:3", "at z.py:3"),
        ("~/runs/one two", "<path> two"),
        ("file:/srv/data/model.pt", "file:<path>"),
    ],
)
def test_paths_go_and_what_only_looks_like_one_stays(text, cleaned):
    assert redact(replace(empty(), notes=[text])).notes == [cleaned]


def test_hostile_text_is_no_trouble():
    redact(hostile(), PATTERNS)
    slow = "/a b" * 20_000 + "@" * 20_000 + "." * 20_000
    redact(replace(empty(), notes=[slow]), PATTERNS)


def test_a_kernels_short_name_is_hidden_where_only_its_full_name_is_marked():
    base = secret()
    row = replace(
        kernel("elementwise_kernel<Gate>", 1.0),
        full_name="void elementwise_kernel<acme::Gate>(int)",
    )
    gap = replace(base.tables["gaps"][0], detail="ended by elementwise_kernel<Gate>")
    report = redact(replace(base, tables={"gaps": [gap], "kernels": [row]}), [re.compile("acme")])
    assert report.tables["gaps"][0].detail == "ended by kernel-1"


def test_a_text_of_many_rows_is_cleaned_once(monkeypatch):
    cleaned = []
    clean = Secrets.clean

    def counted(self, text):
        cleaned.append(text)
        return clean(self, text)

    monkeypatch.setattr(Secrets, "clean", counted)
    path = "see /home/" + "ada/run.py"
    report = redact(replace(empty(), notes=["calm"] * 500 + [path] * 500))
    assert report.notes == ["calm"] * 500 + ["see run.py"] * 500
    assert (cleaned.count("calm"), cleaned.count(path)) == (1, 1)
