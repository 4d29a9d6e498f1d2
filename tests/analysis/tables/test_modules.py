from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.collectives import GEMM, Ranked
from tests.recorded import ROOT
from traceanalyzer.analysis.joined.origins import places_of
from traceanalyzer.analysis.names.pytorch import module_of
from traceanalyzer.analysis.tables.modules import OUTSIDE
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.ingest import load
from traceanalyzer.trace import RangeKind

STACKS = ROOT / "sample_traces" / "sync_bound_stacks"


@pytest.mark.parametrize(
    ("name", "kind", "instance"),
    [
        ("nn.Module: Linear_3", "Linear", "nn.Module: Linear_3"),
        (
            "nn.Module: BertSdpaSelfAttention_11",
            "BertSdpaSelfAttention",
            "nn.Module: BertSdpaSelfAttention_11",
        ),
        (
            "{'Module': 'model.layers.0.mlp', 'Inputs': [[1, 2]]}",
            "model.layers.#.mlp",
            "model.layers.0.mlp",
        ),
        ("model.layers.12.self_attn", "model.layers.#.self_attn", "model.layers.12.self_attn"),
        ("transformer.h.0", "transformer.h.#", "transformer.h.0"),
    ],
)
def test_names_of_modules(name: str, kind: str, instance: str) -> None:
    assert module_of(name) == (kind, instance)


@pytest.mark.parametrize(
    "name", ["forward", "step.1", "aten::linear", "layers", "epoch.3.step.4", "torch.nn"]
)
def test_other_names_are_no_modules(name: str) -> None:
    assert module_of(name) is None


def model(*, annotated: bool = False) -> Ranked:
    """Two layers of one class in a model; each has a forward kernel, the second a backward one; one
    kernel lies in the model alone and one outside."""
    builder = Ranked()
    builder.annotation("ProfilerStep#0", 0, 1000).annotation("ProfilerStep#1", 1000, 1100)
    add = builder.annotation if annotated else builder.python
    add("nn.Module: Net_0", 10, 300)
    add("nn.Module: Layer_0", 20, 100)
    add("nn.Module: Layer_1", 110, 200)
    builder.op("aten::linear", 30, 60, sequence=1).launched(GEMM, 50, 70, 40)
    builder.op("aten::linear", 120, 160, sequence=2).launched(GEMM, 150, 180, 130)
    builder.op("aten::sum", 220, 240, sequence=3).launched("reduce_kernel", 240, 250, 230)
    builder.op("autograd::engine::evaluate_function: AddmmBackward0", 400, 500, thread=1)
    builder.op("AddmmBackward0", 401, 499, thread=1, sequence=2, forward_thread=1)
    builder.launched(GEMM, 450, 550, 420, thread=1)
    builder.launched("fill", 600, 605, 560)
    return builder


@pytest.mark.parametrize("annotated", [False, True])
def test_device_time_goes_to_the_module_whose_forward_pass_made_it(annotated: bool) -> None:
    builder = model(annotated=annotated)
    rows = {row.name: row for row in measure(builder.trace(), only_step=0).modules}
    assert list(rows) == ["Net", "Layer", OUTSIDE]
    net, layer, outside = rows.values()
    assert (net.device_ms, net.forward_ms, net.backward_ms, net.self_ms) == pytest.approx(
        (0.16, 0.06, 0.1, 0.01)
    )
    assert (layer.device_ms, layer.forward_ms, layer.backward_ms) == pytest.approx(
        (0.15, 0.05, 0.1)
    )
    assert (layer.modules, layer.calls, layer.depth, layer.within) == (2, 2.0, 1, "Net")
    assert outside.device_ms == pytest.approx(0.005)
    assert layer.host_ms == pytest.approx(0.17)


