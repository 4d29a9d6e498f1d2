"""Modules and regions that PyTorch 2.12 and later write into the kernels of a CUDA graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kineto_builder import KinetoTrace
from tests.pftrace_builder import Pftrace
from traceanalyzer.analysis.joined.graph_annotations import ranges_around
from traceanalyzer.analysis.joined.graph_names import UNNAMED, named_in_graphs
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.ingest import load
from traceanalyzer.trace.events import GraphAnnotation

NODES = (
    ("norm_kernel", {"module_fqn": "layers.0.norm"}),
    ("gemm_q", {"module_fqn": "layers.0.attention.wq"}),
    ("gemm_q", {"module_fqn": "layers.1.attention.wq"}),
    ("add", {"name": "residual_add"}),
    ("gemm_q", {"module_fqn": "layers.1.attention.wq", "autograd_phase": "backward"}),
)


def annotated(folder: Path, nodes=NODES) -> Measurements:
    """Two replays of a graph, each kernel 10 us."""
    trace = KinetoTrace()
    for i in range(2):
        at = 1000 * i
        trace.step(i, at, 900)
        trace.api("cudaGraphLaunch", at + 10, 60, i + 1)
        for node, (name, said) in enumerate(nodes):
            trace.kernel(name, at + 100 + 10 * node, 10, correlation=i + 1)
            trace.rows[-1]["args"] |= {"graph id": 3, "graph node id": node + 1, **said}
    (read,) = load([trace.write(folder / "a.json")]).traces
    return measure(read)


def test_modules_have_the_time_of_their_kernels(tmp_path: Path) -> None:
    m = annotated(tmp_path)
    rows = {row.name: row for row in m.modules}
    assert rows["layers.#.attention.wq"].device_ms == pytest.approx(0.030)
    assert rows["layers.#.attention.wq"].backward_ms == pytest.approx(0.010)
    assert rows["layers.#.attention.wq"].modules == 2
    assert rows["layers.#.norm"].device_ms == pytest.approx(0.010)
    assert rows["layers.#"].device_ms == pytest.approx(0.040)
    assert sum(row.self_ms for row in m.modules) == pytest.approx(0.050)
    assert rows["(outside of all modules)"].self_ms == pytest.approx(0.010)


def test_operators_are_regions_or_modules(tmp_path: Path) -> None:
    m = annotated(tmp_path)
    assert {row.name: row.op for row in m.kernels} == {
        "gemm_q": "layers.#.attention.wq",
        "norm_kernel": "layers.#.norm",
        "add": "residual_add",
    }
    assert named_in_graphs(m.linked, m.joined.launch_node) == (10, 10)


def test_kernels_without_a_word_stay_unnamed(tmp_path: Path) -> None:
    nodes = (*NODES[:1], ("silent", {}), ("text", {"annotation": "tail"}))
    m = annotated(tmp_path, nodes)
    assert {row.name: row.op for row in m.kernels} == {
        "norm_kernel": "layers.#.norm",
        "silent": UNNAMED,
        "text": "tail",
    }


def test_what_is_no_annotation_of_a_graph_is_left(tmp_path: Path) -> None:
    trace = KinetoTrace()
    trace.launched("gemm", 0, 10, 5)
    trace.rows[-1]["args"] |= {"name": "other", "module_fqn": "layers.0"}
    (read,) = load([trace.write(tmp_path / "a.json")]).traces
    assert (read.device_ops.annotation == -1).all()


def test_ranges_hold_neighbours_that_say_alike() -> None:
    a = GraphAnnotation(module="layers.0.a")
    b = GraphAnnotation(module="layers.0.b")
    found = [(one.name, one.first, one.until, one.depth) for one in ranges_around([a, a, b])]
    assert found == [
        ("{'Module': 'layers.0'}", 0, 3, 0),
        ("{'Module': 'layers.0.a'}", 0, 2, 1),
        ("layers.#.a", 0, 2, 2),
        ("{'Module': 'layers.0.b'}", 2, 3, 1),
        ("layers.#.b", 2, 3, 2),
    ]
    assert ranges_around([]) == []


def test_what_is_not_marked_lies_in_what_its_neighbours_have_in_common() -> None:
    """A memset between two products of an attention."""
    q = GraphAnnotation(module="layers.0.attention.wq")
    attention = GraphAnnotation(module="layers.0.attention")
    found = ranges_around([GraphAnnotation(), q, GraphAnnotation(), attention, GraphAnnotation()])
    around = {one.name: (one.first, one.until) for one in found if "Module" in one.name}
    assert around == {
        "{'Module': 'layers.0'}": (1, 4),
        "{'Module': 'layers.0.attention'}": (1, 4),
        "{'Module': 'layers.0.attention.wq'}": (1, 2),
    }


def test_a_pftrace_says_the_same(tmp_path: Path) -> None:
    made = Pftrace()
    call = {"cbid": 311, "correlation": 5}
    made.host(("cuda_runtime", "cudaGraphLaunch", 10_000, 60_000, call))
    for node, module in enumerate(("layers.0.norm", "layers.0.mlp")):
        said = {"correlation": 5, "graph_id": 3, "graph_node_id": node + 1, "module_fqn": module}
        made.stage(1, "gemm", 100_000 + 1000 * node, 101_000 + 1000 * node, **said)
    path = tmp_path / "a.pftrace"
    path.write_bytes(bytes(made))
    m = measure(load([path]).traces[0])
    assert {row.name for row in m.modules if row.self_ms} == {"layers.#.norm", "layers.#.mlp"}
