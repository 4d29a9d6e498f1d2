"""What a printed table of sums, or step times alone (logged or recorded), tell: the verdict, and
findings.

Sums tell where the time is in all, but not what waits for what. Step times say that time is lost
and how regularly, not why; only time spent waiting for data names its cause."""

from collections.abc import Iterator

from traceanalyzer.analysis.serving.figures import Serving
from traceanalyzer.analysis.tables.profiled import Profiled
from traceanalyzer.analysis.tables.timing import TimingStats, slow_steps
from traceanalyzer.analysis.time.regularity import MIN_STEPS, Regularity
from traceanalyzer.base import digits
from traceanalyzer.diagnosis import loader_advice
from traceanalyzer.diagnosis.draft import Draft, Part, Proposal, finding
from traceanalyzer.diagnosis.finding import Evidence, Summary, Words
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.pages import said
from traceanalyzer.diagnosis.serving.faults import failed_sentence
from traceanalyzer.diagnosis.serving.load import moment_sentence, story
from traceanalyzer.diagnosis.serving.logs import server_summary
from traceanalyzer.trace import Bool, PastedText
from traceanalyzer.trace.engines import OWN_PROFILERS

WAITS = (
    "cudaStreamSynchronize",
    "cudaDeviceSynchronize",
    "cudaEventSynchronize",
    "hipStreamSynchronize",
    "hipDeviceSynchronize",
    "hipEventSynchronize",
)
LAUNCHES = (
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "hipLaunchKernel",
    "hipExtModuleLaunchKernel",
)
SPENT_IN = dict.fromkeys(WAITS, "in which the CPU waits {} ms") | dict.fromkeys(
    LAUNCHES, "{} ms of CPU time"
)
"""What the CPU's time in a call is."""
FIND_OUT_OF_SUMS = {
    "key_averages": "Export the trace (prof.export_chrome_trace) and analyse that.",
    "nsys_stats": (
        "Export the recording itself (nsys export -t sqlite FILE.nsys-rep) and analyse that."
    ),
    "nvprof": "Record it with nsys (nsys profile, nsys export -t sqlite) and analyse that.",
    "rocprof_stats": "Record it with rocprofv3 (--sys-trace) and analyse that.",
    "proton": (
        'Record a trace (proton.start(..., data="trace")), or one of torch.profiler, and '
        "analyse that."
    ),
}
"""By what recorded the sums."""
INPUT_SHARE = 1 / 6
"""Above this share of the step, which is a fifth of the iteration without its data, waiting for
data is a finding. A loader that keeps up costs a few percent (taking a batch from its
queue)."""
MOST = 0.5
"""From this share of the step on, waiting for data is the largest part whatever the others are."""
DRIFT_SHARE = 0.05  # a smaller trend is that of clocks and temperature
OUTLIER_SHARE = 0.01  # outliers that cost less of the time are within the spread of steps
INPUT_CONFIDENCE = 0.5
"""However small the share. The host may wait for data while the GPU still works, which a log does not
show."""
MAX_CONFIDENCE = 0.8  # however large the share: the log shows the host's time, not the GPU's
FIND_OUT = "Record a few steps with `traceanalyzer collect {}` and analyse them."
RECORDERS = {"jax": "jax", "native": "nsys"}
"""By what wrote the log: `collect torch` records nothing of a program without PyTorch."""
UNNAMED = "other"  # the class of kernels whose names tell none: that most are says nothing
SHOWN_STEPS = 5  # slow steps that are named


def profiled_summary(table: Profiled, source: str) -> Summary:
    """The verdict: always inconclusive, because sums do not tell what waits for what."""
    unit = "a step" if table.steps else "the profile"
    kernels_ms = table.device_ms - table.copies_ms
    on_gpu = [("kernels", kernels_ms), ("copies", table.copies_ms)]
    times = [f"{what} take {digits(time)} ms" for what, time in on_gpu if time > 0]
    spent = [f"{' and '.join(times)} of GPU time"] if times else []
    if table.cpu_ms:
        takes = "" if spent else "take "
        spent.append(f"operators and calls {takes}{digits(table.cpu_ms)} ms of CPU time")
    lacks = "" if table.device_ms else "; the table has no time of the GPU"
    why = f"{', '.join(spent)}{lacks}. {FIND_OUT_OF_SUMS[source]}"
    text = f"Inconclusive: a table of sums does not tell what waits for what. In {unit} {why}"
    return Summary("inconclusive", 0.0, text, "recorded", None)