def test_what_runs_again_in_the_backward_pass_is_recomputed() -> None:
    """Of two steps each launches 30 us in the backward pass that its forward pass launched
    before."""
    builder = Ranked()
    for i, at in enumerate((0, 1000)):
        builder.annotation(f"ProfilerStep#{i}", at, at + 1000).python(
            "nn.Module: Layer_0", at + 10, at + 90
        )
        builder.op("aten::addmm", at + 20, at + 40, sequence=i).launched(
            GEMM, at + 50, at + 80, at + 30
        )
        node = "autograd::engine::evaluate_function: AddmmBackward0"
        builder.op(node, at + 100, at + 300, thread=1, forward_thread=1, sequence=i)
        builder.op("aten::addmm", at + 110, at + 130, thread=1, sequence=i)
        builder.launched(GEMM, at + 150, at + 180, at + 120, thread=1)
        builder.op("aten::mm", at + 140, at + 160, thread=1).launched(
            GEMM, at + 200, at + 260, at + 150, thread=1
        )
    (layer,) = measure(builder.trace()).modules
    assert (layer.recomputed_ms, layer.backward_ms, layer.device_ms) == pytest.approx(
        (0.03, 0.09, 0.12)
    )


def test_annotated_modules_are_no_phases() -> None:
    assert {row.name for row in measure(model(annotated=True).trace()).phase_rows} == {
        "forward",
        "backward",
    }


def test_without_modules_there_is_no_row() -> None:
    assert measure(Ranked().launched(GEMM, 0, 10, 0).trace()).modules == []


def test_kernels_and_operators_lead_back_to_module_and_line() -> None:
    builder = model()
    builder.python("train.py(12): step", 5, 350)
    m = measure(builder.trace(), only_step=0)
    kernels = {row.full_name: row for row in m.kernels}
    assert (kernels[GEMM].module, kernels[GEMM].python) == ("Net > Layer", "train.py(12): step")
    assert (kernels["reduce_kernel"].module, kernels["fill"].module) == ("Net", None)
    assert (kernels["fill"].python, {row.name: row.module for row in m.ops}["aten::linear"]) == (
        None,
        "Net > Layer",
    )


def covered(path: Path) -> Measurements:
    return measure(load([path]).traces[0])


@pytest.mark.parametrize(
    "path", [STACKS, ROOT / "tests" / "data" / "gpu" / "host_bound.json.gz"], ids=lambda p: p.name
)
def test_modules_against_a_search_through_every_frame(path: Path) -> None:
    m = covered(path)
    ranges = m.trace.host_ranges
    calls = m.trace.api_calls
    ops = m.trace.device_ops
    strings = m.trace.strings
    python = [i for i in range(len(ranges)) if ranges.kind[i] == RangeKind.PYTHON]
    frames = [i for i in python if strings[ranges.name[i]].startswith("nn.Module: ")]
    inside = total = 0
    for op in range(len(ops)):
        call = m.linked.launch[op]
        if m.timed.steps.of_op[op] < m.timed.steps.warmup:
            continue
        length = int(ops.end[op] - ops.start[op])
        total += length
        mine = [i for i in frames if ranges.thread[i] == calls.thread[call]] if call >= 0 else []
        held = any(ranges.start[i] <= calls.start[call] < ranges.end[i] for i in mine)
        inside += length if held else 0
    rows = m.modules
    assert inside > 0
    top = sum(row.device_ms for row in rows if row.depth == 0 and row.name != OUTSIDE)
    assert top == pytest.approx(inside / 1e6 / m.timed.steps.steady_count)
    assert sum(row.self_ms for row in rows) == pytest.approx(
        total / 1e6 / m.timed.steps.steady_count
    )
    assert all(row.forward_ms + row.backward_ms == pytest.approx(row.device_ms) for row in rows)


def test_places_come_before_those_inside_them() -> None:
    places = places_of(covered(STACKS).joined.origins.calls)
    assert all(above < place for place, above in enumerate(places.above.tolist()))
    assert [len(path) for path in places.paths] == [
        1 + (len(places.paths[above]) if above >= 0 else 0) for above in places.above.tolist()
    ]
