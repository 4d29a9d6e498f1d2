"""The answer in words: one screen, or Markdown to attach."""

from collections.abc import Iterator

from traceanalyzer.base import digits
from traceanalyzer.trials.answer import FASTER, NOTHING, Answer, Row
from traceanalyzer.trials.measured import PLAIN_GAIN, StepsOfRuns
from traceanalyzer.trials.switches import VALUE

MIB = 1 << 20
WIDE = 1.3  # ends of a speedup further apart have no figure between them that could be quoted
HEAD = ("switch", "promised", "measured", "speedup", "memory", "result")
UNCHANGED = "(unchanged)"
MOST_LEFT = 12  # switches that the program does not support, named on the screen


def screen(answer: Answer) -> str:
    """The answer on one screen."""
    lines = [headline_of_trials(answer), ""]
    lines += _table(answer)
    lines += ["", *_changes(answer)]
    if answer.left:
        named = ", ".join(one.switch.id for one in answer.left[:MOST_LEFT])
        more = len(answer.left) - MOST_LEFT
        rest = f" and {more} more" if more > 0 else ""
        lines += ["", f"Not for this program: {named}{rest} (--list says why)."]
    if answer.ended:
        lines.append(answer.ended)
    return "\n".join(lines).rstrip() + "\n"


def headline_of_trials(answer: Answer) -> str:
    """The answer in a sentence."""
    base = f"{digits(answer.base.ms)} ms a step ({answer.unit})"
    if answer.best_step is None:
        return f"Nothing that was tried makes the step shorter: {base}."
    before = _range(answer.base)
    after = _range(answer.best_step)
    once = ", one run" if answer.best_runs == 1 else ""
    best = ", ".join(answer.best)
    low, high = answer.speedup_range
    spread = f"{digits(low)} to {digits(high)}x{once}"
    if low <= 1.0:
        return (
            f"Faster in turns with {best}, but this host cannot tell by how much ({spread}): "
            f"{before} before, {after} after."
        )
    if high > WIDE * low:
        return f"{spread} faster: {before} before, {after} with {best}."
    return f"{answer.speedup:.2f}x faster ({spread}): {before} before, {after} with {best}."


def _range(steps: StepsOfRuns) -> str:
    low = digits(steps.low_ms)
    high = digits(steps.high_ms)
    return f"{digits(steps.ms)} ms ({low} to {high})"


def _faster_alone(answer: Answer) -> list[str]:
    """Switches that were faster by themselves, and are not in the best combination."""
    chosen = {name.partition(VALUE)[0] for name in answer.best}
    return [
        row.switch
        for row in answer.rows
        if row.outcome == FASTER and not row.on_top_of and row.switch not in chosen
    ]


def _table(answer: Answer) -> Iterator[str]:
    cells = [HEAD, _base_cells(answer), *(_cells(row, answer) for row in answer.rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(HEAD))]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _base_cells(answer: Answer) -> tuple[str, ...]:
    """The row that all others are against."""
    base = answer.base
    runs = f"all runs without: {digits(base.low_ms)} to {digits(base.high_ms)} ms"
    return (UNCHANGED, "-", f"{digits(base.ms)} ms", "1.00x", "-", runs)


def _cells(row: Row, answer: Answer) -> tuple[str, ...]:
    promised = f"{digits(row.promised.step_ms)} ms" if row.promised else "-"
    measured = f"{digits(row.measured.ms)} ms" if row.measured else "-"
    times = _speedup(row) or "-"
    name = f"+ {row.switch}" if row.on_top_of else row.switch
    return (name, promised, measured, times, _memory(row, answer), _result(row))


def _speedup(row: Row) -> str:
    """How many times faster; where nothing was found, and runs of the two differ among themselves,
    the least and the most that it can be. Empty where it was not timed."""
    if row.speedup is None or row.base is None or row.measured is None:
        return ""
    low = row.base.low_ms / row.measured.high_ms
    high = row.base.high_ms / row.measured.low_ms
    if row.outcome == NOTHING and high > WIDE * low:
        return f"{low:.2f} to {high:.2f}x"
    return f"{row.speedup:.2f}x"


def _memory(row: Row, answer: Answer) -> str:
    if not row.peak_bytes or not answer.base_peak_bytes:
        return "-"
    more = (row.peak_bytes - answer.base_peak_bytes) / MIB
    return f"{round(more):+,d} MiB"


def _result(row: Row) -> str:
    if row.why and not row.changes_numerics:
        return f"{row.outcome}: {row.why}"
    if row.outcome == NOTHING and abs((row.speedup or 1.0) - 1.0) >= PLAIN_GAIN:
        return f"{row.outcome} beyond what runs of one program vary by"
    once = " (one run)" if row.outcome == FASTER and row.runs == 1 else ""
    numerics = f", changes numerics ({row.why})" if row.changes_numerics else ""
    return row.outcome + once + numerics + _of_promise(row)


def _of_promise(row: Row) -> str:
    """How the step compares with the one promised, in a clause; empty where there is no promise."""
    if row.promise_held is None or row.promised is None or row.measured is None:
        return ""
    if row.promise_held:
        return ", as promised"
    if row.measured.ms < row.promised.step_ms:
        return ", better than promised"
    return ", less than promised" if row.outcome == FASTER else ", not as promised"


def outcome_clause(row: Row) -> str:
    """What came of a switch, in a clause. Its speedup stands in the table alone: it is against all
    runs of the unchanged program, and most of them are still to come."""
    measured = f"{digits(row.measured.ms)} ms, " if row.measured else ""
    return measured + _result(row)


def _changes(answer: Answer) -> Iterator[str]:
    """What to write into the program, and where."""
    # of a switch that was tried twice the row of the time that counted is the last
    by_switch = {row.switch: row for row in answer.rows}
    chosen = [by_switch[name] for name in answer.best if name in by_switch]
    if not chosen:
        return
    yield "Write into the program:"
    for row in chosen:
        where = f"{row.where}: " if row.where else ""
        yield f"  {where}{row.write}"
        yield f"      could break: {row.could_break}"


def markdown(answer: Answer, environment: str = "", again: str = "") -> str:
    """The answer to attach to an issue, with the environment and the command to try again."""
    lines = [f"# {headline_of_trials(answer)}", ""]
    lines.append(f"| {' | '.join(HEAD)} |")
    lines.append("|" + "---|" * len(HEAD))
    for cells in (_base_cells(answer), *(_cells(row, answer) for row in answer.rows)):
        escaped = [cell.replace("|", "\\|") for cell in cells]
        lines.append(f"| {' | '.join(escaped)} |")
    lines += ["", *_changes(answer), ""]
    alone = _faster_alone(answer)
    if alone:
        lines += [f"Faster alone, and not together with the others: {', '.join(alone)}.", ""]
    lines += [f"Command: `{answer.command}`, {answer.seconds:.0f} s."]
    lines += [f"Environment: {environment}." if environment else ""]
    lines += [f"Again: `{again}`" if again else ""]
    return "\n".join(lines).rstrip() + "\n"
