"""Remedies for what the host does between launches: waits for the device, allocations, Python,
first launches."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra import isin_few, texts_where
from traceanalyzer.analysis.causes.draining import only_searches
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.analysis.tables.shape_rows import shape_changes
from traceanalyzer.analysis.tables.syncs import SyncRow
from traceanalyzer.base import NS_PER_MS, digits, plural, regex, span
from traceanalyzer.diagnosis.finding import Recommendation, Words
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.remedies.program import may_load, tape_of
from traceanalyzer.diagnosis.remedies.remedy import (
    Offer,
    remedy,
    scenario_of,
    text,
    words,
)
from traceanalyzer.replay.changes.data.host_memory import prepared_on_device
from traceanalyzer.replay.changes.data.loading import done_on_device, no_allocations
from traceanalyzer.replay.changes.fusion import Reading
from traceanalyzer.replay.changes.loops.rows_sorted import rows_repeated, rows_sorted
from traceanalyzer.replay.changes.syncs.anomaly import (
    detects_anomalies,
    without_anomaly_detection,
    without_checks,
)
from traceanalyzer.replay.changes.syncs.answers import answers
from traceanalyzer.replay.changes.syncs.branches import branched_items, branches_as_where
from traceanalyzer.replay.changes.syncs.indices import (
    indices_again,
    picks_again,
    searches_in_backward,
)
from traceanalyzer.replay.changes.syncs.sizes import sizes_read
from traceanalyzer.replay.changes.syncs.syncs import is_read, syncs_removed
from traceanalyzer.replay.changes.syncs.unique_ids import made_unique
from traceanalyzer.replay.changes.syncs.values import (
    after_first_read,
    masks_spread,
    scalars_reuploaded,
)
from traceanalyzer.replay.changes.warmup import (
    loads_for_ever,
    made_on_device,
    no_work_of_its_own,
    prepared_before,
    warmed_up,
)
from traceanalyzer.replay.scenario import Scenario
from traceanalyzer.replay.tape import Tape

NO_SYNCS = scenario_of(
    "remove_syncs",
    syncs_removed(Reading.TYPICAL),
    optimistic=syncs_removed(Reading.OPTIMISTIC),
    pessimistic=syncs_removed(Reading.PESSIMISTIC),
)
NO_BRANCHES = scenario_of(
    "remove_syncs",
    branches_as_where(Reading.TYPICAL),
    "assumes_branches",
    optimistic=branches_as_where(Reading.OPTIMISTIC),
    pessimistic=branches_as_where(Reading.PESSIMISTIC),
)
NO_ANOMALIES = scenario_of(
    "remove_syncs", without_anomaly_detection, "assumes_anomalies", pessimistic=without_checks
)
SORTED = scenario_of("remove_syncs", rows_sorted, "assumes_sorted")
REPEATED = scenario_of("remove_syncs", rows_repeated, "assumes_repeated")
OF_TURNS = {"sort_rows": SORTED, "repeat_rows": REPEATED}
"""What to do about loops that wait in each turn, and launch more there than the wait takes."""
COALESCING = regex(r"\bcoalesce\b|_coalesce\b")
MOSTLY = 0.5  # of a gain
LEAST_OF_SYNCS = 0.04
"""Calls that wait are host time, too; where the GPU waits for launches alone, they were hardly what
held it up."""
NO_WORK = scenario_of("move_host_work", no_work_of_its_own, "assumes_no_work")
BEFORE_COPIES = scenario_of(
    "move_host_work", prepared_on_device, "assumes_before_copies", optimistic=made_on_device
)
HIDDEN = 0.01
"""Share of the step below which idle time because of syncs is no row of the budget."""
LEAST_OF_HOST_WORK = 0.1
"""Pauses of a tenth of a millisecond occur in any eager program: threads that hand over, Python
that collects."""
OF_RESULTS = scenario_of(
    "move_host_work", done_on_device, "assumes_of_results", pessimistic=no_work_of_its_own
)
NO_ALLOCATIONS = scenario_of("avoid_allocations", no_allocations)
WARMED_UP = scenario_of("warm_up", warmed_up)
PREPARED = "convolution|cudnn"
"""Operators for which cuDNN chooses an algorithm and builds a plan: convolutions, and attention
where it is cuDNN's."""
MUCH_TRIED = 0.05
"""Share of the step in kernels that are only tried out, from which the advice says so."""
PREPARED_BEFORE = scenario_of("fixed_shapes", prepared_before(PREPARED))


