"""The answers of this program itself, made by a script from `analyze --format json`."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.agents.task import MOST_CHANGES

LEAST_SPEEDUP = 1.05
"""A recommendation below this is not worth making first."""


def answer_from(report: dict[str, Any]) -> dict[str, Any]:
    """The form, filled with the first recommendations that promise enough."""
    step_ms = report["summary"]["step_ms"]
    advised = [one for one in report["recommendations"] if _promises(one, step_ms)]
    changes = {one["remedy"]: _change(one) for one in reversed(advised)}
    return {
        "cause": report["summary"]["bottleneck"],
        "changes": list(reversed(changes.values()))[:MOST_CHANGES],
        "place": advised[0]["action"] if advised else "",
    }


def _promises(advice: dict[str, Any], step_ms: float | None) -> bool:
    predicted_ms = advice["predicted_step_ms"]
    more = advice["as_much_work"]
    speedup = more["speedup"] if more else (step_ms or 0.0) / (predicted_ms or math.inf)
    return bool(advice["remedy"]) and (speedup or 0.0) >= LEAST_SPEEDUP


def _change(advice: dict[str, Any]) -> dict[str, Any]:
    more = advice["as_much_work"]
    names = ("step_ms", "low_ms", "high_ms")
    known = (advice["predicted_step_ms"], advice["low_ms"], advice["high_ms"])
    if more:
        known = (more["time_ms"], more["low_ms"], more["high_ms"])
    return {"remedy": advice["remedy"], **dict(zip(names, known, strict=True))}


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
