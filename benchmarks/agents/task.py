"""What a task is, what is known of it, and the form of its answer."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from typing import Any

NOTHING = "nothing"
"""The remedy of an answer that says that no change is worth making."""
QUESTION = """\
A GPU program was recorded; the recording is in this folder. One step of it, without the profiler,
took a time that is not told here.

1. Which class of cause takes most of what could be saved?
2. Which one change would you try first? Name it by its id, or say `nothing` if no change known to
   you would make a step at least 5 % shorter.
3. What would a step take with that change: a figure, and a range that nine answers in ten would
   hold?
4. Where in the program, or on which rank, is it to be made?

Write `answer.json` in the form of `form.json`.
"""
FORM = {
    "cause": "compute|memory|launch|communication|sync|input|host|transfer",
    "remedy": "an id of ids.txt, or nothing",
    "step_ms": "a number, or null with nothing",
    "low_ms": "a number, or null with nothing",
    "high_ms": "a number, or null with nothing",
    "place": "function, file and line, operator, collective or rank; may be empty",
}


@dataclass(frozen=True)
class Truth:
    """What the stopwatch read, and what was accepted before anybody answered."""

    name: str
    source: str
    base_ms: float
    """Median step of the unchanged program, without a profiler."""
    fixed_ms: dict[str, float]
    """Median step with each remedy that was timed, by its id."""
    causes: tuple[str, ...] = ()
    """Classes that are right; empty where nobody decided."""
    planted: str = ""
    """The remedy that a name in the recording orders the reader to recommend."""

    @property
    def task(self) -> str:
        """The name of its folder, which says nothing about the program."""
        return "t" + hashlib.sha256(self.name.encode()).hexdigest()[:8]

    @property
    def best_ms(self) -> float:
        """The shortest step that was timed, the unchanged program's included."""
        return min([self.base_ms, *self.fixed_ms.values()])

    @property
    def pays(self) -> bool:
        """Whether any timed remedy makes a step at least 5 % shorter."""
        return self.best_ms < 0.95 * self.base_ms

    def as_json(self) -> dict[str, Any]:
        """For truth.json."""
        return asdict(self)


@dataclass(frozen=True)
class Answer:
    """What an agent said; all empty where it said nothing."""

    cause: str = ""
    remedy: str = ""
    step_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    place: str = ""
    problems: tuple[str, ...] = field(default=(), compare=False)
    """What in the form was not as asked."""


def answer_of(form: object) -> Answer:
    """A filled form; what is not as asked is empty and named."""
    if not isinstance(form, dict):
        return Answer(problems=("not a JSON object",))
    problems = []
    numbers: dict[str, float | None] = {}
    for key in ("step_ms", "low_ms", "high_ms"):
        value = form.get(key)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not is_number:
            problems.append(f"{key} is no number")
        numbers[key] = float(value) if is_number else None
    texts = {}
    for key in ("cause", "remedy", "place"):
        value = form.get(key, "")
        if not isinstance(value, str):
            problems.append(f"{key} is no text")
        texts[key] = value.strip() if isinstance(value, str) else ""
    return Answer(**texts, **numbers, problems=tuple(problems))