@remedy("remove_syncs", "sync", LEAST_OF_SYNCS)
def remove_syncs(m: Measurements) -> Offer | None:
    """Wherever the host waits for the GPU, unless a library waits to choose its algorithms, or what is
    gained is other CPU work, which has remedies of its own. In a loop that looks for rows in each
    turn, or where autograd checks each gradient, what is done around the waits goes, too."""
    if m.timed.memo(only_searches):
        return None
    tape = tape_of(m)
    repeated = None if tape is None else _of_repeated_checks(tape)
    if repeated is not None:
        return repeated
    replay = m.replay
    if replay is not None:
        gains = {which: replay.gain_ms(scenario) for which, scenario in OF_TURNS.items()}
        most = max(gains, key=gains.__getitem__)
        if gains[most] > replay.gain_ms(NO_SYNCS):
            how = words("remove_syncs", most)
            return Offer(how, OF_TURNS[most], against=("launch-bound", "launch"))
        if _gains_by_host_work(m, replay.gain_ms(NO_SYNCS)):
            return None
    return Offer(
        Words(text("remove_syncs", instead_of_waits(m)), text("remove_syncs", "read_later")),
        NO_SYNCS,
    )


def _of_repeated_checks(tape: Tape) -> Offer | None:
    """What to do where each gradient, or one number after the other, is tested."""
    if detects_anomalies(tape):
        return Offer(words("remove_syncs", "anomalies"), NO_ANOMALIES)
    if _waits_in_branches(tape):
        return Offer(words("remove_syncs", "branches"), NO_BRANCHES)
    return None


def without_waits(tape: Tape) -> Scenario:
    """The step without its waits, before it is captured in a graph."""
    return NO_BRANCHES if _waits_in_branches(tape) else NO_SYNCS


def _waits_in_branches(tape: Tape) -> bool:
    """Whether most waits are for a test of one number after the other."""
    operator = tape.source.linked.tree.outer_operator[tape.nodes]
    branched = operator[tape.event[branched_items(tape)]]
    waiting = operator[is_read(tape)]
    return 2 * int(np.isin(waiting, branched).sum()) > len(waiting)


def _gains_by_host_work(m: Measurements, gain_ms: float) -> bool:
    """Whether what a step without waits gains is mostly CPU work that then runs while the GPU works:
    the GPU idles for that work, and hardly because of the waits."""
    idle = m.step.idle
    if idle is None:
        return False
    of_waits_ms = idle.sync + idle.launch
    of_work_ms = idle.host + idle.input
    return of_waits_ms < MOSTLY * gain_ms <= of_work_ms


def waits_in_words(m: Measurements) -> str:
    """How often a step the CPU waits for the GPU, and how long, as recorded: `4 waits a step,
    97.0 us of the CPU`."""
    calls = sum(row.calls for row in m.syncs)
    waits_ms = sum(row.host_wait_ms for row in m.syncs)
    times = f"{digits(calls)} {plural('wait', calls)} {m.timed.steps.per}"
    return f"{times}, {span(waits_ms)} of the CPU"


def hides_waits(m: Measurements) -> bool:
    """Whether no idle time that is worth a row is because of syncs."""
    idle = m.step.idle
    return idle is not None and idle.sync < HIDDEN * m.step.step_ms


def with_hidden_waits(m: Measurements, advice: Sequence[Recommendation]) -> list[Recommendation]:
    """The advice; that on syncs says how long they wait, and what is gained, where the budget has
    no idle time because of them."""
    if not hides_waits(m):
        return list(advice)
    why = (
        f"The budget has no syncs ({waits_in_words(m)}): what is gained is launches, which come "
        "sooner or are fewer."
    )
    return [
        replace(one, instead=" ".join(filter(None, (why, one.instead))))
        if one.remedy == "remove_syncs"
        else one
        for one in advice
    ]


