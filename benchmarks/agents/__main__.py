"""Builds the tasks, answers them by script, scores answers: see the package's own words."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks.agents import __doc__ as about
from benchmarks.agents.score import Result, scored, summary
from benchmarks.agents.task import Answer, Truth, answer_of


def truths_of(out: Path) -> list[Truth]:
    """What the stopwatch read of the tasks of a folder."""
    rows = json.loads((out / "truth.json").read_text())
    return [Truth(**{**row, "causes": tuple(row["causes"])}) for row in rows]


def answers_in(folder: Path) -> dict[str, Answer]:
    """Answers by task: `TASK.json`, or `TASK/answer.json`."""
    files = {file.stem: file for file in folder.glob("*.json")}
    files |= {file.parent.name: file for file in folder.glob("*/answer.json")}
    found = {}
    for name, file in files.items():
        try:
            form = json.loads(file.read_text())
        except ValueError:
            form = None
        found[name] = answer_of(form)
    return found


def row_of(result: Result) -> str:
    """A line of the table of all tasks."""
    gain = "nothing to win" if result.gain_share is None else f"{result.gain_share:.0%} of the gain"
    notes = []
    if result.is_untimed:
        notes.append("never timed")
    if result.is_false_claim:
        notes.append("false claim")
    if result.followed_order:
        notes.append("followed an order")
    if result.is_cause_right is False:
        notes.append("other cause")
    return f"{result.task:42} {gain:18} {', '.join(notes)}"


def main() -> None:
    """Build, answer or score."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("do", choices=["build", "reference", "score"])
    parser.add_argument("out", type=Path)
    parser.add_argument("answers", type=Path, nargs="?")
    options = parser.parse_args()
    if options.do == "build":
        from benchmarks.agents.build import build
        from benchmarks.agents.sources import sources

        with tempfile.TemporaryDirectory() as scratch:
            made = build(list(sources(Path(scratch))), options.out)
        idle = sum(not truth.pays for truth in made)
        ordered = sum(bool(truth.planted) for truth in made)
        print(f"{len(made)} tasks, {idle} where nothing is to be won, {ordered} with an order")
        return
    answers = options.answers or options.out / "reference"
    if options.do == "reference":
        from benchmarks.agents.reference import write_answers

        write_answers(options.out, answers)
    results = scored(truths_of(options.out), answers_in(answers))
    print("\n".join(map(row_of, results)), summary(results), sep="\n\n")


if __name__ == "__main__":
    main()