def pasted_summary(pasted: PastedText, serving: Serving | None = None) -> Summary:
    """The verdict on a pasted text: what it is and what it tells, of a server where time goes."""
    more = "" if serving is None else _of_server(serving)
    failed = "" if serving is None else failed_sentence(serving)
    text = " ".join(filter(None, (failed, f"{pasted.what}.", pasted.tells, more)))
    return Summary("inconclusive", 0.0, text, "recorded", None)


def _of_server(serving: Serving) -> str:
    """Where the time of a server's requests goes, or what they wait for."""
    return " ".join(filter(None, (moment_sentence(serving), story(serving))))


def profiled_notes(table: Profiled) -> Iterator[str]:
    """What stands out in the table."""
    each = " a step" if table.steps else ""
    if table.step_ms and table.device_ms < table.step_ms:
        share = table.device_ms / table.step_ms
        step = f"A step takes {digits(table.step_ms)} ms on the CPU"
        yield f"{step}, with the profiler; GPU work is {share:.0%} of that at most."
    yield from _largest_copy(table)
    for share, cls in table.classes[:1]:
        if cls == UNNAMED:
            continue
        yield f"{share:.0%} of the kernels' time is in {cls} kernels."
    yield from _largest_call(table, each)
    for row in table.rows:
        if row.name in SPENT_IN and row.calls and row.self_cpu_ms:
            yield (
                f"{row.name}: {digits(row.calls)} call{'' if row.calls == 1 else 's'}{each}, "
                f"{SPENT_IN[row.name].format(digits(row.self_cpu_ms))}."
            )


def _largest_copy(table: Profiled) -> Iterator[str]:
    """The copies that take most, where copies take most of the GPU's time."""
    largest = next((row for row in table.rows if row.kind == "copy"), None)
    if largest is not None and 2 * table.copies_ms >= table.device_ms:
        share = largest.share_of_device or 0.0
        yield f"{share:.0%} of the GPU's time is in {largest.name.strip('[]')}."


def _largest_call(table: Profiled, each: str) -> Iterator[str]:
    """The call that takes most of the time of all calls, unless it is one that is named anyway."""
    calls = [row for row in table.rows if row.kind == "api" and row.self_cpu_ms]
    total_ms = sum(row.self_cpu_ms or 0.0 for row in calls)
    largest = max(calls, key=lambda row: row.self_cpu_ms or 0.0, default=None)
    if largest is None or largest.name in SPENT_IN:
        return
    spent_ms = largest.self_cpu_ms or 0.0
    if 2 * spent_ms >= total_ms:
        share = f"{spent_ms / total_ms:.0%} of the time in all calls"
        yield f"{largest.name}: {digits(spent_ms)} ms of CPU time{each}, {share}."


def timing_summary(m: Measurements) -> Summary:
    """The verdict on a run of which only step times are known."""
    if m.trace.step_timings.of_server or m.trace.logged_by in OWN_PROFILERS:
        return server_summary(m)
    stats = m.timing
    find_out = FIND_OUT.format(RECORDERS.get(m.trace.logged_by, "torch"))
    if stats is None or stats.median_ms is None:
        rates = [(stats.tokens_per_s, "tokens"), (stats.samples_per_s, "samples")] if stats else []
        rate = next(
            (f" It says {digits(rate)} {what}/s." for rate, what in rates if rate is not None),
            "",
        )
        return Summary(
            "inconclusive", 0.0, f"Inconclusive: the log holds no step times.{rate} {find_out}"
        )
    if stats.data_share is not None and stats.data_share >= MOST:
        confidence = INPUT_CONFIDENCE + (MAX_CONFIDENCE - INPUT_CONFIDENCE) * min(
            stats.data_share, 1.0
        )
        text = (
            f"Input-bound: waiting for data takes {stats.data_share:.0%} of each "
            f"{digits(m.mean_step_ms)} ms {'epoch' if m.trace.logged_epochs else 'step'}."
        )
        return Summary("input", round(confidence, 2), text, "recorded", m.mean_step_ms)
    text = f"{_steps(m, stats)}{_loader(stats)}. Step times alone do not tell why. {find_out}"
    return Summary(
        "inconclusive", 0.0, text, "recorded", m.mean_step_ms if m.timed.steps.found else None
    )


