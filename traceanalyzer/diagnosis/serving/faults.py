"""What is said of a server before its load: that it died, that it stalled, that requests failed, that one of its
engines idles while requests wait at another."""

from collections.abc import Iterator

from traceanalyzer.analysis.serving.figures import Serving, of_log
from traceanalyzer.analysis.time.each_engine import engines_of
from traceanalyzer.base import digits, plural
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.serving.load import has_queue, so_many
from traceanalyzer.trace import StepTimings
from traceanalyzer.trace.engines import errors_at_end

IDLE = 0.5  # of the requests that a full engine runs: another that runs fewer could take some
FIND_HANG = "To see where it hangs: the stacks of the engine's processes (py-spy dump --pid PID), and the log's errors."


def crash_of(m: Measurements) -> str:
    """The error that a server's log ends with; empty where it ends with none."""
    return next(errors_at_end(m.trace.health.notes), "")


def faults(m: Measurements) -> Iterator[str]:
    """What is wrong with a server, by its log, the gravest first."""
    crash = crash_of(m)
    if crash:
        yield crash
    if m.serving is not None and m.serving.stalled_lines:
        yield stall_sentence(m.serving)
    skew = skew_sentence(m.trace.step_timings)
    if skew:
        yield skew


def is_stalled(s: Serving) -> bool:
    """Whether no token comes from some line on to the log's end."""
    return bool(s.stalled_to_the_end)


def stall_sentence(s: Serving) -> str:
    """For how many lines requests run without a token."""
    count = digits(s.stalled_lines or 0.0)
    where = f"the last {count} lines" if is_stalled(s) else f"{count} lines in a row"
    requests = so_many(s.stalled_running or 0.0, "request runs", "requests run")
    return f"Stalled: in {where} on its load {requests} and none gets a token."


def failed_share(s: Serving) -> float:
    """Requests that failed, a share of all; 0 where that is not said."""
    failed = s.failed_requests or 0.0
    total = failed + (s.requests or 0.0)
    return failed / total if total else 0.0


def failed_sentence(s: Serving) -> str:
    """How many requests failed; empty where none did."""
    if not s.failed_requests:
        return ""
    failed = digits(s.failed_requests)
    if s.requests is None:
        return f"{failed} {plural('request', s.failed_requests)} failed: figures are of the others."
    total = digits(s.failed_requests + s.requests)
    if not s.requests:
        return f"All {total} requests failed."
    return f"{failed} of {total} requests failed: figures are of the others."


def skew_sentence(log: StepTimings) -> str:
    """That requests wait at one engine while another could take them; empty where none could."""
    loads = {number: of_log(lines) for number, lines in engines_of(log).items()}
    known = {number: load for number, load in loads.items() if load is not None}
    full = {number: load for number, load in known.items() if has_queue(load)}
    if not full:
        return ""
    fullest = max(full, key=lambda number: full[number].waiting_requests or 0.0)
    most = full[fullest].running_while_queued or 0.0
    idle = [number for number, load in known.items() if _is_idle(load, most)]
    if not idle:
        return ""
    least = min(idle, key=lambda number: known[number].running_requests or 0.0)
    runs = digits(known[least].running_requests or 0.0)
    waits = digits(full[fullest].waiting_while_queued or 0.0)
    return (
        f"Engine {least} has room: it runs {runs} and none waits there, while engine {fullest} runs {digits(most)} "
        f"and {waits} wait. Spread requests evenly over the engines (the load balancer)."
    )


def _is_idle(load: Serving, most: float) -> bool:
    """Whether an engine could take requests from one that runs `most`."""
    running = load.running_requests
    return running is not None and not has_queue(load) and running <= IDLE * most
