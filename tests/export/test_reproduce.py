"""`reproduce`: scripts that run on PyTorch's CPU build, and refusals."""

from __future__ import annotations

import ast
import re
import sys

import pytest
from click.testing import CliRunner

import traceanalyzer as ta
from tests.collect import warm
from tests.kineto_builder import KinetoTrace
from tests.recorded import ROOT
from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.cli import cli
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.export.reproduce import reproduction

SAMPLES = ROOT / "sample_traces"


def script(name, operator):
    return reproduction(measured(ta.load(SAMPLES / name)).critical, operator)


def reproduce(*words):
    return CliRunner().invoke(cli, ["reproduce", *map(str, words)])


def test_a_call_has_the_recorded_shapes_types_and_strides():
    text = script("launch_bound", "aten::addmm")
    inputs = [line.strip() for line in text.splitlines() if line.startswith("    tensor([")]
    weight = re.fullmatch(r"tensor\(\[(\d+), \d+\], \[1, (\d+)\], torch.float32\),", inputs[2])
    assert len(inputs) == 3
    assert weight is not None, inputs
    assert weight[1] == weight[2]  # the weight of a linear layer is given transposed
    assert "us of device time each" in text


@pytest.mark.parametrize(
    "operator",
    [
        "aten::addmm",
        "aten::linear",
        "aten::gelu",
        "aten::gelu_backward",
        "aten::copy_",
        "aten::sum",
        "aten::expand",
    ],
)
def test_it_runs_without_a_gpu(operator, tmp_path):
    pytest.importorskip("torch")
    file = tmp_path / "again.py"
    file.write_text(script("launch_bound", operator))
    done = warm.run([sys.executable, file])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{operator}: ")
    assert " us per call on cpu" in done.stdout


def test_what_cannot_be_made_again_is_refused_in_one_line():
    for operator, why in (
        ("aten::nope", "was not recorded with its shapes; operators with shapes: "),
        ("aten::_fused_adamw_", "takes a list of tensors, and the recorder left out"),
    ):
        done = reproduce(SAMPLES / "launch_bound", operator)
        assert done.exit_code == 1
        assert why in str(done.exception)
    done = reproduce(SAMPLES / "nsys_sync_bound", "aten::mm")
    assert "no operator has shapes in it" in str(done.exception)


CODE = "__import__('evil').run()"
INJECTED = (
    CODE,
    f'"); {CODE}; ("',
    f'""" + {CODE} + """',
    f"{{{CODE}}}",
    f'\\\\"""\n{CODE}\n"""',
    f"'+{CODE}+'",
    f'\\"); {CODE} #',
    f"\r{CODE}",
)


@pytest.mark.parametrize("text", INJECTED)
@pytest.mark.parametrize(
    "where", ["gpu", "Input Dims", "Input type", "Input Strides", "Concrete Inputs", "file"]
)
def test_nothing_of_a_recording_becomes_code(text, where, tmp_path):
    """The script is to be run: a recording of a stranger's must not write in it."""
    values = {
        "Input Dims": [[8, 16], [16, 8], []],
        "Input type": ["float", "float", "Scalar"],
        "Concrete Inputs": ["", "", "1"],
        "Input Strides": [[16, 1], [8, 1], []],
    }
    trace = KinetoTrace()
    trace.metadata["deviceProperties"] = [
        {"id": 0, "name": text if where == "gpu" else "NVIDIA H100"}
    ]
    for made in (
        (values | {where: text}),
        *(values | {where: [text, *values.get(where, [])[1:]]},) * (where in values),
    ):
        for i in range(3):
            trace.step(i, 1000 * i, 900)
            row = trace.op("aten::mm", 1000 * i + 5, 60, External_id=i + 1)
            row["args"] |= {key: value for key, value in made.items() if key in values}
            trace.launched("gemm", 1000 * i + 10, 1000 * i + 30, 200, external_id=i + 1)
        name = re.sub("[/\0]", "_", text) if where == "file" else "trace"
        done = reproduce(trace.write(tmp_path / f"{name}.json"), "aten::mm")
        if done.exit_code:
            assert isinstance(done.exception, TraceAnalyzerError), done.exception
        else:
            tree = ast.parse(done.stdout)
            assert "evil" not in {
                node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)
            }
            assert "__import__" not in {
                node.id for node in ast.walk(tree) if isinstance(node, ast.Name)
            }
            compile(tree, "again.py", "exec")
