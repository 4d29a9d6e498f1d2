"""Recordings of the capture of CUDA graphs that lie near one that replays them."""

from pathlib import Path

import pytest

from tests.analysis.joined.test_graph_names import DECODE, KERNELS, OPS, operators
from tests.kineto_builder import KinetoTrace
from traceanalyzer.analysis.joined.graph_names import UNNAMED
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.diagnosis.serving.sentences import sentences
from traceanalyzer.ingest import load

NAMED = "graph_capture_rank_0.177.pt.trace.json.gz"


def replay(path: Path, rank: int | None = None) -> str:
    """One decode of five kernels in a graph."""
    trace = KinetoTrace()
    trace.annotation(DECODE.format(7, 100), 1000, 20)
    trace.api("cudaGraphLaunch", 1002, 16, 1)
    for i, kernel in enumerate(KERNELS):
        trace.kernel(kernel, 1020 + 10 * i, 8, correlation=1)
    return str((trace if rank is None else trace.rank(rank)).write(path))


def capture(path: Path, ops: tuple[str, ...] = OPS, batch: int = 8) -> Path:
    """The launches of a capture, which put nothing on the device."""
    path.parent.mkdir(exist_ok=True)
    trace = KinetoTrace()
    trace.annotation(f"capture_{batch}_FULL", 0, 100)
    for i, op in enumerate(ops):
        trace.op(op, 6 + 10 * i, 8)
        trace.api("cudaLaunchKernel", 8 + 10 * i, 2, i + 1)
    trace.kernel("warmup", 200, 5, correlation=0)
    return trace.write(path)


def said(path: str) -> tuple[set[str | None], str]:
    """The operators of its kernels, and what is said of those in graphs."""
    run = load([path])
    assert [trace.path for trace in run.traces] == [path]
    m = measure(run.traces[0])
    return {row.op for row in m.kernels}, next(
        text for text in sentences(m) if "CUDA graphs" in text
    )


@pytest.mark.parametrize(
    "name", [NAMED, "capture_8_FULL.json", "capture_traces/capture_trace_rank_0.json.gz"]
)
def test_a_capture_nearby_names_the_kernels(tmp_path, name):
    path = replay(tmp_path / "decode.json")
    capture(tmp_path / name)
    assert said(path) == (
        set(OPS),
        f"5 of 5 kernels in CUDA graphs have operator names by {Path(name).name}.",
    )


@pytest.mark.parametrize(
    "names", [(), ("recaptured.json",), (NAMED, "graph_capture_rank_0.178.pt.trace.json.gz")]
)
def test_nothing_happens_where_none_is_named_so_or_several_could_be_meant(tmp_path, names):
    path = replay(tmp_path / "decode.json")
    for name in names:
        capture(tmp_path / name)
    ops, text = said(path)
    assert ops == {UNNAMED}
    assert text.startswith("Kernels in CUDA graphs have no operator names; add")


def test_a_capture_of_other_launches_names_nothing_and_is_said_to_be_one(tmp_path):
    path = replay(tmp_path / "decode.json")
    capture(tmp_path / NAMED, OPS[:4])
    ops, text = said(path)
    assert ops == {UNNAMED}
    assert f"{NAMED} is of other graphs, none with these kernels." in text


def test_each_batch_may_have_a_file_and_the_smallest_that_fits_is_used(tmp_path):
    path = replay(tmp_path / "decode.json")
    for batch in (4, 8, 16):
        capture(
            tmp_path / f"capture_{batch}_FULL.json",
            tuple(f"aten::b{batch}_{i}" for i in range(5)),
            batch,
        )
    ops, text = said(path)
    assert ops == {f"aten::b8_{i}" for i in (0, 1, 2, 4)}  # one kernel is launched twice
    assert text.endswith("by capture_8_FULL.json.")


def test_a_rank_has_its_own_and_a_capture_that_was_given_is_the_only_one(tmp_path):
    path = replay(tmp_path / "decode.json", rank=1)
    capture(tmp_path / "graph_capture_rank_0.177.json")
    assert said(path)[0] == {UNNAMED}
    mine = capture(tmp_path / "graph_capture_rank_1.177.json")
    assert said(path)[1].endswith(f"by {mine.name}.")
    given = capture(tmp_path / "other.json", tuple(f"aten::other{i}" for i in range(5)))
    trace = load([path, str(given)]).traces[0]
    assert [one.path for one in trace.captures] == [str(given)]
    assert operators(measure(trace))["soft"] == "aten::other2"
