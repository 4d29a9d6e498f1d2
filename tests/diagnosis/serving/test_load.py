"""A server under load: what its log, its metrics or a benchmark's summary say, and what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import traceanalyzer as ta
from tests import serving_texts as texts
from tests.recorded import ROOT
from traceanalyzer.report.markdown.issue import render_markdown
from traceanalyzer.report.terminal.screen import render_screen

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.analysis.serving.figures import Serving
    from traceanalyzer.report.model import Report

DATA = ROOT / "tests" / "data"


def analyzed(tmp_path: Path, text: str) -> Report:
    path = tmp_path / "server.log"
    path.write_text(text, encoding="utf-8")
    return ta.analyze(path)


def load_of(report: Report) -> Serving:
    assert report.metrics.serving is not None
    return report.metrics.serving


def ids(report: Report) -> list[str]:
    return [one.id for one in report.findings]


FULL = [
    (texts.vllm_log(12, 140, 98.9), 140, 12, 0.989, "--kv-cache-dtype fp8"),
    (texts.VLLM_OLD_LINE.format(n=1) * 3, 32, 64, 0.995, "--gpu-memory-utilization"),
    (texts.sglang_log(12, 144, 0.96), 144, 12, 0.96, "--mem-fraction-static"),
    (
        "".join(texts.TENSORRT_LLM.format(n=n, used=898, waiting=7) for n in range(3)),
        7,
        4,
        0.898,
        "free_gpu_memory_fraction",
    ),
    (texts.VLLM_METRICS, 140, 12, 0.989, "--tensor-parallel-size"),
]


@pytest.mark.parametrize("case", range(len(FULL)))
def test_requests_that_wait_for_memory_are_told_so(tmp_path: Path, case: int) -> None:
    text, waiting, running, usage, flag = FULL[case]
    report = analyzed(tmp_path, text)
    load = load_of(report)
    assert (load.waiting_while_queued, load.running_while_queued) == (waiting, running)
    assert load.kv_usage_while_queued_share == pytest.approx(usage)
    assert "emory for KV limits the batch" in report.summary.headline
    assert "does not say why" not in report.summary.headline
    assert ids(report)[0] == "kv-cache-full"
    advice = [one for one in report.recommendations if one.id.startswith("kv-cache-full")]
    assert [one.id.removeprefix("kv-cache-full-") for one in advice] == ["8-bits", "memory", "gpus"]
    assert any(flag in one.action for one in advice)
    assert all(one.predicted_step_ms is None and one.effort for one in advice)


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        (texts.vllm_log(64, 114, 34.0), "--max-num-seqs"),
        (texts.sglang_log(64, 114, 0.34), "--schedule-conservativeness 0.3"),
        (texts.LLAMA_METRICS, "--parallel"),
    ],
)
def test_requests_that_wait_beside_free_memory_do_not_wait_for_it(
    tmp_path: Path, text: str, flag: str
) -> None:
    report = analyzed(tmp_path, text)
    assert ids(report) == ["requests-queue"]
    assert "emory for KV" not in report.summary.headline
    assert any(flag in one.action for one in report.recommendations)


def test_a_cache_without_room_for_one_more_request_is_full(tmp_path: Path) -> None:
    assert ids(analyzed(tmp_path, texts.vllm_log(1, 14, 76.5))) == ["kv-cache-full"]
    assert ids(analyzed(tmp_path, texts.vllm_log(8, 14, 76.5))) == ["requests-queue"]


@pytest.mark.parametrize("text", [texts.vllm_log(18, 0, 95.9), texts.sglang_log(5, 0, 0.01)])
def test_a_server_without_a_queue_has_nothing_to_change(tmp_path: Path, text: str) -> None:
    report = analyzed(tmp_path, text)
    assert report.summary.headline.startswith("No request waits: ")
    assert not report.findings
    assert "No recommendation: the log does not say what to change." in render_screen(report)


def test_a_queue_in_a_few_lines_is_a_burst(tmp_path: Path) -> None:
    text = texts.vllm_log(12, 0, 40.0) * 10 + texts.vllm_log(12, 3, 95.0)[:400]
    assert not ids(analyzed(tmp_path, text))


def test_what_guesses_and_the_cache_of_prefixes_bring_is_said(tmp_path: Path) -> None:
    log = texts.vllm_log(12, 0, 40.0)
    report = analyzed(tmp_path, log + texts.VLLM_GUESSES.format(length=2.63))
    load = load_of(report)
    assert (load.accepted_length, load.accepted_share) == (2.63, pytest.approx(0.326))
    assert load.prefix_hit_share == pytest.approx(0.12)
    assert (
        "Speculative decoding gives a request 2.63 tokens an iteration (33% of the guesses are right)."
        in report.notes
    )
    assert not ids(report)
    assert ids(analyzed(tmp_path, log + texts.VLLM_GUESSES.format(length=1.08))) == [
        "guesses-rejected"
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (texts.VLLM_OLD_LINE.format(n=1) * 3 + texts.VLLM_PREEMPTED, 51),
        (texts.sglang_log(12, 0, 0.6) + texts.SGLANG_RETRACTED * 2, 4),
        (texts.vllm_log(12, 0, 60.0).replace("GPU KV", "Preemptions: 3, GPU KV", 1), 3),
    ],
)
def test_preemptions_are_counted_as_each_server_counts_them(
    tmp_path: Path, text: str, count: int
) -> None:
    report = analyzed(tmp_path, text)
    assert load_of(report).preemptions == count
    assert "requests-preempted" in ids(report)


def test_seldom_preemptions_are_no_finding(tmp_path: Path) -> None:
    report = analyzed(tmp_path, texts.VLLM_METRICS)  # 33 of 1,000 requests
    assert load_of(report).preemptions == 33
    assert "requests-preempted" not in ids(report)


def test_decodes_without_graphs_say_up_to_which_batch_there_is_one(tmp_path: Path) -> None:
    lines = [(46, False), (36, False), (40, False), (28, True)]
    text = "".join(
        texts.SGLANG_DECODE.format(n=n, running=running, waiting=0, usage=0.1, graph=graph)
        for n, (running, graph) in enumerate(lines)
    )
    report = analyzed(tmp_path, text)
    load = load_of(report)
    assert (load.graph_share, load.eager_batch_min, load.graph_batch_max) == (0.25, 36, 28)
    assert ids(report) == ["decodes-without-graphs"]
    (advice,) = report.recommendations
    assert advice.remedy == "cuda_graph"
    assert "--cuda-graph-max-bs N" in advice.action


def test_hits_of_prefills_are_weighed_by_their_prompts(tmp_path: Path) -> None:
    report = analyzed(tmp_path, texts.SGLANG_PREFILL + texts.sglang_log(5, 0, 0.1))
    assert load_of(report).prefix_hit_share == pytest.approx(512 / 2560)
    assert load_of(report).waiting_requests == 0, "decodes say it where there are any"


def test_requests_are_counted_by_means_not_medians(tmp_path: Path) -> None:
    """8.05 requests/s x (25,009 - 15,221) ms; so do tokens: (2,061 - 8.05) x 38.38 ms."""
    report = analyzed(tmp_path, texts.SGLANG_SUMMARY)
    load = load_of(report)
    assert load.concurrency == 201.33
    assert load.before_first_token == pytest.approx(8.05 * 15.221)
    assert load.decoding == pytest.approx(8.05 * (25.009 - 15.221))
    assert load.decoding == pytest.approx((2061 - 8.05) * 0.03838, rel=0.001)
    assert load.before_first_token + load.decoding == pytest.approx(load.concurrency, rel=0.001)
    assert (
        "About 201 requests are in the server at a time: 123 before their first token (queue and prefill), "
        "78.8 decoding." in report.notes
    )
    assert "TTFT median 15.1 s of 25.2 s end to end." in report.summary.headline
    assert any("most of these requests are in the queue" in note for note in report.notes)
    assert ids(report) == ["late-first-token"]
    assert "--request-rate N" in report.recommendations[0].action
    assert load.all_at_once is True


def test_without_latencies_from_end_to_end_tokens_tell_how_many_decode(tmp_path: Path) -> None:
    load = load_of(analyzed(tmp_path, texts.vllm_summary()))
    assert load.decoding == pytest.approx((982.7 - 7.68) * 0.024)
    assert load.before_first_token == pytest.approx(7.68 * 0.1505)
    assert load.concurrency == pytest.approx(7.68 * 0.1505 + (982.7 - 7.68) * 0.024)
    assert (load.prompt_tokens, load.output_tokens, load.model) == (1024, 128, "Qwen/Qwen3-8B")
    assert (load.request_rate, load.max_concurrency, load.all_at_once) == (8.0, None, False)


def test_medians_alone_count_no_requests(tmp_path: Path) -> None:
    text = (
        "Request throughput (req/s): 8.3\nMedian TTFT (ms): 310.2\nMedian E2E Latency (ms): 900.0\n"
    )
    load = load_of(analyzed(tmp_path, text))
    assert load.ttft_ms is not None
    assert (load.ttft_ms.median, load.ttft_ms.mean) == (310.2, None)
    assert (load.concurrency, load.before_first_token, load.decoding) == (None, None, None)


def test_the_queues_part_of_the_first_token_is_said_where_the_server_does(tmp_path: Path) -> None:
    report = analyzed(tmp_path, texts.VLLM_METRICS)
    assert (
        "Of the TTFT (12,300 ms) a request is in the queue for 11,800 ms (means)." in report.notes
    )
    assert load_of(report).prefix_hit_share == 0.25
    assert load_of(report).engine == "vllm"


@pytest.mark.parametrize(
    ("rate", "most", "at_once"),
    [
        ("Infinity", 16, False),
        ("Infinity", "null", True),
        ('"inf"', "null", True),
        (4.0, 32, False),
    ],
)
def test_json_with_an_infinity_is_read(
    tmp_path: Path, rate: object, most: object, at_once: bool
) -> None:
    load = load_of(analyzed(tmp_path, texts.vllm_summary(rate=rate, most=most)))
    assert load.all_at_once is at_once
    assert load.max_concurrency == (None if most == "null" else most)
    assert load.output_tokens_per_s == 982.7


def test_of_several_runs_in_a_file_the_last_counts(tmp_path: Path) -> None:
    report = analyzed(tmp_path, texts.vllm_summary(ttft=90.0) + texts.vllm_summary(ttft=310.0))
    load = load_of(report)
    assert load.ttft_ms is not None
    assert load.ttft_ms.median == 310.0
    assert "The file holds 2 runs: figures are of the last." in report.notes


def test_a_latency_of_zero_was_not_measured(tmp_path: Path) -> None:
    load = load_of(analyzed(tmp_path, texts.vllm_summary(ttft=0.0)))
    assert load.ttft_ms is not None
    assert (load.ttft_ms.mean, load.ttft_ms.median, load.ttft_ms.p99) == (None, None, 400.2)


@pytest.mark.parametrize(
    "text", [texts.vllm_log(12, 140, 98.9), texts.SGLANG_SUMMARY, texts.VLLM_METRICS]
)
def test_a_servers_screen_fits_and_has_no_steps(tmp_path: Path, text: str) -> None:
    screen = render_screen(analyzed(tmp_path, text))
    assert screen.startswith("SERVING")
    assert "steps/s" not in screen
    assert "INCONCLUSIVE" not in screen
    shown = [line for line in screen.splitlines() if "traceanalyzer" not in line]
    assert max(map(len, shown)) <= 80


@pytest.mark.parametrize(
    ("name", "advised"),
    [
        ("vllm_decode", True),
        ("sglang_decode", True),
        ("vllm_piecewise", False),
        ("vllm_eager", False),
    ],
)
def test_decodes_that_read_memory_are_told_so(name: str, advised: bool) -> None:
    report = ta.analyze(DATA / "serving" / f"{name}.json.gz")
    assert ("decodes-read-memory" in ids(report)) == advised
    actions = [
        one.action for one in report.recommendations if one.id.startswith("decodes-read-memory")
    ]
    assert len(actions) == 2 * advised
    assert all(("vLLM" in action) == name.startswith("vllm") for action in actions)
    screen = render_screen(report)
    assert ("Nothing found" in screen) <= (not advised)
    assert "steps/s" not in screen
    assert "iteration" in screen.splitlines()[0]


@pytest.mark.parametrize(("queue", "found"), [(8.1, ["late-first-token"]), (0.1, [])])
def test_requests_of_tgi_that_queue_are_told_so(
    tmp_path: Path, queue: float, found: list[str]
) -> None:
    text = "".join(texts.TGI_LINE.format(n=n, queue=queue) for n in range(3))
    report = analyzed(tmp_path, text)
    load = load_of(report)
    assert load.in_queue_share == pytest.approx(queue / 12.5)
    assert (load.engine, load.requests) == ("tgi", 3)
    assert ids(report) == found
    assert all("--max-batch-total-tokens" in one.action for one in report.recommendations)


def test_requests_of_llama_cpp_are_read_with_their_guesses(tmp_path: Path) -> None:
    report = analyzed(tmp_path, texts.LLAMA_LOG)
    load = load_of(report)
    assert load.latency_ms is not None
    assert load.tpot_ms is not None
    assert load.latency_ms.mean == pytest.approx((1718.62 + 16901.53) / 2)
    assert load.tpot_ms.mean == pytest.approx((880.24 / 6 + 16112.5 / 192) / 2)
    assert (load.latency_ms.p90, load.requests) == (None, 2)
    assert load.accepted_share == pytest.approx(171 / 297)
    assert (load.prompt_tokens, load.output_tokens) == (77.5, 99)
    assert "its prompt 814 ms at 95.2 tokens/s" in report.summary.headline


def test_what_aiperf_was_asked_for_is_the_load(tmp_path: Path) -> None:
    load = load_of(analyzed(tmp_path, texts.AIPERF))
    assert (load.max_concurrency, load.prompt_tokens, load.output_tokens) == (10, 550, 128)
    assert load.ttft_ms is not None
    assert (load.ttft_ms.median, load.ttft_ms.min, load.ttft_ms.p95) == (55.1, 16.0, None)
    assert load.concurrency == pytest.approx(10.0)
    assert load.decoding == pytest.approx(4.0 * (2.5 - 0.0613))


def test_a_server_in_markdown_has_its_figures_and_no_budget(tmp_path: Path) -> None:
    text = render_markdown(analyzed(tmp_path, texts.SGLANG_SUMMARY))
    assert text.count("The server under load") == 1
    assert "| `ttft_ms.median` | 15,098 | ms |" in text
    assert "**Serving.** " in text
    assert "no budget" not in text
    assert "Step time" not in text
