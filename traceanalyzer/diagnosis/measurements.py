"""Everything measured of one process, in the order of the pipeline: the list of measurements there
are."""

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.critical_path import path_parts
from traceanalyzer.analysis.causes.doubts import clocks_apart_ns, doubt, with_clocks_joined
from traceanalyzer.analysis.causes.idle_left import IdleLeft
from traceanalyzer.analysis.causes.started import LaunchEdges
from traceanalyzer.analysis.groups.first_steps import first_steps
from traceanalyzer.analysis.groups.input_loading import loading
from traceanalyzer.analysis.groups.seen_conditions import seen_conditions
from traceanalyzer.analysis.joined.graph_names import with_operators
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.joined.told_inputs import with_told_inputs
from traceanalyzer.analysis.memory.stats import stats_of_printed
from traceanalyzer.analysis.phases.roles import find_phases, phase_times
from traceanalyzer.analysis.phases.training import program_stats
from traceanalyzer.analysis.ranks.compare import why_not_one_run
from traceanalyzer.analysis.ranks.digested import claim_of, digest_of
from traceanalyzer.analysis.ranks.matches import match_collectives
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.analysis.roofline.roofline_rows import roofline_step
from traceanalyzer.analysis.serving.figures import served_load
from traceanalyzer.analysis.serving.rows import found_in_log, iteration_rows
from traceanalyzer.analysis.tables import budget as of_steps
from traceanalyzer.analysis.tables import timing as timings
from traceanalyzer.analysis.tables.collectives import collective_stats, communication_time
from traceanalyzer.analysis.tables.copies import copy_stats
from traceanalyzer.analysis.tables.devices import counter_stats, device_totals, gpu_counters
from traceanalyzer.analysis.tables.gap_rows import gap_histogram, gap_places
from traceanalyzer.analysis.tables.kernels import class_stats, kernel_stats
from traceanalyzer.analysis.tables.launches import host_stats, measure_launches
from traceanalyzer.analysis.tables.modules import module_stats, range_rows
from traceanalyzer.analysis.tables.op_memory import op_memory
from traceanalyzer.analysis.tables.ops import op_stats
from traceanalyzer.analysis.tables.path_rows import PathTime, path_tables
from traceanalyzer.analysis.tables.phases import PhaseIdle, PhaseStats, phase_stats
from traceanalyzer.analysis.tables.profiled import Profiled, profiled
from traceanalyzer.analysis.tables.shape_rows import shape_rows
from traceanalyzer.analysis.tables.step_figures import Step, Unprofiled
from traceanalyzer.analysis.tables.step_parts import step_parts
from traceanalyzer.analysis.tables.syncs import sync_rows
from traceanalyzer.analysis.tables.throughput import (
    masks_are_unknown,
    mfu_is_least,
    throughput,
    utilisation,
)
from traceanalyzer.analysis.time.coverage import concurrent_kernel_share, coverage
from traceanalyzer.analysis.time.repeats import repeats
from traceanalyzer.analysis.time.timed import HasTimed, Timed
from traceanalyzer.base import NS_PER_MS, EmptyRecordingError, dataclass
from traceanalyzer.diagnosis.ledger import Basis, Ledger, idle_left, make_ledger
from traceanalyzer.ingest.unprofiled import contradiction, only_unsteady
from traceanalyzer.replay.host_parts import HostPart, host_parts
from traceanalyzer.replay.iterations import Served
from traceanalyzer.replay.recorded import waits_for_unlaunched
from traceanalyzer.replay.replayed_path import replayed_path_time
from traceanalyzer.replay.unprofiled import (
    RecordedStep,
    StepWithoutProfiler,
    replayed_step,
    step_as_recorded,
)
from traceanalyzer.replay.whatif import MEASURED_SPREAD, Replay

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traceanalyzer.analysis.memory.measure import MemoryOfDevice
    from traceanalyzer.analysis.memory.stats import MemoryStats
    from traceanalyzer.analysis.memory.traced import TracedMemory
    from traceanalyzer.analysis.ranks.compare import RankComparison, RankRow
    from traceanalyzer.analysis.ranks.matches import Matches
    from traceanalyzer.analysis.tables.collectives import CollectiveStats, CommunicationTime
    from traceanalyzer.trace import Trace

