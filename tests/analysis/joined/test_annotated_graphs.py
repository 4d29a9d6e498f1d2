"""Graphs that were recorded on a GPU and marked module by module: `tests/data/graphs`."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.pftrace_builder import Pftrace
from tests.recorded import ROOT
from traceanalyzer.analysis.joined.graph_names import named_in_graphs
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.ingest import load

FOLDER = ROOT / "tests" / "data" / "graphs"
NAMES = ("torch213_h200_decoder", "torch213_h200_resnet50")
OUTSIDE = "(outside of all modules)"
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
STAGES = {"kernel": 1, "gpu_memcpy": 2, "gpu_memset": 3}
LINEAR = re.compile(r"\.(w[qkvo123]|output|fc|conv\d|downsample\.\d+)$")
STEPS = 2


def read(path: Path) -> Measurements:
    return measure(load([path]).traces[0])


def events_of(name: str) -> list[dict[str, Any]]:
    events = json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))["traceEvents"]
    return [one for one in events if one["ph"] == "X"]


def replayed(events: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The ops of each replay in order."""
    launches = [one["args"]["correlation"] for one in events if "GraphLaunch" in one["name"]]
    ops = sorted((one for one in events if one.get("cat") in DEVICE), key=lambda one: one["ts"])
    return [[one for one in ops if one["args"]["correlation"] == launch] for launch in launches]


def modules_of(ops: list[dict[str, Any]]) -> list[list[str]]:
    """The path of each op's module; between two modules what they have in common."""
    told = [one["args"].get("module_fqn", "").split(".") for one in ops]
    for at in range(1, len(ops) - 1):
        if told[at] == [""]:
            shared = 0
            while told[at - 1][shared : shared + 1] == told[at + 1][shared : shared + 1] != []:
                shared += 1
            told[at] = told[at + 1][:shared]
    return told


def by_brute_force(events: list[dict[str, Any]]) -> dict[str, float]:
    """Milliseconds a step of each kind of module, of all within it."""
    spent = Counter[str]()
    for ops in replayed(events):
        for op, path in zip(ops, modules_of(ops), strict=True):
            for count in range(1, len(path) + 1):
                if path != [""] and not (count < len(path) and path[count].isdigit()):
                    kind = re.sub(r"\b\d+\b", "#", ".".join(path[:count]))
                    spent[kind] += op["dur"] / 1e3 / STEPS
    return dict(spent)


@pytest.mark.parametrize("name", NAMES)
def test_nearly_all_time_of_a_graph_has_a_module(name: str) -> None:
    m = read(FOLDER / f"{name}.json.gz")
    graph_ms = sum(op["dur"] for ops in replayed(events_of(name)) for op in ops) / 1e3 / STEPS
    told_ms = sum(row.self_ms for row in m.modules if row.name != OUTSIDE)
    assert told_ms >= 0.99 * graph_ms


@pytest.mark.parametrize("name", NAMES)
def test_modules_have_the_time_of_their_kernels(name: str) -> None:
    found = {row.name: row.device_ms for row in read(FOLDER / f"{name}.json.gz").modules}
    assert found.pop(OUTSIDE) > 0, "what a step does after its graph"
    expected = by_brute_force(events_of(name))
    assert found == {kind: pytest.approx(ms, abs=1e-5) for kind, ms in expected.items()}


@pytest.mark.parametrize("name", NAMES)
def test_every_module_is_called_once_for_each_of_it(name: str) -> None:
    """Memsets that nobody marked lie in the module around them, and part none in two."""
    rows = read(FOLDER / f"{name}.json.gz").modules
    blocks = [row for row in rows if re.fullmatch(r"layer\w*\.#", row.name)]
    assert blocks
    assert all(row.calls == row.modules for row in blocks)


@pytest.mark.parametrize("name", NAMES)
def test_products_lie_in_layers_with_weights(name: str) -> None:
    """The roofline's kinds of kernels agree with the marks, and operators are modules."""
    m = read(FOLDER / f"{name}.json.gz")
    named, ops = named_in_graphs(m.linked, m.joined.launch_node)
    unmarked = sum(
        "module_fqn" not in op["args"] for each in replayed(events_of(name)) for op in each
    )
    assert named == ops - unmarked
    products = [row for row in m.kernels if row.cls == "gemm"]
    assert products
    assert all(LINEAR.search(f".{row.op}".replace("#", "0")) for row in products)


@pytest.mark.parametrize("name", NAMES)
def test_a_pftrace_says_the_same(name: str, tmp_path: Path) -> None:
    events = events_of(name)
    first = min(one["ts"] for one in events)

    def at(time: float) -> int:
        return round((time - first) * 1e3)

    made = Pftrace()
    for one in sorted(events, key=lambda one: one["ts"]):
        begin, end = at(one["ts"]), at(one["ts"] + one["dur"])
        if one.get("cat") in DEVICE:
            keys = ("correlation", "graph id", "graph node id", "module_fqn")
            told = {key: one["args"][key] for key in keys if key in one["args"]}
            made.stage(STAGES[one["cat"]], one["name"], begin, end, **told)
    host = [one for one in events if one.get("cat") in ("cuda_runtime", "user_annotation")]
    for one in sorted(host, key=lambda one: one["ts"]):
        begin, end = at(one["ts"]), at(one["ts"] + one["dur"])
        made.host((one["cat"], one["name"], begin, end, one["args"]))
    path = tmp_path / "a.pftrace"
    path.write_bytes(bytes(made))
    of_pftrace = {row.name: row.device_ms for row in read(path).modules}
    of_json = {row.name: row.device_ms for row in read(FOLDER / f"{name}.json.gz").modules}
    assert of_pftrace == {kind: pytest.approx(ms, abs=1e-5) for kind, ms in of_json.items()}
