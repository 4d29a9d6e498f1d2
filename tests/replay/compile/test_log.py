"""The reader of torch.compile's log: what is in the file, good and bad, and what was compiled."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.replay.compile.log_builder import LogBuilder
from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.ingest.torch_log import read_logs
from traceanalyzer.ingest.torch_log.records import records
from traceanalyzer.replay.compile.measure import measure_logs
from traceanalyzer.replay.compile.stages import stage_of
from traceanalyzer.trace.compile_log import Counts

if TYPE_CHECKING:
    from traceanalyzer.replay.compile.model import Compiled

DATA = Path(__file__).parents[2] / "data" / "compile"
ALL = frozenset({"x", "chromium_event"})


def measured(folder: Path, log: LogBuilder) -> Compiled:
    file = folder / "some.log"
    file.write_bytes(log.bytes())
    return measure_logs(read_logs(file))


def read(content: bytes) -> tuple[list[str], Counts]:
    counts = Counts()
    found = [
        record.payload.decode(errors="replace")
        for record in records(content.split(b"\n"), ALL, counts)
    ]
    return found, counts


def test_payloads_lose_one_tab_and_are_checked() -> None:
    log = LogBuilder()
    log.record("x", {}, "a\n\tb\n\nc")
    found, counts = read(log.bytes())
    assert found == ["a\n\tb\n\nc"]
    assert (counts.records, counts.damaged_payloads, counts.stray_lines) == (1, 0, 0)


def test_a_payload_that_is_cut_off_is_counted() -> None:
    log = LogBuilder()
    log.record("x", {}, "one\ntwo\nthree")
    found, counts = read(b"\n".join(log.bytes().split(b"\n")[:2]))
    assert found == ["one"]
    assert counts.damaged_payloads == 1


def test_ranks_that_write_between_each_others_lines_are_told_apart() -> None:
    logs = [LogBuilder(prefix=f"[rank{rank}]:") for rank in (0, 1)]
    for rank, log in enumerate(logs):
        log.record("x", {}, f"{rank}\n{rank}")
    mixed = [line for pair in zip(*(log.lines for log in logs), strict=True) for line in pair]
    found, counts = read("\n".join(mixed).encode())
    assert found == ["0\n0", "1\n1"]
    assert counts.damaged_payloads == 0


def test_what_the_program_prints_and_broken_json_are_counted() -> None:
    log = LogBuilder()
    log.record("x", {})
    content = log.bytes() + b'hello\n\ttabbed\nV1121 21:38:16.518000 979 a.py:1] {"x": \n'
    _, counts = read(content)
    assert (counts.records, counts.stray_lines, counts.unreadable) == (1, 2, 1)


def test_bytes_that_are_no_text_do_not_lose_a_record() -> None:
    line = b'V1121 21:38:16.518000 979 a.py:1] {"x": {"path": "\xff\xfe"}}\n'
    _, counts = read(line)
    assert (counts.records, counts.unreadable) == (1, 0)


@given(st.binary(max_size=400), st.integers(0, 400))
def test_no_damage_is_fatal(noise: bytes, at: int) -> None:
    log = LogBuilder()
    log.record("x", {}, "payload")
    log.start()
    content = log.bytes()
    _, counts = read(content[:at] + noise + content[at:])
    assert counts.records <= 3 + noise.count(b"V")


def test_stages_sum_to_the_total_and_count_each_nanosecond_once(tmp_path: Path) -> None:
    log = LogBuilder()
    log.start()
    log.event("dynamo", "B", 0)
    log.event("entire_frame_compile", "B", 10)
    log.event("backend_compile", "B", 110)
    log.event("inductor_compile", "B", 210)
    log.span("async_compile.wait", 310, 710)
    log.event("something_new", "B", 710)
    log.event("something_new", "E", 810)
    log.event("inductor_compile", "E", 910)
    log.event("backend_compile", "E", 1010)
    log.event("entire_frame_compile", "E", 1110)
    log.event("dynamo", "E", 1200)
    log.metrics(1100e-6)
    compiled = measured(tmp_path, log)
    wanted = {"dynamo": 200e-6, "aot": 200e-6, "inductor": 300e-6, "triton": 400e-6}
    assert {k: pytest.approx(v) for k, v in wanted.items()} == {
        k: v for k, v in compiled.stages_s.items() if v
    }
    assert compiled.compile_s == pytest.approx(1100e-6)


def test_a_span_without_an_end_counts_up_to_the_last_event(tmp_path: Path) -> None:
    log = LogBuilder()
    log.start()
    log.event("entire_frame_compile", "B", 0)
    log.span("backend_compile", 100, 300)
    compiled = measured(tmp_path, log)
    assert compiled.compile_s == pytest.approx(300e-6)
    assert compiled.log["unfinished_spans"] == 1


def test_logs_without_spans_have_the_metrics_stages(tmp_path: Path) -> None:
    log = LogBuilder()
    log.start()
    log.metrics(
        5.0,
        backend_compile_time_s=4.0,
        inductor_compile_time_s=3.0,
        triton_compile_time_us=1_000_000,
    )
    compiled = measured(tmp_path, log)
    assert (
        compiled.stages_s["dynamo"]
        == compiled.stages_s["aot"]
        == compiled.stages_s["triton"]
        == 1.0
    )
    assert compiled.compile_s == 5.0


def test_recompilations_are_grouped_by_guard_and_the_refused_one_is_apart(tmp_path: Path) -> None:
    log = LogBuilder()
    for number in range(4):
        log.number = number
        log.start()
        if number:
            reason = f"0/{number - 1}: tensor 'x' size mismatch at index 0. expected {number}, actual {number + 1}"
            log.artifact("recompile_reasons", json.dumps([reason, "0/0: older"]))
        if number == 3:
            reason = "Dynamo recompile limit exceeded\n  Explanation"
            log.record("compilation_metrics", {"fail_type": "Unsupported", "fail_reason": reason})
        else:
            log.record("dynamo_output_graph", {"sizes": {"x": [number]}}, "g")
            log.metrics(1.0)
    compiled = measured(tmp_path, log)
    (row,) = compiled.recompile_reasons
    assert (row.count, row.refused, row.location) == (2, 1, "/p/train.py:7")
    assert row.values == ["1", "2", "3", "4"]
    assert "mark_dynamic(x, 0)" in row.remedy
    assert (compiled.graphs, compiled.recompiles, compiled.recompile_limit_hit) == (3, 2, True)


def test_what_fails_again_and_again_is_no_recompilation(tmp_path: Path) -> None:
    log = LogBuilder()
    for number in range(3):
        log.number = number
        log.start()
        log.artifact("dynamo_error", "Traceback\n  File\nRuntimeError: broken backend\n")
        log.metrics(0.1, fail_type="BackendCompilerFailed", fail_reason="x")
    compiled = measured(tmp_path, log)
    assert compiled.recompiles == 0
    assert compiled.errors == ["forward (/p/train.py:7): RuntimeError: broken backend (3 times)"]


def test_breaks_of_old_logs_are_found_by_restarts_and_what_goes_on(tmp_path: Path) -> None:
    log = LogBuilder()
    log.start()
    log.metrics(0.1, restart_reasons=["'skip function graph_break in file /t/decorators.py'"])
    log.frame = 1
    log.start()
    log.metrics(0.1, co_name="torch_dynamo_resume_in_forward_at_12", restart_reasons=[])
    (row,) = measured(tmp_path, log).graph_breaks
    assert (row.location, row.count) == ("/p/train.py:12", 1)


def test_caches_count_hits_misses_bypasses_and_graphs_that_were_not_asked_for(
    tmp_path: Path,
) -> None:
    log = LogBuilder()
    log.start()
    log.artifact("fx_graph_cache_miss", json.dumps({"key": "fa"}))
    log.artifact("aotautograd_cache_bypass", json.dumps({"cache_bypass_reason": "a custom pass"}))
    log.number = 1
    log.start()
    log.artifact("fx_graph_cache_hit", json.dumps({"key": "fb", "time_saved_ns": 2_000_000_000}))
    log.number = 2
    log.start()
    log.record("inductor_output_code", {}, "# AOT ID: ['2_inference']\n")
    cache = measured(tmp_path, log).cache
    assert cache is not None
    assert (cache.hits, cache.misses, cache.bypasses, cache.off, cache.saved_s) == (1, 1, 1, 1, 2.0)
    assert cache.bypass_reasons == ["a custom pass"]


def test_only_graphs_that_were_compiled_anew_cost_time_at_a_cold_start(tmp_path: Path) -> None:
    log = LogBuilder()
    for number, (outcome, seconds) in enumerate((("miss", 3), ("hit", 1))):
        log.number = number
        log.start()
        begin = 100e6 * number
        log.event("entire_frame_compile", "B", begin)
        log.span("inductor_compile", begin + 1e6, begin + (1 + seconds) * 1e6)
        log.event("entire_frame_compile", "E", begin + 10e6)
        log.artifact(f"fx_graph_cache_{outcome}", json.dumps({"key": outcome}))
        log.record("inductor_output_code", {}, "# code\n")
    cache = measured(tmp_path, log).cache
    assert cache is not None
    assert cache.cold_s == pytest.approx(
        3.0
    )  # the first graph's inductor; the second came from the cache


def test_a_kernel_gets_the_lines_of_the_nodes_it_computes(tmp_path: Path) -> None:
    log = LogBuilder()
    log.start()
    graph = (
        "class G:\n    def forward(self, a):\n"
        "        # File: /p/train.py:9 in forward, code: y = x.relu()\n"
        '        relu: "f32[4]" = torch.ops.aten.relu.default(a)\n'
        "        # No stacktrace found for following nodes\n"
        '        add: "f32[4]" = torch.ops.aten.add.Tensor(relu, 1)\n'
    )
    log.artifact("before_post_grad_graph", graph)
    code = (
        "# AOT ID: ['0_forward']\n\n# kernel path: /c/ab/cabc.py\n"
        "# Topologically Sorted Source Nodes: [y], Original ATen: [aten.relu]\n# Graph fragment:\n"
        "#   %relu : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%a,), kwargs = {})\n"
        "triton_poi_fused_relu_0 = async_compile.triton('triton_poi_fused_relu_0', '''\n''')\n"
    )
    log.record("inductor_output_code", {}, code)
    log.artifact("fx_graph_cache_miss", json.dumps({"key": "fkey"}))
    (kernel,) = measured(tmp_path, log).kernels
    assert kernel.lines == ["/p/train.py:9: y = x.relu()"]
    assert (kernel.graph, kernel.operators, kernel.nodes) == ("fkey", ["aten.relu"], 1)


def test_ranks_that_compile_other_graphs_are_named(tmp_path: Path) -> None:
    for rank, operators in ((0, 3), (1, 4)):
        log = LogBuilder()
        log.start()
        log.record("dynamo_output_graph", {}, "g", rank=rank)
        log.metrics(1.0 + rank, graph_op_count=operators)
        (tmp_path / f"dedicated_log_torch_trace_rank_{rank}_x.log").write_bytes(log.bytes())
    compiled = measure_logs(read_logs(tmp_path))
    assert [row.rank for row in compiled.ranks] == [0, 1]
    assert compiled.compile_s == 2.0
    assert compiled.ranks_differ == ["rank 1 compiled 0/0 (forward) differently from rank 0."]


def test_what_is_no_log_is_an_error_of_one_line(tmp_path: Path) -> None:
    for name, content in (("a.txt", b"hello\n"), ("b.gz", gzip.compress(b"V1121 nothing\n"))):
        file = tmp_path / name
        file.write_bytes(content)
        with pytest.raises(TraceAnalyzerError, match="not a structured log"):
            read_logs(file)
    with pytest.raises(TraceAnalyzerError, match="no log of"):
        read_logs(tmp_path)


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("CachingAutotuner.benchmark_all_configs", "autotune"),
        ("CUDAGraphNode.record", "cudagraphs"),
        ("odd", ""),
    ],
)
def test_stages_of_spans(name: str, stage: str) -> None:
    assert stage_of(name) == stage


def test_recordings_have_the_counts_of_dynamo() -> None:
    clean = measure_logs(read_logs(DATA / "clean.log.gz"))
    assert (clean.graphs, clean.recompiles, clean.graph_breaks) == (1, 0, [])
    assert clean.cache is not None
    assert (clean.cache.hits, clean.cache.misses, clean.cache.bypasses) == (0, 2, 0)
    # entire_frame_compile_time_s, and the durations of the backward and of autotuning while it ran
    assert clean.compile_s == pytest.approx(5.167329 + 2.126454 + 0.125490 + 0.011001, abs=1e-3)
    assert all(kernel.lines for kernel in clean.kernels)
    graphs = measure_logs(read_logs(DATA / "cudagraphs.log.gz")).cudagraphs
    assert graphs is not None
    assert (graphs.used, graphs.wanted, graphs.recorded, graphs.skipped) == (True, True, 1, [])
    (broken,) = measure_logs(read_logs(DATA / "break_once.log.gz")).graph_breaks
    assert broken.location.endswith("compile_cases.py:33")
    assert (broken.count, broken.whole_function_eager) == (1, True)


def test_ranks_without_a_prefix_are_told_apart_by_what_records_say(tmp_path: Path) -> None:
    log = LogBuilder()
    log.record("str", ["/p/train.py", 0])
    for rank in (0, 1):
        log.record(
            "dynamo_start", {"stack": [{"line": 1, "name": "f", "filename": "/p/a.py"}]}, rank=rank
        )
        log.record("dynamo_output_graph", {}, "g", rank=rank)
    file = tmp_path / "both.log"
    file.write_bytes(log.bytes())
    logs = read_logs(file)
    assert [(each.rank, len(each.compilations)) for each in logs] == [(0, 1), (1, 1)]


def test_a_rank_that_is_known_only_later_is_the_same_process(tmp_path: Path) -> None:
    log = LogBuilder()
    log.start()
    log.record("dynamo_output_graph", {}, "g", rank=3)
    log.metrics(1.0)
    file = tmp_path / "one.log"
    file.write_bytes(log.bytes())
    (one,) = read_logs(file)
    assert (one.rank, one.compilations[0].graphs, len(one.compilations)) == (3, 1, 1)


def test_a_restart_of_a_version_that_logs_breaks_is_no_break(tmp_path: Path) -> None:
    log = LogBuilder()
    log.start()
    log.metrics(0.1, restart_reasons=["something else"], pytorch_version="2.11.0")
    assert measured(tmp_path, log).graph_breaks == []
