"""What decides how fast a server is, against generated servers whose time without the profiler is
known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.server_builder import Server, waves
from traceanalyzer.analysis.serving.fit import decode_fit
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.diagnosis.serving.outlook import Predictor, outlook
from traceanalyzer.diagnosis.serving.phases import phases
from traceanalyzer.diagnosis.serving.sentences import _about, sentences, serving_values
from traceanalyzer.ingest import load

SERVERS = {
    "graphs": Server(noise=0.02),
    "eager": Server(graphs=False, noise=0.02),
    "host-bound": Server(graphs=False, a=500, noise=0.02),
    "ahead": Server(overlap=True, noise=0.02),
    "ahead, host-bound": Server(overlap=True, a=100, b=1, c=0.001, text=10, noise=0.02),
    "host-bound with few requests": Server(graphs=False, a=200, b=60, noise=0.02),
}
RECORDED = (4, 16, 48, 8, 64)


def timed(server: Server, work: list[tuple[int, int, int]]) -> float:
    """Median decode without the profiler, ms."""
    server.run(work, profiled=False)
    return float(np.median([line[4] for line in server.log if not line[0]][1:]))


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Server:
    return replace(SERVERS[request.param], log=[])


@pytest.fixture
def m(server: Server) -> Measurements:
    return measure(server.recorded(waves(RECORDED)))


def test_decodes_without_the_profiler(server: Server, m: Measurements) -> None:
    decode = next(phase for phase in phases(m) if phase.phase == "decode")
    assert decode.unprofiled is not None
    assert decode.unprofiled.ms == pytest.approx(timed(server, waves(RECORDED)), rel=0.05)
    assert (
        decode.unprofiled.low_ms
        <= decode.unprofiled.ms
        <= decode.unprofiled.high_ms
        <= decode.iteration_ms
    )


def test_decodes_of_batches_that_were_not_recorded(server: Server, m: Measurements) -> None:
    fit = decode_fit(m.iterations)
    assert fit is not None
    predict = Predictor.of(m, fit)
    for requests, kv in ((12, 1000), (24, 800), (32, 3000), (40, 100), (56, 2000), (96, 1000)):
        truth = timed(server, [(0, requests, requests * kv)] * 8)
        assert predict.ms(requests, requests * kv) == pytest.approx(truth, rel=0.1), (requests, kv)


def test_graphs_and_asynchronous_scheduling_bring_what_the_other_server_takes(
    server: Server, m: Measurements
) -> None:
    gains = {gain.change: gain for gain in outlook(m).gains if gain.phase == "decode"}
    less = gains.pop("less_python", None)
    assert (
        less is None
        or less.now_ms - less.predicted_ms
        <= 0.5 * (server.scheduling + 64 * server.text + 20) / 1e3
    )
    changed = {"cuda_graphs": replace(server, graphs=True, log=[])}
    changed["asynchronous_scheduling"] = replace(server, overlap=True, log=[])
    for change, gain in gains.items():
        assert gain.predicted_ms == pytest.approx(
            timed(changed[change], waves(RECORDED)), rel=0.1
        ), change
    assert ("cuda_graphs" in gains) <= (not server.graphs)
    assert not (server.overlap and "asynchronous_scheduling" in gains)


def test_mixed_iterations_and_the_most_tokens() -> None:
    server = Server(overlap=True)
    found = outlook(measure(server.recorded(waves(RECORDED))))
    assert found.mixed_per_1000_tokens_ms == pytest.approx(1.0, rel=0.25)
    assert found.now is not None
    assert found.half_batch is not None
    assert found.most_tokens_per_s is not None
    length = (found.now.kv_tokens or 0) / found.now.requests
    assert found.half_batch == pytest.approx(server.a / (server.b + server.c * length), rel=0.1)
    assert found.most_tokens_per_s == pytest.approx(1e6 / (server.b + server.c * length), rel=0.05)


def test_a_log_takes_the_profiler_out() -> None:
    server = Server(graphs=False, a=500)
    trace = server.recorded(waves(RECORDED))
    truth = timed(server, waves(RECORDED))
    m = measure(replace(trace, step_timings=server.timings()))
    decode = next(phase for phase in phases(m) if phase.phase == "decode")
    assert decode.unprofiled is not None
    assert (decode.unprofiled.source, decode.unprofiled.ms) == (
        "log",
        pytest.approx(truth, rel=0.05),
    )
    assert serving_values(m)["profiler_stretch"] == pytest.approx(
        decode.iteration_ms / truth, rel=0.05
    )
    assert any("The profiler makes decodes" in text for text in sentences(m))


def test_a_log_alone_tells_what_larger_batches_bring(tmp_path: Path) -> None:
    server = Server(overlap=True, c=0)
    server.run(waves(RECORDED), profiled=False)
    lines = [
        f"Iteration({i}): {a} context requests, {b} context tokens, {c} generation requests, {d} generation tokens, "
        f"iteration elapsed time: {time:.4f} ms"
        for i, (a, b, c, d, time) in enumerate(server.log)
    ]
    (tmp_path / "server.log").write_text("\n".join(lines))
    found = outlook(measure(load([tmp_path / "server.log"]).traces[0]))
    assert found.now is not None
    assert found.twice is not None
    now, twice = (
        timed(server, [(0, round(one.requests), 0)] * 8) for one in (found.now, found.twice)
    )
    assert (found.now.decode_ms, found.twice.decode_ms) == pytest.approx((now, twice), rel=0.03)


def test_few_batches_predict_nothing() -> None:
    found = outlook(measure(Server().recorded(waves((8, 16)))))
    assert (found.now, found.twice) == (None, None)


def test_a_rate_of_tokens_is_that_without_the_profiler() -> None:
    """200 tokens a second with iterations of 10 ms are 400 with those of 5."""
    unprofiled = SimpleNamespace(ms=5.0, low_ms=4.0, high_ms=6.0)
    phase = SimpleNamespace(
        phase="decode",
        iterations=3,
        requests=2.0,
        context_tokens=0.0,
        iteration_ms=10.0,
        busy_ms=8.0,
        host_idle_ms=1.0,
        tokens_per_s=200.0,
        unprofiled=unprofiled,
        limit="host",
        memory_ms=None,
        arithmetic_ms=None,
    )
    assert _about(phase) == (
        "3 decode iterations (2 requests): 5 ms without the profiler (4 ms to 6 ms); of 10 ms recorded, "
        "GPU busy 8 ms (80%), 1 ms waiting for the CPU. 400 generated tokens/s."
    )
