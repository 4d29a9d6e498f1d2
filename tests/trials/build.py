"""Runs and facts for tests, built by hand."""

from __future__ import annotations

from dataclasses import replace

from traceanalyzer.trials.result import RankResult, TrialRun
from traceanalyzer.trials.switch import ProgramFacts

GRADIENTS = [[3.0, 4.0, 0.01], [2.0, 3.0, 0.01]]
RATES = [[0.9, 0.999, 1e-3], [0.9, 0.999, 9e-4]]
LOSSES = [2.0, 1.5, 1.2, 1.0, 0.9]
MOVED = {"1": [0.1, 0.4, 0.2, 0.6], "5": [0.5, 2.0, 1.0, 3.0]}
STEP = TrialRun(
    (), 1, step_ms=10.0, low_ms=9.9, high_ms=10.1, steps=20, seconds=5.0, peak_bytes=1000
)
GPU = ProgramFacts(
    gpu=True,
    cpus=8,
    loaders=[{"num_workers": 0, "pin_memory": False}],
    optimizers=[{"name": "AdamW", "settings": {"fused": None, "foreach": None}}],
    models=[{"name": "Net", "dtype": "float32", "convolutions": 2, "channels_last": False}],
    places={"loader": "train.py:12", "optimizer": "train.py:9", "model": "train.py:20"},
    settings={"float32_matmul_precision": "highest", "autocast": False},
    backwards_per_step=1.0,
)


def run(*switches: str, ms: float = 10.0, factor: float = 1.0, **values: object) -> TrialRun:
    """A run whose losses, gradients and updates are those of the base times a factor."""
    losses = [loss * factor for loss in LOSSES]
    weights = {step: [one * factor for one in moved] for step, moved in MOVED.items()}
    gradients = [[norm * factor for norm in norms] for norms in GRADIENTS]
    rank = RankResult(
        losses=losses, weights=weights, buffers=weights, gradients=gradients, rates=RATES
    )
    timed = replace(STEP, step_ms=ms, low_ms=ms * 0.99, high_ms=ms * 1.01)
    return replace(timed, switches=switches, ranks=[rank], **values)
