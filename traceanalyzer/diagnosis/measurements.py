"""Everything measured of one process, in the order of the pipeline: the list of measurements there are."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.critical_path import path_parts
from traceanalyzer.analysis.causes.started import Started
from traceanalyzer.analysis.groups.input_loading import Loading, loading
from traceanalyzer.analysis.groups.seen_conditions import seen_conditions
from traceanalyzer.analysis.groups.step_times import Latency, latency, recorded_regularity
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.joined.memo import Memo
from traceanalyzer.analysis.memory.stats import stats_of_events, stats_of_snapshot
from traceanalyzer.analysis.phases.roles import Phases, PhaseTimes, find_phases, phase_times
from traceanalyzer.analysis.phases.training import ProgramStats, program_stats
from traceanalyzer.analysis.ranks.compare import why_not_one_run
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.analysis.serving.rows import IterationRow, iteration_rows
from traceanalyzer.analysis.tables.budget import StepBudgets, StepRow, step_budgets, step_rows
from traceanalyzer.analysis.tables.collectives import (
    CollectiveStats,
    CommunicationTime,
    collective_stats,
    communication_time,
)
from traceanalyzer.analysis.tables.copies import CopyStats, copy_stats
from traceanalyzer.analysis.tables.counter_rows import CounterStats, GpuCounters, counter_stats, gpu_counters
from traceanalyzer.analysis.tables.devices import DeviceTotals, device_totals
from traceanalyzer.analysis.tables.gap_places import GapPlaceRow, gap_places
from traceanalyzer.analysis.tables.gap_rows import GapHistogramRow, gap_histogram
from traceanalyzer.analysis.tables.host import HostStats, host_stats
from traceanalyzer.analysis.tables.kernels import ClassStats, KernelStats, class_stats, kernel_stats
from traceanalyzer.analysis.tables.launches import LaunchStats, measure_launches
from traceanalyzer.analysis.tables.modules import ModuleStats, module_stats
from traceanalyzer.analysis.tables.op_memory import OpMemory, op_memory
from traceanalyzer.analysis.tables.ops import OpStats, op_stats
from traceanalyzer.analysis.tables.path_rows import PathRow, PathTime, path_tables
from traceanalyzer.analysis.tables.phases import PhaseStats, phase_stats
from traceanalyzer.analysis.tables.profiled import Profiled, profiled
from traceanalyzer.analysis.tables.range_rows import RangeRow, range_rows
from traceanalyzer.analysis.tables.roofline_step import RooflineStep, roofline_step
from traceanalyzer.analysis.tables.shape_rows import ShapeRow, shape_rows
from traceanalyzer.analysis.tables.step_metrics import (
    Budget,
    Idle,
    Step,
    StepTime,
    Unprofiled,
    mean_budget,
    mean_idle,
    step_time,
)
from traceanalyzer.analysis.tables.step_parts import StepPart, step_parts
from traceanalyzer.analysis.tables.syncs import SyncRow, sync_rows
from traceanalyzer.analysis.tables.throughput import Throughput, Utilisation, throughput, utilisation
from traceanalyzer.analysis.tables.timing import (
    StepKinds,
    TimingStats,
    UnprofiledTime,
    contradicted,
    kinds_of_steps,
    timing_stats,
    unprofiled_time,
)
from traceanalyzer.analysis.time.concurrency import concurrent_kernel_share
from traceanalyzer.analysis.time.coverage import Coverage, coverage
from traceanalyzer.analysis.time.repeats import Repeats, repeats
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base.figures import NS_PER_MS
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.replay.replayed_path import replayed_path_time
from traceanalyzer.replay.unprofiled import partition, with_recorded_causes
from traceanalyzer.replay.whatif import MEASURED_SPREAD, Replay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.analysis.memory.measure import MemoryOfDevice
    from traceanalyzer.analysis.memory.stats import MemoryStats
    from traceanalyzer.analysis.ranks.compare import RankComparison
    from traceanalyzer.analysis.time.regularity import Regularity
    from traceanalyzer.trace import Condition, Trace


def measure(trace: Trace, knowledge: Knowledge | None = None, only_step: int | None = None) -> Measurements:
    """The measurements of one recording."""
    timed = Timed(Joined(Linked(trace, knowledge or Knowledge())), only_step)
    return Measurements(Rated(Causes(Started(timed))))


def measure_ranks(
    traces: Sequence[Trace], knowledge: Knowledge | None = None, only_step: int | None = None
) -> list[Measurements]:
    """The measurements of each of several recordings; the ranks of one run know each other."""
    measured = [measure(trace, knowledge, only_step) for trace in traces]
    if why_not_one_run(traces):
        return measured
    rated = [one.rated for one in measured]
    return [replace(one, peers=(*rated[:i], *rated[i + 1 :])) for i, one in enumerate(measured)]


@dataclass(frozen=True, eq=False)
class Measurements(Memo):
    """The measurements of a process, each made when first asked for. Lists of rows are in display order."""

    rated: Rated
    peers: tuple[Rated, ...] = ()
    """The other ranks of its run."""
    ranks: RankComparison | None = None
    """The ranks that it is reported with, compared; None where it was measured alone."""

    @property
    def trace(self) -> Trace:
        """The recording."""
        return self.timed.trace

    @property
    def linked(self) -> Linked:
        """The joins of its rows."""
        return self.timed.linked

    @property
    def joined(self) -> Joined:
        """The joins made from these."""
        return self.timed.joined

    @property
    def timed(self) -> Timed:
        """The same in time."""
        return self.rated.timed

    @property
    def causes(self) -> Causes:
        """Why the devices were idle."""
        return self.rated.causes

    @property
    def started(self) -> Started:
        """What each device op needed to start."""
        return self.causes.started

    @cached_property
    def coverage(self) -> Coverage:
        """Which part of the recording its steps are."""
        return coverage(self.timed)

    @cached_property
    def repeats(self) -> Repeats | None:
        """What repeats within a step."""
        return repeats(self.timed)

    @cached_property
    def budgets(self) -> StepBudgets | None:
        """Budget of each step on the device with the most work; None without device work."""
        return None if self.timed.device is None else step_budgets(self.timed, self.causes.gaps, self.timed.device)

    @cached_property
    def step_time(self) -> StepTime | None:
        """Distribution of the steady-state step times; None without steps."""
        return step_time(self.timed.steps)

    @cached_property
    def budget(self) -> Budget | None:
        """Mean budget of a steady-state step."""
        return None if self.budgets is None else mean_budget(self.budgets, self.timed.steps.steady)

    @cached_property
    def step_parts(self) -> list[StepPart]:
        """The mean steady step in its smallest named parts."""
        return step_parts(self.timed, self.causes.gaps)

    @cached_property
    def idle(self) -> Idle | None:
        """Mean idle time of a steady-state step by cause."""
        return None if self.budgets is None else mean_idle(self.budgets, self.timed.steps.steady)

    @cached_property
    def mean_step_ms(self) -> float:
        """Mean time of a steady-state step (of the whole recording without steps), ms."""
        steps = self.timed.steps
        return float(steps.duration[steps.steady].mean()) / NS_PER_MS

    @cached_property
    def communication(self) -> CommunicationTime | None:
        """Communication of a step on the device with the most work."""
        return None if self.timed.device is None else communication_time(self.timed, self.timed.device, self.phases)

    @cached_property
    def launches(self) -> LaunchStats | None:
        """Launching of device work."""
        return measure_launches(self.timed)

    @cached_property
    def memory_of_devices(self) -> tuple[MemoryOfDevice, ...]:
        """GPU memory as the snapshot beside the trace tells; empty without one."""
        if self.trace.memory is None:
            return ()
        from traceanalyzer.analysis.memory.measure import measured

        sizes = {device.id: device.memory_bytes for device in self.trace.devices if device.memory_bytes}
        return measured(self.trace.memory, capacity=sizes)

    @cached_property
    def memory(self) -> MemoryStats | None:
        """GPU memory in single figures; None where none was recorded."""
        if self.memory_of_devices:
            return stats_of_snapshot(self.memory_of_devices)
        return stats_of_events(self.trace.memory_events)

    @cached_property
    def op_memory(self) -> list[OpMemory]:
        """Operators by the GPU memory that they allocate; empty without allocator events."""
        return op_memory(self.timed)

    @cached_property
    def host(self) -> HostStats | None:
        """How busy the launching threads are."""
        return host_stats(self.timed)

    @cached_property
    def replay(self) -> Replay | None:
        """The steady steps ready to be replayed; None without steps, launches or device work."""
        return Replay.of(self.rated, self.unprofiled_time, self.peers)

    @cached_property
    def unprofiled(self) -> Unprofiled | None:
        """The step without the profiler, taken apart; None where it was neither measured nor can be replayed."""
        return unprofiled_step(self)

    @cached_property
    def step(self) -> Step:
        """The step that verdict, findings and advice speak of."""
        known = self.unprofiled
        if known is None:
            return Step("recorded", self.mean_step_ms, self.budget, self.idle)
        return Step("unprofiled", known.step_time_ms, known.budget_ms, known.idle_ms)

    @cached_property
    def path_time(self) -> PathTime | None:
        """The critical path of a step by kind; None without device work."""
        return self.path_tables[0]

    @cached_property
    def unprofiled_path_time(self) -> PathTime | None:
        """The critical path of the step replayed without the profiler; None where no cost of it is known, or where the
        replay is too far from the recording."""
        replay = self.replay
        if replay is None or not replay.faithful:
            return None
        return replayed_path_time(replay.typical, replay.scale)

    @cached_property
    def path(self) -> list[PathRow]:
        """What carries the critical path."""
        return self.path_tables[1]

    @cached_property
    def path_tables(self) -> tuple[PathTime | None, list[PathRow]]:
        """Both tables of the critical path, made from one part of it after the other: it has more segments than there
        is of anything else."""
        return path_tables(self.timed, path_parts(self.started))

    @cached_property
    def devices(self) -> list[DeviceTotals]:
        """What each device did over the whole recording."""
        return device_totals(self.timed)

    @cached_property
    def step_rows(self) -> list[StepRow]:
        """The steps one by one."""
        return step_rows(self.timed, self.budgets)

    @cached_property
    def iterations(self) -> list[IterationRow]:
        """The iterations of a serving engine; empty where nothing marks one."""
        return iteration_rows(self.timed)

    @cached_property
    def gap_histogram(self) -> list[GapHistogramRow]:
        """Gaps of the steady state by length."""
        return gap_histogram(self.timed, self.causes.gaps)

    @cached_property
    def gap_places(self) -> list[GapPlaceRow]:
        """Idle time of the steady state by cause and place."""
        return gap_places(self.timed, self.causes.gaps)

    @cached_property
    def syncs(self) -> list[SyncRow]:
        """Places that wait for the device."""
        return sync_rows(self.timed, self.causes.gaps, self.phases)

    @cached_property
    def class_rows(self) -> list[ClassStats]:
        """Device time by class of work."""
        return class_stats(self.timed)

    @cached_property
    def kernels(self) -> list[KernelStats]:
        """Kernels by name."""
        return kernel_stats(self.rated)

    @cached_property
    def ops(self) -> list[OpStats]:
        """Operators by name."""
        return op_stats(self.rated)

    @cached_property
    def ops_by_shape(self) -> list[OpStats]:
        """Operators by name and input shapes."""
        return op_stats(self.rated, by_shape=True)

    @cached_property
    def shape_rows(self) -> list[ShapeRow]:
        """Operators whose input shapes change from step to step."""
        return shape_rows(self.timed)

    @cached_property
    def range_rows(self) -> list[RangeRow]:
        """NVTX ranges with a domain, a category or a payload."""
        return range_rows(self.timed)

    @cached_property
    def copies(self) -> list[CopyStats]:
        """Memory copies by direction and kind of memory."""
        return copy_stats(self.timed)

    @cached_property
    def collectives(self) -> list[CollectiveStats]:
        """Collectives by kind, group and size."""
        return collective_stats(self.timed)

    @cached_property
    def timing(self) -> TimingStats | None:
        """The program's own step times; None without a timing log."""
        return timing_stats(self.trace.step_timings)

    @cached_property
    def said_unprofiled(self) -> UnprofiledTime | None:
        """The step without the profiler as the capture says, whether or not the recording agrees."""
        return unprofiled_time(self.trace)

    @cached_property
    def unprofiled_time(self) -> UnprofiledTime | None:
        """The step timed without the profiler; None where it was not, or where recorded steps contradict it."""
        timed = self.said_unprofiled
        if timed is None or not self.timed.steps.found:
            return None
        other = contradicted(timed, self.mean_step_ms) and not self.trace.fed_by_workers
        return None if other else timed

    @cached_property
    def kinds(self) -> StepKinds | None:
        """Two kinds of steady recorded steps, where there are; None where they are alike."""
        return kinds_of_steps(self.timed.steps.duration[self.timed.steps.steady]) if self.timed.steps.found else None

    @cached_property
    def concurrent_kernel_share(self) -> float | None:
        """Share of the kernels' time in which two or more run."""
        return concurrent_kernel_share(self.timed)

    @cached_property
    def conditions(self) -> list[Condition]:
        """Under which conditions it was recorded: as the capture states, and as the trace shows."""
        return [*self.trace.conditions, *seen_conditions(self.rated)]

    @cached_property
    def loading(self) -> Loading | None:
        """How input is loaded; None where none is."""
        return loading(self.timed, self.budgets)

    @cached_property
    def counters(self) -> GpuCounters | None:
        """Counters of the GPU that were sampled in the steady steps; None without any."""
        return gpu_counters(self.timed)

    @cached_property
    def counter_rows(self) -> list[CounterStats]:
        """Sampled counters one by one."""
        return counter_stats(self.timed)

    @cached_property
    def regularity(self) -> Regularity | None:
        """How regular the steady recorded steps are; None where there are too few."""
        return recorded_regularity(self.timed, self.budgets)

    @cached_property
    def latency(self) -> Latency | None:
        """Latency of the requests of an inference."""
        return latency(self.timed)

    @cached_property
    def roofline_step(self) -> RooflineStep | None:
        """The step against what the GPU can do at most."""
        return roofline_step(self.rated)

    @cached_property
    def profiled(self) -> Profiled | None:
        """The sums of a profiler's printed table; None where the recording is something else."""
        gpus = {device.id: self.linked.knowledge.hardware.find(device) for device in self.trace.devices}
        return profiled(self.trace.profiler_rows, self.linked.classes, gpus)

    @cached_property
    def throughput(self) -> Throughput | None:
        """Work per second; None without steps."""
        return throughput(self.rated, self.step, self.roofline_step, self.program, self.timing)

    @cached_property
    def utilisation(self) -> Utilisation | None:
        """How much of the hardware a step uses; None without steps or device work."""
        return utilisation(self.rated, self.step, self.roofline_step, self.mean_step_ms)

    @cached_property
    def phases(self) -> Phases:
        """What each operator and device op is for."""
        return find_phases(self.timed)

    @cached_property
    def modules(self) -> list[ModuleStats]:
        """The step by module of the model; empty where no calls of modules were recorded."""
        return module_stats(self.rated)

    @cached_property
    def phase_rows(self) -> list[PhaseStats]:
        """Phases by name."""
        return phase_stats(self.timed, self.phases)

    @cached_property
    def phase_times(self) -> PhaseTimes | None:
        """The step by what its work is for; None where nothing tells."""
        return phase_times(self.timed, self.phases)

    @cached_property
    def program(self) -> ProgramStats | None:
        """What the program does in a step; None where nothing tells."""
        return program_stats(self.timed, self.phases)


def unprofiled_step(m: Measurements) -> Unprofiled | None:
    """The step without the profiler: as the replay has it, else, where the capture timed it, with the recorded work on
    the device and causes as in the recording."""
    timed, replay = m.unprofiled_time, m.replay
    if m.budget is None or m.idle is None or m.timed.device is None:
        return None
    if replay is not None and replay.faithful:
        budget, idle = partition(replay, m.budget, m.timed.device)
        source: Literal["measured", "estimated"] = "estimated" if timed is None else "measured"
        return Unprofiled(replay.base_ms, *replay.range_ms, source, budget, idle)
    if timed is None:
        return None
    low, high = timed.step_ms * (1.0 - MEASURED_SPREAD), timed.step_ms * (1.0 + MEASURED_SPREAD)
    budget, idle = with_recorded_causes(m.budget, m.idle, timed.step_ms)
    return Unprofiled(timed.step_ms, min(low, timed.low_ms), max(high, timed.high_ms), "measured", budget, idle)
