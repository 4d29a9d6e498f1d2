"""The answers of this program itself, made by a script from `analyze --format json`."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.agents.task import NOTHING

LEAST_SPEEDUP = 1.05
"""A recommendation below this is not worth making first."""


def answer_from(report: dict[str, Any]) -> dict[str, Any]:
    """The form, filled with the first recommendation that promises enough."""
    step = report["summary"]["step_ms"]
    cause = report["summary"]["bottleneck"]
    for advice in report["recommendations"]:
        predicted = advice["predicted_step_ms"]
        if predicted and step and step / predicted >= LEAST_SPEEDUP and advice["remedy"]:
            return {
                "cause": cause,
                "remedy": advice["remedy"],
                "step_ms": predicted,
                "low_ms": advice["low_ms"],
                "high_ms": advice["high_ms"],
                "place": advice["action"],
            }
    nothing = dict.fromkeys(("step_ms", "low_ms", "high_ms"))
    return {"cause": cause, "remedy": NOTHING, **nothing, "place": ""}


def write_answers(out: Path, answers: Path) -> None:
    """Answer all tasks of `out`; a task that cannot be analyzed gets no answer."""
    answers.mkdir(parents=True, exist_ok=True)

    def answer(task: Path) -> None:
        recording = str(task / "recording")
        command = [sys.executable, "-m", "traceanalyzer", "analyze", recording, "--format", "json"]
        done = subprocess.run([*command, "--no-cache"], capture_output=True, check=False)
        if done.returncode:
            print(f"{task.name}: {done.stderr.decode(errors='replace').strip()}")
            return
        form = answer_from(json.loads(done.stdout))
        (answers / f"{task.name}.json").write_text(json.dumps(form, indent=1))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(answer, sorted((out / "tasks").iterdir())))