FAR_OFF = 2.0
"""How many times as long as an estimate the median of unsteady steps is, or the other way round,
before a report says both: hosts differ by less (`unprofiled` spreads)."""
Made = TypeVar("Made")

MIGRATES = (
    "page migrations, which no call launches, end much of its idle time and cannot be replayed"
)


def measure(
    trace: "Trace", knowledge: Knowledge | None = None, only_step: int | None = None
) -> "Measurements":
    """The measurements of one recording."""
    linked = Linked(trace, knowledge or Knowledge())
    apart_ns = clocks_apart_ns(linked)
    if apart_ns:
        linked = Linked(with_clocks_joined(trace, apart_ns), linked.knowledge)
    named = with_operators(linked, [Linked(one, linked.knowledge) for one in trace.captures])
    linked = linked if named is None else Linked(named, linked.knowledge)
    typed = with_told_inputs(linked)
    timed = Timed(Joined(linked if typed is None else Linked(typed, linked.knowledge)), only_step)
    return Measurements(Rated(Causes(LaunchEdges(timed))), clocks_apart_ns=apart_ns)


def measure_ranks(
    traces: "Sequence[Trace]", knowledge: Knowledge | None = None, only_step: int | None = None
) -> "list[Measurements]":
    """The measurements of each of several recordings; the ranks of one run know each other."""
    measured = [measure(trace, knowledge, only_step) for trace in traces]
    if why_not_one_run(list(map(claim_of, traces))):
        return measured
    rated = tuple(one.rated for one in measured)
    return [replace(one, together=rated) for one in measured]


def lazy(make: "Callable[[Measurements], Made]") -> cached_property[Made]:
    """What is measured when it is first asked for."""
    return cached_property(make)