def _loader(stats: TimingStats) -> str:
    """What of the step is waiting for data, where that is not most of it; empty where it is not
    known."""
    if stats.data_share is None:
        return ""
    if stats.data_share <= INPUT_SHARE:
        return f"; not the data loader ({stats.data_share:.0%})"
    return f": {stats.data_share:.0%} waiting for data, {1 - stats.data_share:.0%} the step itself"


def _steps(m: Measurements, stats: TimingStats) -> str:
    each = "Epoch" if m.trace.logged_epochs else "Step"
    if (
        stats.slow_steps_share is not None
        and stats.fast_mode_ms is not None
        and stats.slow_mode_ms is not None
    ):
        times = f"{digits(stats.fast_mode_ms)} or {digits(stats.slow_mode_ms)} ms"
        return f"{each}s take {times} ({stats.slow_steps_share:.0%} slow)"
    if stats.outlier_excess_share >= OUTLIER_SHARE and stats.median_ms is not None:
        slow = (
            f"{stats.outliers} of {stats.steps} take much longer "
            f"({stats.outlier_excess_share:.0%} of the time)"
        )
        return f"The median {each.lower()} takes {digits(stats.median_ms)} ms, and {slow}"
    timed = {
        "forward": stats.forward_ms,
        "backward": stats.backward_ms,
        "optimizer": stats.optimizer_ms,
    }
    phases = ", ".join(f"{name} {digits(time)}" for name, time in timed.items() if time is not None)
    subject = "An epoch" if m.trace.logged_epochs else "A step"
    return f"{subject} takes {digits(m.mean_step_ms)} ms" + (f" ({phases} ms)" if phases else "")


def timing_parts(m: Measurements) -> dict[str, float]:
    """Parts of the step that headroom may be taken from where only a log is known, ms."""
    stats = m.timing
    if stats is None or not m.timed.steps.found:
        return {}
    data = min(stats.data_time_ms or 0.0, m.mean_step_ms)
    return {"idle.input": data, "idle.other": m.mean_step_ms - data}


