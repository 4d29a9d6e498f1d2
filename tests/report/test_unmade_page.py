"""The page of runs that were never made: now beside then, whether it fits, whether it pays."""

from __future__ import annotations

from traceanalyzer.replay.unmade.answer import Unmade
from traceanalyzer.replay.unmade.sweep import paying
from traceanalyzer.report.unmade import settings_page


def run(batch: int, step_ms: float, peak: int | None = None, *, fits: bool | None = None) -> Unmade:
    """A step of another batch; of now it is 8 samples in 10 ms."""
    each = step_ms / batch
    return Unmade(
        setting=f"batch {batch}",
        step_ms=step_ms,
        low_ms=0.9 * step_ms,
        high_ms=1.1 * step_ms,
        gpu_ms=0.5 * step_ms,
        now_ms=10.0,
        batch=batch,
        length=None,
        samples_per_s=1e3 / each,
        ms_per_sample=each,
        tokens_per_s=None,
        bottleneck="launches",
        gpu_limit_from=None,
        peak_bytes=peak,
        fits=fits,
        mfu=None,
        now_ms_per_sample=10.0 / 8,
        work_gain=10.0 / 8 / each,
    )


def test_now_stands_beside_then() -> None:
    text = settings_page([run(16, 12.5)]).terminal()
    assert "time per sample  781 us, now 1.25 ms" in text
    assert "worth it         yes: 1.60x the samples a second" in text


def test_memory_that_was_not_recorded_is_said_to_be_unknown() -> None:
    assert "whether it fits the GPU is not known" in settings_page([run(16, 12.5)]).terminal()
    several = settings_page([run(16, 12.5), run(32, 25.0)]).terminal()
    assert "whether it fits the GPU is not known" in several


def test_what_does_not_fit_is_not_worth_it() -> None:
    large = run(16, 12.5, 90 * 2**30, fits=False)
    assert "no: it does not fit the GPU" in settings_page([large]).terminal()
    several = settings_page([run(12, 11.0, 2**30, fits=True), large]).terminal()
    assert "Too large for the GPU: batch 16." in several


def test_a_step_as_long_as_its_batch_hardly_pays() -> None:
    assert "hardly: 1.05x the samples a second" in settings_page([run(16, 19.0)]).terminal()
    assert "no: 0.842x the samples a second" in settings_page([run(16, 23.75)]).terminal()


def test_a_sweep_says_where_it_stops_paying_from_the_batch_of_now_on() -> None:
    rows = [run(16, 19.8), run(32, 39.0)]
    assert paying(rows) == ("Beyond batch 8 more hardly pays: 16 brings 1% more samples a second")
    assert "batch 16, batch 32: launches" in settings_page(rows).terminal()