@dataclass(frozen=True, eq=False)
class Measurements(HasTimed):
    """The measurements of a process, each made when first asked for. Lists of rows are in display
    order."""

    rated: Rated
    together: tuple[
        Rated, ...
    ] = ()  # the ranks of its run, itself among them; one tuple for all of them
    ranks: "RankComparison | None" = None
    """The ranks that it is reported with, compared; None where it was measured alone."""
    # the collectives of `together`, where they are matched already
    matches: "Matches | None" = None
    clocks_apart_ns: int = 0
    """By how much its kernels began before their launches, before its device times were moved."""

    peers = lazy(
        lambda m: tuple(one for one in m.together if one is not m.rated)
    )  # the other ranks of its run
    timed = lazy(lambda m: m.rated.timed)  # the same in time
    causes = lazy(lambda m: m.rated.causes)  # why the devices were idle
    started = lazy(lambda m: m.causes.started)  # what each device op needed to start
    phases = lazy(lambda m: find_phases(m.timed))  # what each operator and device op is for
    program = lazy(lambda m: program_stats(m.timed, m.phases))
    """What the program does in a step; None where nothing tells."""
    path_tables = lazy(lambda m: path_tables(m.timed, path_parts(m.started)))
    """Both tables of the critical path, made part by part: it has more segments than there is of
    anything else."""
    coverage = lazy(lambda m: coverage(m.timed))  # which part of the recording its steps are
    repeats = lazy(lambda m: repeats(m.timed))  # what repeats within a step
    budgets = lazy(
        lambda m: (
            None
            if m.timed.device is None
            else of_steps.step_budgets(m.timed, m.causes.gaps, m.timed.device)
        )
    )
    """Budget of each step on the device with the most work; None without device work."""
    step_time = lazy(lambda m: of_steps.step_time(m.timed.steps))
    """Distribution of the steady-state step times; None without steps."""
    budget = lazy(
        lambda m: (
            None if m.budgets is None else of_steps.mean_budget(m.budgets, m.timed.steps.steady)
        )
    )
    """Mean budget of a steady-state step."""
    step_parts = lazy(
        lambda m: step_parts(m.timed, m.causes.gaps)
    )  # the mean steady step in its smallest named parts
    idle = lazy(
        lambda m: None if m.budgets is None else of_steps.mean_idle(m.budgets, m.timed.steps.steady)
    )
    """Mean idle time of a steady-state step by cause."""

    steady_durations = lazy(lambda m: m.timed.steps.duration[m.timed.steps.steady])
    """How long each steady-state step takes (the whole recording without steps), ns."""
    mean_step_ms = lazy(lambda m: float(m.steady_durations.mean()) / NS_PER_MS)
    """Mean time of a steady-state step (of the whole recording without steps), ms."""

    @cached_property
    def communication(self) -> "CommunicationTime | None":
        """Communication of a step on the device with the most work."""
        if self.timed.device is None:
            return None
        passes = self.program.micro_steps if self.program is not None else None
        time = communication_time(self.timed, self.timed.device, self.phases, passes)
        row = self.rank_row
        return (
            time
            if row is None
            else replace(time, transfer_ms=row.transfer_ms, waiting_ms=row.waiting_ms)
        )

    @cached_property
    def rank_row(self) -> "RankRow | None":
        """Its row among the ranks that it was compared with."""
        rows = self.ranks.rows if self.ranks else ()
        return next((row for row in rows if row.rank == self.trace.rank), None)

    launches = lazy(lambda m: measure_launches(m.timed))  # launching of device work

    @cached_property
    def memory_of_devices(self) -> "tuple[MemoryOfDevice, ...]":
        """GPU memory as the snapshot beside the trace tells; empty without one."""
        if self.trace.memory is None:
            return ()
        from traceanalyzer.analysis.memory.measure import measured_memory

        sizes = {
            device.id: device.memory_bytes for device in self.trace.devices if device.memory_bytes
        }
        return measured_memory(self.trace.memory, capacity=sizes)

    @cached_property
    def memory(self) -> "MemoryStats | None":
        """GPU memory in single figures; None where none was recorded."""
        if self.memory_of_devices:
            from traceanalyzer.analysis.memory.measure import stats_of_snapshot

            return stats_of_snapshot(self.memory_of_devices)
        return (
            self.traced_memory.stats
            if self.traced_memory
            else stats_of_printed(self.trace.printed_memory)
        )

    @cached_property
    def traced_memory(self) -> "TracedMemory | None":
        """GPU memory as the trace alone tells; None without allocator events."""
        if not len(self.trace.memory_events):
            return None
        from traceanalyzer.analysis.memory.traced import memory_of_events

        return memory_of_events(self.timed, self.phases)

    op_memory = lazy(lambda m: op_memory(m.timed))
    """Operators by the GPU memory that they allocate; empty without allocator events."""
    host = lazy(lambda m: host_stats(m.timed))  # how busy the launching threads are
    replay = lazy(lambda m: Replay.of(m.rated, m.unprofiled_time, m.peers))
    """The steady steps ready to be replayed; None without steps, launches or device work."""
    doubt = lazy(lambda m: doubt(m.started, m.clocks_apart_ns))
    """Why the recording cannot tell what the GPU waited for; empty where nothing says so."""

    @property
    def mfu_is_least(self) -> bool:
        """Whether the MFU is a lower bound: kernels without a model do operations that are not
        counted, or attention may have no mask."""
        is_given = self.throughput is not None and self.throughput.is_given
        if is_given:
            return False
        return mfu_is_least(self.roofline_step, is_given=False) or masks_are_unknown(self.rated)

    @property
    def why_not_replayed(self) -> str:
        """Why the recording cannot be replayed; empty where it can."""
        if self.replay is not None:
            return ""
        if waits_for_unlaunched(self.rated):
            return MIGRATES
        if (self.linked.launch >= 0).any():
            return "its steps are too unlike each other to be replayed"
        return "launches were not recorded"

    @cached_property
    def faithful_replay(self) -> Replay | None:
        """The replay where it takes as long as the recording did; None where nothing is predicted
        from it."""
        known = self.replay is not None and self.replay.faithful and not self.doubt
        return self.replay if known else None

    @cached_property
    def host_parts(self) -> list[HostPart]:
        """The host's time in a step by what it issues; empty without a replay."""
        replay = self.replay
        return [] if replay is None else host_parts(replay.recorded[0], replay.typical[0])

    @cached_property
    def _recorded_step(self) -> RecordedStep | None:
        """The mean recorded step; None without device work."""
        if self.budget is None or self.idle is None:
            return None
        return RecordedStep(self.budget, self.idle)

    @cached_property
    def _without_profiler(self) -> StepWithoutProfiler | None:
        """The step without the profiler by the replay, else as long as the capture timed it or a
        server's replayed iterations say; None where nothing tells."""
        recorded = self._recorded_step
        if recorded is None or self.timed.device is None or self.doubt:
            return None
        if self.faithful_replay is not None:
            return replayed_step(self.faithful_replay, recorded, self.timed.device)
        span = self._unprofiled_span
        return None if span is None else step_as_recorded(recorded, span.step_ms)

    @cached_property
    def _unprofiled_span(self) -> timings.UnprofiledTime | None:
        """The length of the step without the profiler, with its range; None where nothing tells."""
        if self.doubt:
            return None
        timed = self.timed_step
        replay = self.faithful_replay
        if replay is not None:
            return timings.UnprofiledTime(replay.base_ms, *replay.range_ms)
        least = 1.0 - MEASURED_SPREAD
        most = 1.0 + MEASURED_SPREAD
        if timed is not None:
            step_ms = timed.step_ms
            low_ms = min(step_ms * least, timed.low_ms)
            return timings.UnprofiledTime(step_ms, low_ms, max(step_ms * most, timed.high_ms))
        server = self.faithful_server
        if server is None:
            return None
        # The mean of its iterations, all of which its replay takes.
        recorded, *hosts = (
            server.mean_ms(tape)
            for tape in (server.recorded, server.usual, server.fast, server.slow)
        )
        usual, fast, slow = (min(time / recorded, 1.0) * self.mean_step_ms for time in hosts)
        return timings.UnprofiledTime(usual, min(fast, usual * least), max(slow, usual * most))

    @cached_property
    def ledger(self) -> Ledger | None:
        """The step by kind, cause and place: what verdict, findings and tables speak of; None
        without device work."""
        if self._recorded_step is None:
            return None
        without = self._without_profiler
        basis: Basis = "recorded"
        if without is not None:
            basis = "replayed" if self.timed_step is None else "measured"
        return make_ledger(self.causes, self.step_parts, self._recorded_step.idle, without, basis)

    @cached_property
    def idle_left(self) -> IdleLeft | None:
        """Idle time of the step without the profiler by recorded gap; None where that step is not
        known, and of a rank that the report does not speak of."""
        if self.ranks is not None and len(self.together) > 1:
            spoken_of = self.ranks.rows[self.ranks.critical]
            if spoken_of.rank != self.trace.rank:
                return None
        without = self._without_profiler
        return None if without is None else idle_left(self.causes, without.idle)

    @cached_property
    def unprofiled(self) -> Unprofiled | None:
        """The step without the profiler, taken apart; None where it was neither measured nor can
        be replayed."""
        span = self._unprofiled_span
        without = self._without_profiler
        if span is None or without is None or self.ledger is None:
            return None
        replay = self.faithful_replay
        slower, faster = (None, None) if replay is None else replay.host_slopes
        return Unprofiled(
            step_time_ms=span.step_ms,
            low_ms=span.low_ms,
            high_ms=span.high_ms,
            source="estimated" if self.timed_step is None else "measured",
            budget_ms=self.ledger.budget(),
            idle_ms=self.ledger.idle(),
            waiting_ms=without.waiting,
            idle_waiting_ms=without.idle_waiting,
            if_host_slower=slower,
            if_host_faster=faster,
        )

    @cached_property
    def step(self) -> Step:
        """The step that verdict, findings and advice speak of."""
        known = self.unprofiled
        timed = self.unprofiled_time if self.timed.device is None else None
        if timed is not None:  # of the CPU alone: nothing takes it apart
            return Step("unprofiled", timed.step_ms, None, None)
        if known is None:
            return Step("recorded", self.mean_step_ms, self.budget, self.idle)
        return Step(
            "unprofiled",
            known.step_time_ms,
            known.budget_ms,
            known.idle_ms,
            known.waiting_ms,
            known.idle_waiting_ms,
        )

    path_time = lazy(
        lambda m: m.path_tables[0]
    )  # the critical path of a step by kind; None without device work

    @cached_property
    def unprofiled_path_time(self) -> PathTime | None:
        """The critical path of the step replayed without the profiler; None without a replay that
        is faithful."""
        replay = self.faithful_replay
        return None if replay is None else replayed_path_time(replay.typical, replay.scale)

    path = lazy(lambda m: m.path_tables[1])  # what carries the critical path
    devices = lazy(
        lambda m: device_totals(m.timed)
    )  # what each device did over the whole recording
    step_rows = lazy(lambda m: of_steps.step_rows(m.timed, m.budgets))  # the steps one by one
    iterations = lazy(lambda m: iteration_rows(m.timed))
    """The iterations of a serving engine; empty where nothing marks one."""
    served = lazy(lambda m: Served.of(m.rated))
    """The iterations on tapes; None where nothing marks one, or without launches or device work."""
    faithful_server = lazy(
        lambda m: m.served if m.served is not None and m.served.faithful and not m.doubt else None
    )
    """`served` where its replay takes as long as the recording did."""
    gap_histogram = lazy(
        lambda m: gap_histogram(m.timed, m.causes.gaps)
    )  # gaps of the steady state by length
    gap_places = lazy(
        lambda m: gap_places(m.causes, left=m.idle_left)
    )  # idle time of the steady state by cause and place
    syncs = lazy(
        lambda m: sync_rows(m.timed, m.causes.gaps, m.phases, m.idle_left)
    )  # places that wait for the device
    class_rows = lazy(lambda m: class_stats(m.timed))  # device time by class of work
    kernels = lazy(lambda m: kernel_stats(m.rated))  # kernels by name
    ops = lazy(lambda m: op_stats(m.rated))  # operators by name
    ops_by_shape = lazy(
        lambda m: op_stats(m.rated, by_shape=True)
    )  # operators by name and input shapes
    shape_rows = lazy(
        lambda m: shape_rows(m.timed)
    )  # operators whose input shapes change from step to step
    range_rows = lazy(
        lambda m: range_rows(m.timed)
    )  # NVTX ranges with a domain, a category or a payload
    copies = lazy(lambda m: copy_stats(m.timed))  # memory copies by direction and kind of memory

    @cached_property
    def collectives(self) -> "list[CollectiveStats]":
        """Collectives by kind, group and size, their waiting apart where the ranks were
        recorded."""
        if not self.peers:
            return collective_stats(self.timed)
        matches = self.matches
        if matches is None:
            matches = match_collectives([one.timed.memo(digest_of) for one in self.together])
        return collective_stats(self.timed, matches.arrived(self.together.index(self.rated)))

    timing = lazy(lambda m: timings.timing_stats(m.trace.step_timings, m.trace.logged_means))
    """The program's own step times; None without a timing log."""
    serving = lazy(lambda m: served_load(m.trace))
    """A server under load; None where neither its log nor a benchmark's summary was given."""
    said_unprofiled = lazy(lambda m: timings.unprofiled_time(m.trace))
    """The step without the profiler as the capture says, whether or not the recording agrees."""

    @cached_property
    def unprofiled_time(self) -> timings.UnprofiledTime | None:
        """The step timed without the profiler; None where it was not, or where recorded steps
        contradict it."""
        timed = self.said_unprofiled
        log = self.timed.memo(found_in_log) if timed is None else None
        if log is not None and log.stretch is not None:
            if any(row.phase != "decode" for row in self.iterations):
                return None
            time = self.mean_step_ms / log.stretch  # the mean iteration, as the server's log has it
            timed = timings.UnprofiledTime(
                time, time * (1.0 - MEASURED_SPREAD), time * (1.0 + MEASURED_SPREAD)
            )
        if timed is None or not self.timed.steps.found:
            return None
        fed = self.trace.may_have_waited_for_workers
        other = timings.contradicted(timed, self.mean_step_ms) and not fed
        return None if other else timed

    @cached_property
    def timed_step(self) -> timings.UnprofiledTime | None:
        """The step timed without the profiler; where nothing can be replayed, that of unsteady
        steps, too: a replay that is far off says less of it."""
        timed = self.unprofiled_time
        stopwatch = self.trace.stopwatch
        if timed is not None or stopwatch is None or self.faithful_replay is not None:
            return timed
        fed = self.trace.may_have_waited_for_workers
        if not self.timed.steps.found or not only_unsteady(stopwatch, self.trace.light, fed=fed):
            return None
        unsteady = timings.by_capture(stopwatch.step_ns, stopwatch)
        return None if timings.contradicted(unsteady, self.mean_step_ms) else unsteady

    @cached_property
    def unsteady_step_ms(self) -> float | None:
        """The median of unsteady steps timed without the profiler, where the report speaks of an
        estimate that is far from it; None otherwise."""
        stopwatch = self.trace.stopwatch
        fed = self.trace.may_have_waited_for_workers
        estimated = self.timed_step is None and self.step.basis == "unprofiled"
        if stopwatch is None or stopwatch.steady or stopwatch.roughly or not estimated:
            return None
        settled = replace(stopwatch, roughly=True)
        if contradiction(settled, self.trace.light, fed=fed) is not None:
            return None
        median_ms = stopwatch.step_ns / NS_PER_MS
        low_ms, high_ms = median_ms / FAR_OFF, median_ms * FAR_OFF
        return None if low_ms <= self.step.step_ms <= high_ms else median_ms

    kinds = lazy(
        lambda m: timings.kinds_of_steps(m.steady_durations) if m.timed.steps.found else None
    )
    """Two kinds of steady recorded steps, where there are; None where they are alike."""
    concurrent_kernel_share = lazy(lambda m: concurrent_kernel_share(m.timed))
    """Share of the kernels' time in which two or more run."""
    conditions = lazy(lambda m: [*m.trace.conditions, *seen_conditions(m.rated)])
    """Under which conditions it was recorded: as the capture states, and as the trace shows."""
    loading = lazy(lambda m: loading(m.timed, m.budgets))  # how input is loaded; None where none is
    first_steps = lazy(
        lambda m: first_steps(m.timed)
    )  # the slow first steps of the process; None where none is known
    counters = lazy(lambda m: gpu_counters(m.timed))
    """Counters of the GPU that were sampled in the steady steps; None without any."""
    counter_rows = lazy(lambda m: counter_stats(m.timed))  # sampled counters one by one
    regularity = lazy(lambda m: timings.recorded_regularity(m.timed, m.budgets))
    """How regular the steady recorded steps are; None where there are too few."""
    latency = lazy(lambda m: timings.latency(m.timed))  # latency of the requests of an inference
    roofline_step = lazy(
        lambda m: roofline_step(m.rated)
    )  # the step against what the GPU can do at most

    @cached_property
    def profiled(self) -> Profiled | None:
        """The sums of a profiler's printed table; None where the recording is something else."""
        gpus = {
            device.id: self.linked.knowledge.hardware.find(device) for device in self.trace.devices
        }
        return profiled(self.trace.profiler_rows, self.linked.classes, gpus)

    throughput = lazy(lambda m: throughput(m.rated, m.step, m.roofline_step, m.program, m.timing))
    """Work per second; None without steps."""
    utilisation = lazy(lambda m: utilisation(m.rated, m.step, m.roofline_step, m.mean_step_ms))
    """How much of the hardware a step uses; None without steps or device work."""
    modules = lazy(lambda m: module_stats(m.rated))
    """The step by module of the model; empty where no calls of modules were recorded."""

    @cached_property
    def phase_rows(self) -> "list[PhaseStats]":
        """Phases by name."""
        left = self.idle_left
        idle = None if left is None else PhaseIdle(self.causes.gaps, left)
        return phase_stats(self.timed, self.phases, idle)

    phase_times = lazy(lambda m: phase_times(m.timed, m.phases))
    """The step by what its work is for; None where nothing tells."""


def nothing_to_replay(m: Measurements) -> EmptyRecordingError:
    """The error of a recording that cannot be replayed."""
    if m.why_not_replayed == MIGRATES:
        return EmptyRecordingError(f"{m.trace.path}: nothing to replay: {MIGRATES}")
    need = "it needs API calls and the device work that they launch; record CPU and CUDA activities"
    return EmptyRecordingError(f"{m.trace.path}: nothing to replay: {need}")
