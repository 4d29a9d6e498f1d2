"""Users of other GPUs hear nothing of NVIDIA's tools and calls."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.analyzed import reported
from tests.recorded import ROOT
from traceanalyzer.diagnosis import remedies
from traceanalyzer.diagnosis.pages import finding_pages
from traceanalyzer.ingest.detect import detect
from traceanalyzer.report.model import Report
from traceanalyzer.report.parts.vendors import in_words_for, vendor_of

DATA = ROOT / "tests" / "data" / "formats"
OTHERS = {
    "mi300x_bert.json.gz": "amd",
    "mi300x_sglang_decode.json.gz": "amd",
    "matmul_result.rpd.gz": "amd",
    "mi350x_results.json.gz": "amd",
    "unitrace_made.json.gz": "intel",
}
NVIDIAS = re.compile(r"\bncu\b|Nsight|CUDA_MODULE_LOADING|\bcuda[A-Z]\w*|CUPTI|\bnsys\b|cuDNN")
REMEDIES = Path(remedies.__file__).with_name("remedies.toml")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield " ".join(value.split())
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)


def _advice(report: Report) -> Iterator[str]:
    yield report.summary.headline
    yield from (one.title for one in report.findings)
    yield from (text for one in report.recommendations for text in (one.action, one.basis))
    yield from report.notes


def test_all_words_are_said_in_those_of_amd_and_intel():
    texts = [*_texts(tomllib.loads(REMEDIES.read_text(encoding="utf-8")))]
    texts += [text for page in finding_pages().values() for text in _texts(page.words)]
    assert any(map(NVIDIAS.search, texts))
    for vendor in ("amd", "intel"):
        left = [said for text in texts if NVIDIAS.search(said := in_words_for(vendor, text))]
        assert left == [], vendor


@pytest.mark.parametrize("name", OTHERS)
def test_recordings_of_other_makers(name):
    (trace, *_) = detect(DATA / name).read(DATA / name)
    assert vendor_of(trace) == OTHERS[name]
    report = reported(DATA / name)
    assert report.inputs[0].vendor == OTHERS[name]
    assert [text for text in _advice(report) if NVIDIAS.search(text)] == []


def test_nvidias_users_hear_what_is_written():
    text = "profile them with Nsight Compute (ncu), or set CUDA_MODULE_LOADING=EAGER."
    assert in_words_for("nvidia", text) == in_words_for(None, text) == text
    assert in_words_for("google", text) == "profile them with XProf's op profile."