def slow_input(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """The step waits for its data."""
    stats = m.timing
    if (
        stats is None
        or stats.data_time_ms is None
        or stats.data_share is None
        or stats.data_share <= INPUT_SHARE
    ):
        return
    if not m.trace.only_step_times:
        return  # the trace shows what of the waiting the GPU noticed
    where = _where(m, stats)
    words = Words(
        f"{loader_advice.action(None)} Cheaper preprocessing, a faster or local copy of the data.",
        (
            "Load ahead: prepare the next input on other threads while the step runs; a "
            "faster or local copy of the data."
        ),
    )
    basis = "the step runs as long as now, and all loading is hidden behind it"
    evidence = [
        Evidence("time waiting for data", stats.data_share, "share", where, INPUT_SHARE),
        Evidence("time waiting for data", stats.data_time_ms, "ms", where),
    ]
    claim = _claim(m, stats.data_time_ms)
    ahead = Proposal(words, basis)
    yield finding("slow-input", "idle.input", claim, evidence, [ahead], words=words)


def slow_outliers(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Single steps take much longer than the others."""
    stats = _differences(m)
    if stats is None or stats.outlier_excess_share < OUTLIER_SHARE:
        return
    where = _where(m, stats)
    excess = stats.outlier_excess_share
    evidence = [
        Evidence(
            "time outliers take beyond the median step", excess, "share", where, OUTLIER_SHARE
        ),
        Evidence("outliers", stats.outliers, "", where),
    ]
    if isinstance(stats, Regularity):
        slow = slow_steps(m.timed, m.budgets)
        more = f" and {len(slow) - SHOWN_STEPS} more" if len(slow) > SHOWN_STEPS else ""
        names = ", ".join(slow[:SHOWN_STEPS]) + more
        evidence.append(Evidence("slow steps", names, "", "as `traceanalyzer show steps` lists"))
    look = Proposal(
        said("slow-outliers"), f"{_origin(stats)} time of outliers beyond the median step"
    )
    title = f"{stats.outliers} steps are much slower than the others"
    yield _regularity("slow-outliers", title, _claim(m, excess * m.mean_step_ms), evidence, look)


def two_kinds(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """The steps are of two kinds, fast and slow."""
    stats = _differences(m)
    if (
        stats is None
        or stats.fast_mode_ms is None
        or stats.slow_mode_ms is None
        or stats.slow_steps_share is None
    ):
        return
    where = _where(m, stats)
    excess = stats.slow_steps_share * (stats.slow_mode_ms - stats.fast_mode_ms)
    evidence = [
        Evidence("slow steps", stats.slow_steps_share, "share", where),
        Evidence("fast steps", stats.fast_mode_ms, "ms", "median"),
        Evidence("slow steps", stats.slow_mode_ms, "ms", "median"),
    ]
    basis = (
        f"{_origin(stats)}: all steps as fast as the fast ones, an upper bound where the "
        "slow ones do more work"
    )
    compare = Proposal(said("two-kinds-of-steps"), basis)
    title = "Step times fall into two groups, fast and slow"
    yield _regularity("two-kinds-of-steps", title, _claim(m, excess), evidence, compare)


def drifting(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Steps become slower over the run."""
    stats = _differences(m)
    if stats is None:
        return
    # As recorded the GPU's share counts alone: hosts get slower the more a profiler has recorded.
    recorded = isinstance(stats, Regularity)
    drift = stats.busy_drift_share if isinstance(stats, Regularity) else stats.drift_share
    if drift is None or drift < DRIFT_SHARE:
        return
    where = f"from the first to the last of {stats.steps} {_origin(stats)} steps"
    what = "growth of the GPU's time" if recorded else "growth of the step time"
    evidence = [Evidence(what, drift, "share", where, DRIFT_SHARE)]
    watch = Proposal(
        said("drift"), f"{_origin(stats)} trend; the first steps show what is possible"
    )
    yield _regularity("drift", "Steps become slower over the run", None, evidence, watch)


def _differences(m: Measurements) -> TimingStats | Regularity | None:
    """How the steps differ: by the log, which no profiler slowed, where it is long enough, else as
    recorded. Iterations of a server differ by what they have to do: their kinds tell more."""
    if m.trace.only_step_times and m.trace.step_timings.of_server:
        return None
    logged = m.timing
    return logged if logged is not None and logged.steps >= MIN_STEPS else m.regularity


def _origin(stats: TimingStats | Regularity) -> str:
    return "recorded" if isinstance(stats, Regularity) else "logged"


def _regularity(
    finding_id: str,
    title: str,
    claim: float | None,
    evidence: list[Evidence],
    proposal: Proposal,
) -> Draft:
    part: Part = "none" if claim is None else "idle.other"
    return Draft(finding_id, "inconclusive", title, part, claim, evidence, [proposal])


def _claim(m: Measurements, ms: float) -> float | None:
    """Headroom in the step of a timing log; beside a trace, the trace's own parts are what there is
    to give."""
    return ms if m.trace.only_step_times else None


def _where(m: Measurements, stats: TimingStats | Regularity) -> str:
    if isinstance(stats, Regularity):
        return f"{stats.steps} recorded steady steps"
    return f"{stats.steps} logged steps" + ("" if m.trace.only_step_times else ", without profiler")