def _coalesce(syncs: Sequence[SyncRow]) -> bool:
    idle = sum(row.gpu_idle_ms for row in syncs)
    return 2 * sum(row.gpu_idle_ms for row in syncs if COALESCING.search(row.op or "")) > idle


def instead_of_waits(m: Measurements) -> str:
    """What to do about most of the waits in PyTorch, by its name in the remedy's entry."""
    if _coalesce(m.syncs):
        return "coalesce"
    tape = tape_of(m)
    if tape is None:
        return "keep_values"
    if tape.memo(scalars_reuploaded).any():
        return "as_tensors"
    if tape.memo(after_first_read).any():
        return "read_together"
    waiting = is_read(tape)
    tests = answers(tape)
    again = indices_again(tape) | (picks_again(tape) >= 0) | searches_in_backward(tape)
    for which, gone in (
        ("look_up", made_unique(tape)),
        ("no_tests", tests),
        ("indices_once", again),
    ):
        if 2 * int((waiting & gone).sum()) > int(waiting.sum()):
            return which
    spread = tape.memo(masks_spread)  # waits for how many values a mask picks are gone
    if spread is None:
        return "keep_values"
    # With a mask go tests whether it has any value, and how many it has.
    left = int((is_read(spread) & ~tests & ~sizes_read(tape)).sum())
    return "of_masks" if 2 * left < int(waiting.sum()) else "keep_values"


@remedy("move_host_work", "host", LEAST_OF_HOST_WORK)
def move_host_work(m: Measurements) -> Offer | None:
    """Where the GPU idles while the host works, on the GPU's results or else, or prepares input
    without a loader."""
    replay = m.replay
    if replay is not None and replay.gain_ms(OF_RESULTS) > replay.gain_ms(NO_WORK) > 0:
        return Offer(words("move_host_work", "on_device"), OF_RESULTS)
    if (
        replay is not None
        and not may_load(m)
        and replay.gain_ms(BEFORE_COPIES) > replay.gain_ms(NO_WORK)
    ):
        return Offer(
            words("move_host_work", "prepare_elsewhere"),
            BEFORE_COPIES,
            against=("input-wait", "input"),
        )
    idles = m.step.idle is not None and m.step.idle.host > 0
    return Offer(words("move_host_work", "elsewhere"), NO_WORK) if idles else None


@remedy("avoid_allocations", "host")
def avoid_allocations(m: Measurements) -> Offer:
    """Wherever memory is allocated or freed within the steps."""
    # The library is asked for less where convolutions (cuDNN, MIOpen) make most of the calls' time.
    calls = m.trace.api_calls
    tree = m.linked.tree
    strings = m.trace.strings
    rows = np.flatnonzero(isin_few(m.linked.api_kind, (ApiKind.ALLOCATE, ApiKind.FREE)))
    around = tree.named(
        texts_where(strings, re.compile("convolution|miopen|cudnn", re.IGNORECASE).search)
    )
    inside = tree.innermost(around)[tree.node_of_call[rows]] >= 0
    time = (calls.end - calls.start)[rows]
    by_library = bool(time[inside].sum() > time.sum() / 2)
    return Offer(
        words("avoid_allocations", "library" if by_library else "expandable"), NO_ALLOCATIONS
    )


@remedy("warm_up", "host")
def warm_up(m: Measurements) -> Offer | None:
    """Wherever recorded calls load kernels or compile while the GPU waits, unless each step does so
    again: shapes that are always new cannot be warmed up."""
    tape = tape_of(m)
    if tape is not None and loads_for_ever(tape):
        return None
    return Offer(words("warm_up"), WARMED_UP)


@remedy("fixed_shapes", "host")
def fixed_shapes(m: Measurements) -> Offer | None:
    """Where cuDNN's operators get new shapes from step to step."""
    if shape_changes(m.causes, PREPARED) is None:
        return None
    tried_ns = None if m.replay is None else m.replay.kernels_saved_ns(PREPARED_BEFORE)
    tried_ms = (tried_ns or 0.0) / NS_PER_MS
    if tried_ms < MUCH_TRIED * m.step.step_ms:
        return Offer(words("fixed_shapes"), PREPARED_BEFORE)
    return Offer(words("fixed_shapes", "tried", tried=digits(tried_ms)), PREPARED_BEFORE)
