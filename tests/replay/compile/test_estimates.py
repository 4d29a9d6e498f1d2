"""Inductor's own estimates, and what it did not fuse."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.replay.compile.log_builder import LogBuilder
from traceanalyzer.ingest.torch_log import read_fusion, read_logs
from traceanalyzer.ingest.torch_log.explained import read_estimates
from traceanalyzer.replay.compile.measure import measure_logs

if TYPE_CHECKING:
    from pathlib import Path

MEGABYTE = [512, 1024]
"""Shape of a megabyte of bfloat16."""
CODE = """# AOT ID: ['0_forward']
triton_poi_fused_a_0 = async_compile.triton('triton_poi_fused_a_0', '''
''')
triton_red_fused_b_1 = async_compile.triton('triton_red_fused_b_1', '''
''')
def call(self, args):
    triton_poi_fused_a_0.run(x, buf0, 4, stream=stream0)
    extern_kernels.mm(buf0, y, out=buf1)
    triton_red_fused_b_1.run(buf1, buf2, 4, stream=stream0)
    triton_poi_fused_a_0.run(buf2, buf3, 4, stream=stream0)
"""


def keyed(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(
        st.sampled_from(["name", "estimated_runtime_ns", "outputs", "shape", "dtype"]), of
    )


def operation(name: str | None, time: float, shape: list[int] | None = None) -> dict[str, Any]:
    outputs = [{"shape": shape or MEGABYTE, "stride": [1], "dtype": "bfloat16"}]
    return {"name": name, "type": "compute", "estimated_runtime_ns": time, "outputs": outputs}


@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_the_unit_is_told_by_the_bytes_written(scale: float) -> None:
    # 2 MiB at 3,000 bytes/ns; as milliseconds the record would have a millionth of it.
    values = {
        "ops": [
            operation("op0", 700.0 * scale),
            operation(None, 0),
            operation("op1", 0.1 * scale, [4]),
        ]
    }
    found = read_estimates(values)
    assert [one.time_ns for one in found] == [pytest.approx(700.0), None, pytest.approx(0.1)]


@pytest.mark.parametrize(
    "values", [None, [], {"ops": 3}, {"ops": [1, {"estimated_runtime_ns": "x"}]}]
)
def test_another_form_has_no_estimate(values: Any) -> None:
    assert all(one.time_ns is None for one in read_estimates(values))


@given(
    st.recursive(
        st.none() | st.floats() | st.text(max_size=5),
        lambda of: st.lists(of) | keyed(of),
        max_leaves=8,
    )
)
def test_no_form_is_fatal(values: Any) -> None:
    for one in read_estimates({"ops": [values]}):
        assert one.time_ns is None or one.time_ns > 0


def log_with(operations: list[dict[str, Any]]) -> LogBuilder:
    log = LogBuilder()
    log.start()
    log.record("inductor_output_code", {}, CODE)
    log.artifact("inductor_runtime_and_tensor_meta", json.dumps({"ops": operations}))
    return log


def estimates(folder: Path, operations: list[dict[str, Any]]) -> dict[str, float | None]:
    (folder / "some.log").write_bytes(log_with(operations).bytes())
    return {
        row.name: row.estimate_us for row in measure_logs(read_logs(folder / "some.log")).kernels
    }


def test_a_kernel_has_the_mean_of_its_launches(tmp_path: Path) -> None:
    library = operation("extern_kernels.mm", 9000)
    found = estimates(
        tmp_path,
        [operation("op0", 1000), library, operation("op2_op3", 500), operation("op4", 3000)],
    )
    assert found == {"triton_poi_fused_a_0": 2.0, "triton_red_fused_b_1": 0.5}


def test_operations_that_do_not_pair_off_with_launches_tell_nothing(tmp_path: Path) -> None:
    found = estimates(tmp_path, [operation("op0", 1000), operation("op2", 500)])
    assert found == {"triton_poi_fused_a_0": None, "triton_red_fused_b_1": None}


def fusion(*said: str) -> list[bytes]:
    head = "V1122 00:37:47.485000 499 torch/_inductor/scheduler.py:4995] [0/0] [__fusion] "
    return [f"{head}{text}".encode() for text in said]


ROUNDS = fusion(
    "===== attempting fusion (1/10): 3 nodes =====",
    "fuse_nodes_once, candidates:",
    "  SchedulerNode(name='op1'), Pointwise(['[4]', 'origins=OrderedSet([add, mul])'])",
    "  SchedulerNode(name='op2'), Reduction(['[4]', 'origins=OrderedSet([sum_1])'])",
    "cannot fuse op1 with op2: intermediate nodes between node1 & node2",
    "found 1 possible fusions",
    "completed fusion round (1/10): fused 3 nodes into 2 nodes",
    "===== attempting fusion (2/10): 2 nodes =====",
    "fuse_nodes_once, candidates:",
    "cannot fuse op1_op2 with op3: node2 is extern or nop",
    "found 0 possible fusions",
    "completed fusion round (2/10): fused 2 nodes into 2 nodes",
)


def test_pairs_that_were_fused_later_were_not_left_apart() -> None:
    (pair,) = read_fusion([b"what the program prints", *ROUNDS])
    assert (pair.compile_id, pair.first, pair.second) == ("0/0", "op1_op2 (add, mul, sum_1)", "op3")
    assert pair.reason == "node2 is extern or nop"


def test_each_graph_has_its_own_pairs() -> None:
    assert len(read_fusion([*ROUNDS, *ROUNDS])) == 2


def test_the_text_beside_a_log_says_what_was_left_apart(tmp_path: Path) -> None:
    (tmp_path / "some.log").write_bytes(log_with([]).bytes())
    assert measure_logs(read_logs(tmp_path)).not_fused is None
    (tmp_path / "fusion.txt").write_bytes(b"\n".join(ROUNDS))
    (row,) = measure_logs(read_logs(tmp_path)).not_fused or []
    assert (row.reason, row.pairs, row.compile_ids) == ("node2 is extern or nop", 1, ["0/0"])
