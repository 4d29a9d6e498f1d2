"""Predictions held against the stopwatch: `python -m benchmarks.accuracy [FOLDER]`.

FOLDER holds `manifest.json` and recordings as `../shared/traces` does (`*.base`, `*.fix` or `*.without`). For each
labelled recording: fidelity of the replay, estimated step time without a profiler against the measured one, class;
then, for each pair that differs in one thing, the step time predicted from `.base` against the one measured
without the thing. Errors count from the nearest of the stopwatch's own rounds.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import traceanalyzer as ta
from traceanalyzer.analysis.context import Context
from traceanalyzer.analysis.measure import Measurements

DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "traces"
REMOVED = {
    "host sync": "no_host_syncs",
    "host work": "no_host_work",
    "input wait": "input_ready",
    "copy": "copies_hidden",
    "launch cost": "launches_free",
    "communication": "communication_free",
}
"""What the manifest says was removed, by its first words, and the scenario that predicts it."""
KNOWN_PAIRS = {
    "kineto/python_between_ops": "no_host_work",
    "kineto/tiny_mlp_infer": "launches_free",
    "ranks2/tensor_parallel": "communication_free",
}


def nearest(value: float, rounds: list[float]) -> float:
    return min(max(value, min(rounds)), max(rounds))


def critical(paths: list[Path]) -> Measurements:
    """The measurements of the rank that the report speaks of."""
    from traceanalyzer.analysis.ranks import compare_ranks

    measured = [Measurements(Context(trace)) for trace in ta.load(*paths).traces]
    return measured[compare_ranks([m.ctx for m in measured]).critical]


def recordings(folder: Path, name: str, suffix: str = "") -> list[Path]:
    ranks = sorted(folder.glob(f"{name}{suffix}.rank*.json.gz"))
    return ranks or [p for p in [folder / f"{name}{suffix}.json.gz"] if p.exists()]


def scoreboard(folder: Path, cases: dict[str, dict]) -> None:
    fidelity, errors = [], []
    print(f"{'recording':34} {'class':>14} {'fidelity':>9} {'estimated':>10} {'measured':>9} {'error':>7}")
    for name, case in cases.items():
        paths = recordings(folder, name)
        m = critical(paths) if paths else None
        if m is None or m.replay is None:
            continue
        base, near = m.replay.base_ms, nearest(m.replay.base_ms, case["rounds_ms"])
        fidelity.append(abs(m.replay.fidelity_error))
        errors.append(abs(base / near - 1))
        label = ta.analyze(paths).summary.bottleneck
        print(
            f"{name:34} {label:>14} {m.replay.fidelity_error:>+9.1%} {base:>10.3f} "
            f"{case['step_ms_unprofiled']:>9.3f} {base / near - 1:>+7.1%}"
        )
    within = sum(e < 0.2 for e in errors) / len(errors)
    print(
        f"fidelity: median {statistics.median(fidelity):.2%}, worst {max(fidelity):.1%}; unprofiled step: median error "
        f"{statistics.median(errors):.1%}, within 20 % {within:.0%} of {len(errors)}\n"
    )


def ablations(folder: Path, cases: dict[str, dict]) -> None:
    errors = []
    print(f"{'pair':46} {'scenario':>18} {'predicted':>10} {'measured':>9} {'error':>7}")
    for name, case in cases.items():
        stem = name.removesuffix(".base")
        truth = cases.get(f"{stem}.without") or cases.get(f"{stem}.fix")
        scenario = next((s for k, s in REMOVED.items() if case.get("removes", "").startswith(k)), KNOWN_PAIRS.get(stem))
        if not name.endswith(".base") or truth is None or scenario is None:
            continue
        for suffix in ("", ".syncevents"):
            paths = recordings(folder, name, suffix)
            replay = critical(paths).replay if paths else None
            if replay is None:
                continue
            step = next(p.step_ms for p in replay.what_if().scenarios if p.id == scenario)
            error = step / nearest(step, truth["rounds_ms"]) - 1
            errors.append(abs(error))
            print(f"{name + suffix:46} {scenario:>18} {step:>10.3f} {truth['step_ms_unprofiled']:>9.3f} {error:>+7.1%}")
    print(f"predicted step: median error {statistics.median(errors):.1%}, worst {max(errors):.1%}, {len(errors)} pairs")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    cases = json.loads((folder / "manifest.json").read_text())["cases"]
    scoreboard(folder, cases)
    ablations(folder, cases)


if __name__ == "__main__":
    main()
