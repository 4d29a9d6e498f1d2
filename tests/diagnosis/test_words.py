"""Advice speaks the language of the program: PyTorch's only where PyTorch is to be seen."""

from __future__ import annotations

import pkgutil
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from tests.analysis.build import TraceBuilder
from tests.analyzed import loaded
from traceanalyzer.analysis.joined.joined import framework
from traceanalyzer.analysis.names import Framework
from traceanalyzer.analysis.names.pytorch import FRAMEWORK
from traceanalyzer.diagnosis import remedies, rules
from traceanalyzer.diagnosis.finding import Words, same_for_all
from traceanalyzer.diagnosis.pages import finding_pages
from traceanalyzer.diagnosis.remedies.remedy import entries
from traceanalyzer.report.build import build_report
from traceanalyzer.trace import DeviceRanges, RangeKind, Run, Trace

SAMPLES = sorted((Path(__file__).resolve().parents[2] / "sample_traces").glob("*/"))
RECORDED = [path for path in SAMPLES if not path.name.startswith("timing")]

PYTORCH_WORDS = re.compile(
    r"torch|DataLoader|\.item\(\)|\.cpu\(\)|non_blocking|pin_memory|Python|with_stack|no_sync|\bDDP\b|FSDP|autocast"
    r"|channels_last|\bF\.\w|scaled_dot_product|(?<!jax\.)\bnn\.|record_function|persistent_workers|cudnn_sdp|reduce-overhead|coalesce\(\)"
)
"""Words that mean something in programs with PyTorch alone."""
MODULES = [
    import_module(f"{room.__name__}.{module.name}")
    for room in (remedies, rules)
    for module in pkgutil.iter_modules(room.__path__)
]


@pytest.mark.parametrize("path", RECORDED, ids=lambda p: p.name)
def test_without_pytorchs_names_there_is_no_advice_for_pytorch(path: Path) -> None:
    run = loaded(path)
    traces = []
    for trace in run.traces:
        strings = [
            f"f{i}" if FRAMEWORK.search(text) else text for i, text in enumerate(trace.strings)
        ]
        traces.append(replace(trace, strings=strings))
        assert framework(traces[-1]) is Framework.CUDA
    report = build_report(Run(tuple(traces)))
    said = [
        *(text for advice in report.recommendations for text in (advice.action, advice.basis)),
        *(finding.title for finding in report.findings),
        *report.notes,
        report.summary.headline,
    ]
    assert [text for text in said if PYTORCH_WORDS.search(text)] == []


def test_words_for_others_have_none_of_pytorchs() -> None:
    found = [one for module in MODULES for one in vars(module).values() if isinstance(one, Words)]
    texts = [text for one in found for text in (one.cuda, one.jax) if text]
    advice = [*entries().values(), *(page.words for page in finding_pages().values())]
    of_remedies = [text for entry in advice for text in entry.values()]
    texts += [
        text
        for of in of_remedies
        if isinstance(of, dict)
        for name, text in of.items()
        if name != "pytorch"
    ]
    texts += [entry["words"] for entry in advice if isinstance(entry.get("words"), str)]
    assert len(texts) > 40
    assert [text for text in texts if PYTORCH_WORDS.search(text)] == []


def test_each_framework_is_known_by_its_names() -> None:
    def of(name: str) -> Framework:
        return framework(TraceBuilder().kernel(name, 0, 1).build())

    assert of("void at::native::vectorized_elementwise_kernel<4, ...>") is Framework.PYTORCH
    assert of("triton_poi_fused_add_0") is Framework.PYTORCH
    assert of("saxpy(double*, double*)") is Framework.CUDA
    jax = (
        TraceBuilder()
        .kernel("loop_add_fusion", 0, 1)
        .annotation("XlaModule:#hlo_module=jit_step#", 0, 1)
    )
    assert framework(jax.build()) is Framework.JAX


def test_each_framework_has_its_words() -> None:
    three = Words("Use torch.compile.", "Capture a graph.", "Use jit.")
    assert [three.of(one) for one in Framework] == [
        {Framework.PYTORCH: three.pytorch, Framework.CUDA: three.cuda, Framework.JAX: three.jax}[
            one
        ]
        for one in Framework
    ]
    assert Words("Use torch.compile.", "Capture a graph.").of(Framework.JAX) == "Capture a graph."
    assert Words("Use torch.compile.").of(Framework.CUDA) is None
    assert {same_for_all("Use larger messages.").of(one) for one in Framework} == {
        "Use larger messages."
    }


@pytest.mark.parametrize("path", RECORDED[::2], ids=lambda p: p.name)
def test_without_steps_nothing_is_said_of_the_step(path: Path) -> None:
    """The recording, deprived of all that marks a step or repeats."""
    run = loaded(path)
    report = build_report(Run(tuple(_without_rhythm(trace) for trace in run.traces)))
    assert report.metrics.step_source == "recording"
    said = [
        *(text for advice in report.recommendations for text in (advice.action, advice.basis)),
        *(
            text
            for f in report.findings
            for text in (f.title, *(t for e in f.evidence for t in (e.metric, e.where)))
        ),
        report.summary.headline,
    ]
    assert [text for text in said if STEP.search(text)] == []


STEP = re.compile(r"(?<!optimizer )(?<!next )\bsteps?\b")


def _without_rhythm(trace: Trace) -> Trace:
    """The trace without annotations and calls of modules, each kernel under a name of its own."""
    ranges = trace.host_ranges
    ops = trace.device_ops
    kept = ranges.kind == RangeKind.OP
    names = [
        f"{text} #{i}" for i, text in enumerate(trace.strings[code] for code in ops.name.tolist())
    ]
    renamed = replace(ops, name=np.arange(len(ops), dtype=np.int32) + len(trace.strings))
    return replace(
        trace,
        strings=[*trace.strings, *names],
        host_ranges=ranges.take(kept),
        device_ops=renamed,
        device_ranges=DeviceRanges.empty(),
        unprofiled_step_ns=None,
        light=None,
        stopwatch=None,
    )
