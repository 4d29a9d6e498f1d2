"""What to do about a server's iterations, phase by phase: switches of its engine, not changes of a training loop."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from traceanalyzer.base import span
from traceanalyzer.diagnosis.draft import Draft
from traceanalyzer.diagnosis.finding import BottleneckClass, Recommendation
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.serving.outlook import Gain, outlook
from traceanalyzer.replay.whatif import SCENARIO_SPREAD

HOST_CLASSES = ("launch", "sync", "host")  # classes of a device that waits for its host
PIECEWISE = "Replay graphs of the model's parts between attention in prefills, too (vLLM: cudagraph_mode PIECEWISE)"
"""Where decodes replay graphs already."""


class Switch(NamedTuple):
    """A change of how iterations are launched."""

    cls: BottleneckClass
    remedy: str
    words: str


SWITCHES = {
    "cuda_graphs": Switch("launch", "cuda_graph",
        "Replay CUDA graphs (vLLM without --enforce-eager, SGLang without --disable-cuda-graph, TensorRT-LLM: "
        "cuda_graph_config)"),
    "asynchronous_scheduling": Switch("sync", "asynchronous_scheduling",
        "Schedule the next iteration while the GPU works (vLLM: --async-scheduling, SGLang and TensorRT-LLM: overlap "
        "scheduler)"),
    "less_python": Switch("host", "move_host_work",
        "Halve the Python work between iterations: inputs, sampling and text on other threads or processes"),
}  # fmt: skip


def for_server(m: Measurements, advice: list[Recommendation], drafts: Sequence[Draft]) -> list[Recommendation]:
    """The advice on the GPU's work, and switches instead of that on the host where iterations can be replayed. A server
    that replays graphs in all of its iterations is not told to."""
    if not (launched := {row.graph for row in m.iterations if row.gpu_span_ms is not None}):
        return advice
    if m.faithful_server is not None:
        return [one for one in advice if one.cls not in HOST_CLASSES] + list(_switches(m, drafts))
    return advice if "eager" in launched else [one for one in advice if one.remedy != "cuda_graph"]


def _switches(m: Measurements, drafts: Sequence[Draft]) -> Iterator[Recommendation]:
    """Each against the finding of its class, or another one on the host."""
    gains = m.memo(outlook).gains
    for change, switch in SWITCHES.items():
        mine = [gain for gain in gains if gain.change == change]
        found = sorted((d for d in drafts if d.cls in HOST_CLASSES), key=lambda d: d.cls != switch.cls)
        if not mine or not found:
            continue
        step, share, text = m.step.step_ms * mine[0].mean_share, mine[0].mean_share, "; ".join(map(_of_phase, mine))
        low, high = step * (1 - SCENARIO_SPREAD), step * (1 + SCENARIO_SPREAD)
        words = PIECEWISE if change == "cuda_graphs" and mine[0].phase != "decode" else switch.words
        yield Recommendation(
            found[0].id, found[0].cls, f"{words}: {text}.", step, 1 / share,
            "replayed without the profiler: all recorded iterations", switch.remedy, low, high,
        )  # fmt: skip


def _of_phase(gain: Gain) -> str:
    likely = f"{span(gain.low_ms, gain.now_ms)} to {span(gain.high_ms, gain.now_ms)}"
    return f"{gain.phase} {span(gain.now_ms)} → {span(gain.predicted_ms, gain.now_ms)} ({likely})"
