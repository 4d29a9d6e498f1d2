"""Advice for servers: by phase, and none that they follow already."""

from __future__ import annotations

import pytest

from tests.server_builder import Server, waves
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.diagnosis.rules.recording import recording_notes
from traceanalyzer.diagnosis.serving.outlook import HOST_CLASSES
from traceanalyzer.diagnosis.serving.sentences import sentences
from traceanalyzer.diagnosis.serving.switches import switches

HOST_BOUND = {"a": 300.0, "b": 1.0, "c": 0.001}


@pytest.mark.parametrize(
    ("server", "wanted"),
    [
        (Server(graphs=False, **HOST_BOUND), ("cuda_graph", "decode")),
        (Server(text=20, **HOST_BOUND), ("asynchronous_scheduling", "decode")),
        (Server(overlap=True, noise=0.02), None),
    ],
)
def test_a_server_is_told_what_its_phases_gain(
    server: Server, wanted: tuple[str, str] | None
) -> None:
    m = measure(server.recorded(waves((4, 16, 48, 8, 64))))
    advice = {one.remedy: one for one in diagnose(m).recommendations if one.cls in HOST_CLASSES}
    assert set(advice) <= {"cuda_graph", "asynchronous_scheduling", "move_host_work"}
    in_graphs = advice["cuda_graph"].action if "cuda_graph" in advice else ""
    assert ("decode" in in_graphs) == (not server.graphs)
    assert ("PIECEWISE" in in_graphs) <= server.graphs
    if wanted is None:
        assert not advice
        return
    one = advice[wanted[0]]
    assert f"{wanted[1]} " in one.action
    assert one.predicted_step_ms is not None
    assert one.predicted_step_ms < m.step.step_ms


def test_a_gain_is_said_once_with_one_range() -> None:
    host_bound = Server(text=20, **HOST_BOUND)
    several = measure(host_bound.recorded(waves((4, 16, 48, 8, 64))))
    decodes = measure(host_bound.recorded([(0, 16, 16_000)] * 12))
    for m, phases in ((several, True), (decodes, False)):
        advice = diagnose(m).recommendations
        (one,) = [one for one in advice if one.remedy == "asynchronous_scheduling"]
        assert ("decode " in one.action) == phases
        assert " to " not in one.action
        assert not any("Scheduling the next iteration" in note for note in recording_notes(m))
        assert any("Scheduling the next iteration" in text for text in sentences(m))


def test_the_mean_iteration_without_the_profiler() -> None:
    server = Server(graphs=False, a=500)
    m = measure(server.recorded(waves((4, 16, 48, 8, 64))))
    server.run(waves((4, 16, 48, 8, 64)), profiled=False)
    assert m.step.basis == "unprofiled"
    assert m.step.step_ms == pytest.approx(
        sum(line[4] for line in server.log) / len(server.log), rel=0.05
    )


def test_each_switch_says_the_flag_of_its_engine_with_version_and_source() -> None:
    assert "without --enforce-eager" in switches()["cuda_graphs"].said("vLLM")
    assert "SGLang" not in switches()["cuda_graphs"].said("vLLM")
    assert "--disable-overlap-schedule" in switches()["asynchronous_scheduling"].said("SGLang")
    for engine in ("vLLM", "SGLang", "TensorRT-LLM"):
        assert f"{engine}: " in switches()["cuda_graphs"].said(None)
    assert switches()["less_python"].said("vLLM") == switches()["less_python"].words
    for switch in switches().values():
        for spelling in switch.engines.values():
            assert spelling.version
            assert spelling.source.startswith("https://")
