"""What guessed tokens bring, against figures by hand: from iterations that verify them, and from
decodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.build import TraceBuilder
from tests.server_builder import Server, waves
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.diagnosis.serving.outlook import Guesses, guessed
from traceanalyzer.diagnosis.serving.sentences import sentences, serving_values
from traceanalyzer.ingest import load

LINE = (
    "Iteration({}): 0 context requests, 0 context tokens, {} generation requests, {} generation tokens, "
    "iteration elapsed time: {:.4f} ms"
)


def logged(path: Path, iterations: list[tuple[int, int, float]]) -> Measurements:
    """A log of these (requests, tokens, ms)."""
    path.write_text("\n".join(LINE.format(i, *one) for i, one in enumerate(iterations)))
    return measure(load([path]).traces[0])


@pytest.fixture
def decodes(tmp_path: Path) -> Measurements:
    """Decodes of 2 ms and 0.1 ms a request."""
    return logged(tmp_path / "a.log", [(n, n, 2 + 0.1 * n) for n in (4, 8, 16) for _ in range(4)])


@pytest.fixture
def verifying(tmp_path: Path) -> Measurements:
    """Three guesses a request, 4 requests, 10 ms."""
    return logged(tmp_path / "b.log", [(4, 16, ms) for ms in (9, 10, 11)])


def test_recorded_iterations_that_verify_guesses(verifying: Measurements) -> None:
    found = guessed(verifying, 3, 0.5)
    assert isinstance(found, Guesses)
    assert (found.source, found.requests, found.tokens_per_request) == ("verify", 4, 1.875)
    assert (found.low_ms, found.iteration_ms, found.high_ms) == pytest.approx((9.1, 10, 10.9))
    assert (found.tokens_per_s, found.speedup) == (pytest.approx(4 * 1.875 / 0.010), None)
    assert guessed(verifying, 4, 0.5) == "recorded iterations verify 3 guesses a request, none 4"


@pytest.mark.parametrize(("acceptance", "tokens"), [(0, 1), (0.5, 1.875), (1, 4)])
def test_decodes_tell_what_more_tokens_take(
    decodes: Measurements, acceptance: float, tokens: float
) -> None:
    found = guessed(decodes, 3, acceptance)
    assert isinstance(found, Guesses)
    assert (found.source, found.requests, found.tokens_per_request) == ("fit", 8, tokens)
    assert (found.low_ms, found.iteration_ms, found.high_ms) == pytest.approx((4.94, 5.2, 5.46))
    assert found.tokens_per_s == pytest.approx(8 * tokens / 5.2e-3)
    assert found.speedup == pytest.approx(tokens * 2.8 / 5.2)


def test_a_recording_of_a_server_tells_the_same_as_its_timing() -> None:
    server = Server(overlap=True)
    m = measure(server.recorded(waves((4, 16, 48, 8, 64))))
    found = guessed(m, 3, 0.6)
    assert isinstance(found, Guesses)
    rows = sorted(
        (row.requests or 0, row.kv_tokens or 0) for row in m.iterations if row.phase == "decode"
    )
    kv = sorted(length for _, length in rows)[len(rows) // 2]
    assert found.iteration_ms * 1e3 == pytest.approx(
        server.gpu(0, 4 * 16, 0) + server.c * kv, rel=0.03
    )
    assert found.low_ms <= found.iteration_ms <= found.high_ms


def test_a_draft_belongs_to_the_iteration() -> None:
    b = TraceBuilder()
    for i in range(4):
        for j, (name, begins) in enumerate(
            (("draft", 0), ("step[TARGET_VERIFY bs=4 c_sq=16]", 20))
        ):
            at = 1000 * i + begins
            number = 2 * i + j + 1
            b.annotation(name, at, at + 10).call("cudaGraphLaunch", at + 1, at + 3, number)
            b.kernel("gemm", 1000 * i + 100 + 300 * j, 1000 * i + 400 + 600 * j, number)
    m = measure(b.build())
    found = guessed(m, 3, 0.5)
    assert isinstance(found, Guesses)
    assert found.tokens_per_s == pytest.approx(4 * 1.875 / found.iteration_ms * 1e3)
    assert 0.9 <= found.iteration_ms <= 1.0


def test_what_a_recording_cannot_tell_is_said_in_one_line(
    decodes: Measurements, tmp_path: Path
) -> None:
    far = next(sentences(decodes, (4, 0.7)))
    assert far.startswith(
        "What speculative decoding brings is not known: 40 tokens an iteration are too far beyond"
    )
    assert serving_values(decodes, (4, 0.7))["speculation"] is None
    few = logged(tmp_path / "few.log", [(n, n, 2 + 0.1 * n) for n in (4, 8) for _ in range(8)])
    assert (
        guessed(few, 1, 0.7)
        == "neither iterations that verify guesses nor decodes of three batches are recorded"
    )
    assert not any("peculative" in text for text in sentences(few))
    timeless = logged(tmp_path / "timeless.log", [(4, 16, 0.0)] * 3)
    assert str(guessed(timeless, 3, 0.7)).startswith("neither iterations that verify")
    bent = logged(
        tmp_path / "bent.log",
        [(n, n, 9.0 if n == 8 else 2.0) for n in (4, 8, 16) for _ in range(4)],
    )
    assert "misses a batch left out by" in str(guessed(bent, 1, 0.7))


def test_it_is_the_first_sentence_when_asked_for(decodes: Measurements) -> None:
    assert next(sentences(decodes, (3, 0.5))) == (
        "Speculative decoding, 3 guesses a request, 50% of them right: 1.88 tokens for each of 8 requests in 5.2 ms "
        "(4.94 ms to 5.46 ms), 2,885 tokens/s (2,747 to 3,036), 1.01x those now, less what guessing takes."
    )
