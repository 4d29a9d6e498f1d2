"""Findings on step times alone, logged or recorded: waiting for data, outliers, two kinds of steps, drift."""

from collections.abc import Iterator

from traceanalyzer.analysis.tables.timing import TimingStats, slow_steps
from traceanalyzer.analysis.time.regularity import MIN_STEPS, Regularity
from traceanalyzer.diagnosis import loader_advice
from traceanalyzer.diagnosis.draft import Draft, Part, Proposal, finding
from traceanalyzer.diagnosis.finding import Evidence, Words
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.pages import said
from traceanalyzer.diagnosis.timing import DRIFT_SHARE, INPUT_SHARE, OUTLIER_SHARE
from traceanalyzer.trace import Bool

SHOWN_STEPS = 5  # slow steps that are named


def slow_input(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """The step waits for its data."""
    stats = m.timing
    if stats is None or stats.data_time_ms is None or stats.data_share is None or stats.data_share <= INPUT_SHARE:
        return
    if not m.trace.only_step_times:
        return  # the trace shows what of the waiting the GPU noticed
    where = _where(m, stats)
    words = Words(
        f"{loader_advice.action(None)} Cheaper preprocessing, a faster or local copy of the data.",
        "Load ahead: prepare the next input on other threads while the GPU works; a faster or local copy of the data.",
    )
    basis = "logged time waiting for data; assumes that loading can be hidden behind the step completely"
    evidence = [
        Evidence("time waiting for data", stats.data_share, "share", where, INPUT_SHARE),
        Evidence("time waiting for data", stats.data_time_ms, "ms", where),
    ]
    claim, ahead = _claim(m, stats.data_time_ms), Proposal(words, basis)
    yield finding("slow-input", "idle.input", claim, evidence, [ahead], words=words)


def slow_outliers(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Single steps take much longer than the others."""
    if (stats := _differences(m)) is None or stats.outlier_excess_share < OUTLIER_SHARE:
        return
    where, excess = _where(m, stats), stats.outlier_excess_share
    evidence = [
        Evidence("time outliers take beyond the median step", excess, "share", where, OUTLIER_SHARE),
        Evidence("outliers", stats.outliers, "", where),
    ]
    if isinstance(stats, Regularity):
        slow = slow_steps(m.timed, m.budgets)
        more = f" and {len(slow) - SHOWN_STEPS} more" if len(slow) > SHOWN_STEPS else ""
        names = ", ".join(slow[:SHOWN_STEPS]) + more
        evidence.append(Evidence("slow steps", names, "", "as `traceanalyzer steps` lists"))
    look = Proposal(said("slow-outliers"), f"{_origin(stats)} time of outliers beyond the median step")
    title = f"{stats.outliers} steps are much slower than the others"
    yield _regularity("slow-outliers", title, _claim(m, excess * m.mean_step_ms), evidence, look)


def two_kinds(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """The steps are of two kinds, fast and slow."""
    stats = _differences(m)
    if stats is None or stats.fast_mode_ms is None or stats.slow_mode_ms is None or stats.slow_steps_share is None:
        return
    where = _where(m, stats)
    excess = stats.slow_steps_share * (stats.slow_mode_ms - stats.fast_mode_ms)
    evidence = [
        Evidence("slow steps", stats.slow_steps_share, "share", where),
        Evidence("fast steps", stats.fast_mode_ms, "ms", "median"),
        Evidence("slow steps", stats.slow_mode_ms, "ms", "median"),
    ]
    basis = f"{_origin(stats)}: all steps as fast as the fast ones, an upper bound where the slow ones do more work"
    compare = Proposal(said("two-kinds-of-steps"), basis)
    title = "Step times fall into two groups, fast and slow"
    yield _regularity("two-kinds-of-steps", title, _claim(m, excess), evidence, compare)


def drifting(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Steps become slower over the run."""
    if (stats := _differences(m)) is None:
        return
    # As recorded the GPU's share counts alone: hosts get slower the more a profiler has recorded.
    recorded = isinstance(stats, Regularity)
    drift = stats.busy_drift_share if isinstance(stats, Regularity) else stats.drift_share
    if drift is None or drift < DRIFT_SHARE:
        return
    where = f"from the first to the last of {stats.steps} {_origin(stats)} steps"
    what = "growth of the GPU's time" if recorded else "growth of the step time"
    evidence = [Evidence(what, drift, "share", where, DRIFT_SHARE)]
    watch = Proposal(said("drift"), f"{_origin(stats)} trend; the first steps show what is possible")
    yield _regularity("drift", "Steps become slower over the run", None, evidence, watch)


def _differences(m: Measurements) -> TimingStats | Regularity | None:
    """How the steps differ: by the log, which no profiler slowed, where it is long enough, else as recorded."""
    logged = m.timing
    return logged if logged is not None and logged.steps >= MIN_STEPS else m.regularity


def _origin(stats: TimingStats | Regularity) -> str:
    return "recorded" if isinstance(stats, Regularity) else "logged"


def _regularity(id: str, title: str, claim: float | None, evidence: list[Evidence], proposal: Proposal) -> Draft:  # noqa: A002
    part: Part = "none" if claim is None else "idle.other"
    return Draft(id, "inconclusive", title, part, claim, evidence, [proposal])


def _claim(m: Measurements, ms: float) -> float | None:
    """Headroom in the step of a timing log; beside a trace, the trace's own parts are what there is to give."""
    return ms if m.trace.only_step_times else None


def _where(m: Measurements, stats: TimingStats | Regularity) -> str:
    if isinstance(stats, Regularity):
        return f"{stats.steps} recorded steady steps"
    return f"{stats.steps} logged steps" + ("" if m.trace.only_step_times else ", without profiler")
