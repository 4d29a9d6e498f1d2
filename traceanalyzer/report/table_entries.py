"""The tables there are: one list, which the report, the commands, the schemas, the page and the documentation read.

An entry names the class of its rows, so that `--help` lists the commands before anything that measures is loaded.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from traceanalyzer.base import dataclass

if TYPE_CHECKING:
    from traceanalyzer.diagnosis.measurements import Measurements
    from traceanalyzer.diagnosis.selection import Measured


@dataclass(frozen=True)
class RowFilter:
    """Which rows of a table are asked for."""

    top: int | None = None
    """The first rows, of single events the longest; None: all."""
    min_us: float = 0.0
    """Gaps of at least this length."""
    by_shape: bool = False
    """Operators by name and input shapes, instead of by name."""
    acceptance: float | None = None
    """The share of guessed tokens that is right, which is asked about."""
    draft_tokens: int = 4
    """Guessed tokens a request of that question."""


@dataclass(frozen=True)
class Command:
    """The command that prints all of a table, and its `--help`."""

    name: str
    short: str
    title: str
    examples: tuple[str, ...]
    """What is typed behind the command's name."""
    about: str

    @property
    def help(self) -> str:
        """The text of `--help`, as click formats it."""
        typed = "".join(f"\n  traceanalyzer {self.name} {one}" for one in self.examples)
        return f"{self.title}\n\n\b\nExamples:{typed}\n\n{' '.join(self.about.split())}"


@dataclass(frozen=True)
class Summary:
    """What a table's command has besides its rows: figures for programs, sentences for people."""

    values: dict[str, Any]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table of measurements."""

    name: str
    """Its key in the report's `tables` and in documents."""
    title: str
    row_class: str
    """The dataclass of its rows, below the package."""
    rows: "Callable[[Measured, Measurements, RowFilter], list[Any]]"
    """Its rows for one rank of a measured run; more than are asked for do no harm."""
    none: str
    """What takes the place of rows where there are none."""
    command: Command | None = None
    long: bool = False
    """Whether a report has its first rows only."""
    of_every_rank: bool = False
    """Whether the command shows all ranks unless one is asked for; else the critical rank's."""
    totals: str | None = None
    """The table that sums it up, which people are shown below its rows."""
    summary: "Callable[[Measured | None, RowFilter], Summary] | None" = None
    """What its command has besides the rows; None: there are no rows."""
    events: str | None = None
    """The column by which its rows, single events in time order, are longest; None: rows are in order of worth."""

    @property
    def row(self) -> type[Any]:
        """The dataclass of its rows: its columns, also where there are no rows."""
        module, _, name = self.row_class.rpartition(".")
        return getattr(import_module(f"traceanalyzer.{module}"), name)

    @property
    def asked_as(self) -> str:
        """The word by which users ask for it: its command's name, else its own."""
        return self.name if self.command is None else self.command.name


def _gaps(_: "Measured", m: "Measurements", wanted: RowFilter) -> list[Any]:
    from traceanalyzer.analysis.tables.gap_rows import longest_gaps

    return longest_gaps(m.causes, wanted.top, wanted.min_us)


def _serving(of: "Measured | None", wanted: RowFilter) -> Summary:
    from traceanalyzer.diagnosis.serving.sentences import sentences, serving_values

    if of is None:
        return Summary(dict.fromkeys(("server", "phases", "decode_fit", "outlook", "speculation", "profiler_stretch")))
    m = of.critical
    guesses = None if wanted.acceptance is None else (wanted.draft_tokens, wanted.acceptance)
    return Summary(serving_values(m, guesses), tuple(sentences(m, guesses)))


def _gap_places(m: "Measurements", min_us: float) -> list[Any]:
    """Idle time by place, of gaps of at least that length."""
    if not min_us:
        return m.gap_places
    from traceanalyzer.analysis.tables.gap_places import gap_places

    return gap_places(m.timed, m.causes.gaps, min_us)


def _traffic(of: "Measured", _: "Measurements", __: RowFilter) -> list[Any]:
    from traceanalyzer.analysis.ranks.point_to_point import traffic

    return list(traffic([m.timed for m in of.each]))


TABLES = (
    Table(
        "ranks", "Ranks", "analysis.ranks.compare.RankRow",
        lambda of, _, __: [of.ranks.rows[i] for i in of.ranks.worst_first] if len(of.ranks.rows) > 1 else [],
        "One rank was recorded.",
    ),
    Table(
        "steps", "Steps", "analysis.tables.budget.StepRow",
        lambda _, m, __: m.step_rows if m.timed.steps.found else [],
        "No steps in this recording.",
        of_every_rank=True, events="duration_ms",
        command=Command(
            "steps", "List the steps with their budgets.",
            "List the recorded steps, each with the budget of its time.",
            ("trace.json.gz", "rank*.json.gz --rank 3 --format csv"),
            """A row is a step: its wall-clock time, and how that divides into compute, communication and copies that do
            not overlap with compute (exposed), and idle time, with the largest cause of that. Warm-up steps are left
            out of the steady state that all other figures of the tool are means of.""",
        ),
    ),
    Table(
        "iterations", "Iterations of the serving engine", "analysis.serving.rows.IterationRow",
        lambda _, m, __: m.iterations,
        "Nothing marks the iterations of a serving engine here: their unit is unknown. --iteration-name REGEX names "
        "the ranges that are one iteration each.",
        long=True, summary=_serving,
        command=Command(
            "iterations", "List a server's iterations: batch, phase, GPU time, gaps.",
            "List the iterations of an inference server, each with its batch and what it cost.",
            ("trace.json.gz", "trace.json.gz server.log --format json",
             "trace.json.gz --acceptance 0.7 --draft-tokens 4", "run.sqlite --iteration-name '^forward'"),
            """A row is one iteration of vLLM, SGLang, TensorRT-LLM or ATOM by the engine's own mark, cut by the GPU
            work that it launched: the CPU runs ahead, so marks and GPU work lie apart. A gap is GPU idle time before
            the next iteration, with what the CPU did in most of it. With the server's log (vLLM
            --enable-logging-iteration-details, TensorRT-LLM print_iter_log) rows have its times, too. With a recording
            of the capture of its CUDA graphs their kernels have operators (all tables: `ops TRACE CAPTURE`); one that
            lies near it (`graph_capture_rank_0...`, `capture_32_FULL...`, also in `capture_traces/`) is found.""",
        ),
    ),
    Table(
        "critical_path", "What carries the critical path", "analysis.tables.path_rows.PathRow",
        lambda _, m, __: m.path,
        "No device work in this recording: it has no critical path.",
        long=True,
        command=Command(
            "path", "Show the critical path: what the step really waits for.",
            "List what carries the critical path: the one chain of causes that is as long as the step.",
            ("trace.json.gz", "trace.json.gz --top 10 --format json"),
            """Walked back from the end of the steady state: from each device op to what it waited for last (its launch,
            the op before it on its stream, an op of another stream), from a launch along the CPU to the last sync, and
            through that to the GPU again. Each moment of the step belongs to one segment, whose kind is one of compute,
            communication, copy, launch (dispatch, launch calls, latency), wait (from the end of the work that a sync
            waited for until the CPU went on, and operators that only read a value), input, host, profiler, other. What
            is not listed is hidden behind the path.""",
        ),
    ),
    Table(
        "phases", "Phases of the step", "analysis.tables.phases.PhaseStats",
        lambda _, m, __: m.phase_rows,
        "No phases in this recording: neither annotations nor autograd tell them.",
        command=Command(
            "phases", "Split the step into forward, backward, optimizer, data.",
            "List the phases of the step: forward, backward, optimizer, data loading, logging, checkpoints.",
            ("trace.json.gz", "trace.json.gz --columns name,device_ms,waits"),
            """A row is a range that the program or a library annotated (record_function, NVTX, Optimizer.step); where
            nothing is annotated, autograd tells forward, backward and optimizer. Device time is that of the work
            launched in it, whenever it ran; GPU idle is how long the GPU had nothing to do while the CPU was in it.
            `comm` has collectives, `metrics.communication` the tail behind the backward pass.""",
        ),
    ),
    Table(
        "modules", "Modules of the model", "analysis.tables.modules.ModuleStats",
        lambda _, m, __: m.modules,
        "No calls of modules in this recording: collect torch names them; so do stacks and annotations.",
        long=True,
        command=Command(
            "modules", "List the model's modules with their GPU time.",
            "List the modules of the model: GPU time forward and backward, traffic, FLOPs, what bounds them.",
            ("trace.json.gz", "trace.json.gz --sort self_ms --top 10"),
            """A row is a class of modules at one place of the model (all twelve layers of a stack are one row), with
            the modules inside it. The backward pass counts for the module whose forward pass made it. Needs a recording
            of collect torch or with stacks, or ranges around the modules. `kernels` and `ops` name the module, too.""",
        ),
    ),
    Table(
        "gaps", "Longest idle gaps", "analysis.tables.gap_rows.GapRow",
        _gaps,
        "The GPU has no idle gap of that length in this recording.",
        long=True, of_every_rank=True, events="duration_ns", totals="gap_places",
        command=Command(
            "gaps", "List the GPU's idle gaps, each with its cause.",
            "List the stretches in which a GPU had no work, each with its cause.",
            ("trace.json.gz --min-us 100", "trace.json.gz --by time", "trace.json.gz --all --format json"),
            """A gap lies between two device ops of one GPU, with no kernel, copy or memset on any of its streams. Its
            cause is one of: launch (the CPU launched too slowly), sync (the CPU had blocked on the GPU, so nothing was
            queued), input (loading data), host (other work of the CPU), communication, profiler, other (the recording
            does not tell). People are shown the longest first, and what they are in all; programs get them in time
            order.""",
        ),
    ),
    Table(
        "gap_places", "Idle time by place", "analysis.tables.gap_places.GapPlaceRow",
        lambda _, m, wanted: _gap_places(m, wanted.min_us),
        "The GPU has no idle gap in the steps of this recording.",
        long=True, of_every_rank=True,
    ),
    Table(
        "gap_histogram", "Idle gaps by length", "analysis.tables.gap_rows.GapHistogramRow",
        lambda _, m, __: m.gap_histogram,
        "The GPU has no idle gap in this recording.",
    ),
    Table(
        "syncs", "Waits for the device", "analysis.tables.syncs.SyncRow",
        lambda _, m, __: m.syncs,
        "The CPU never blocks on the GPU in this recording.",
        long=True, of_every_rank=True,
        command=Command(
            "syncs", "List the places where the CPU blocks on the GPU.",
            "List the places in the program where the CPU blocks on the GPU.",
            ("trace.json.gz", "trace.json.gz --top 5 --format json"),
            """A row is a place: the API call, the operators around it, and the Python frame where stacks were recorded.
            How long the CPU waits says little, because waiting for a busy GPU costs nothing; GPU idle is the time that
            the GPU stood still because the sync had emptied its queue. Rows come by that; benign ones cost next to
            nothing.""",
        ),
    ),
    Table(
        "kernel_classes", "Device time by kind of work", "analysis.tables.kernels.ClassStats",
        lambda _, m, __: m.class_rows,
        "No kernels in this recording.",
    ),
    Table(
        "kernels", "Kernels by device time", "analysis.tables.kernels.KernelStats",
        lambda _, m, __: m.kernels,
        "No kernels in this recording.",
        long=True,
        command=Command(
            "kernels", "List GPU kernels by device time.",
            "List the GPU's kernels by name, most device time first.",
            ("trace.json.gz --top 20", "trace.json.gz --step 12 --format markdown"),
            """A row is a kernel in a mean steady step: calls, total time (kernels may run at the same time, so totals
            may sum to more than the step), the distribution of its durations, its class (gemm, attention, elementwise,
            ...), and the operator that launches most of its calls.""",
        ),
    ),
    Table(
        "ops", "Operators", "analysis.tables.ops.OpStats",
        lambda _, m, wanted: m.ops_by_shape if wanted.by_shape else m.ops,
        "No operators in this recording.",
        long=True,
        command=Command(
            "ops", "List operators by their device and host time.",
            "List the framework's operators, with their time on the CPU and on the GPU.",
            ("trace.json.gz --top 20", "trace.json.gz --by-shape", "trace.json.gz --sort memory -o ops.csv"),
            """A row is an operator (aten::mm, an annotation) in a mean steady step. Device time is that of the kernels
            and copies it launched: itself (self), or with the operators it calls (total). Host self time leaves out the
            operators and API calls inside it. Kernels without a recorded operator have their own row. With --sort
            memory a row is what an operator allocates and frees in a step, and what it holds at the peak.""",
        ),
    ),
    Table(
        "shapes", "Operators whose shapes change from step to step", "analysis.tables.shape_rows.ShapeRow",
        lambda _, m, __: m.shape_rows,
        "Every step has the same shapes, or none were recorded (record_shapes=True).",
        long=True,
        command=Command(
            "shapes", "List operators whose input shapes change.",
            "List the operators whose input shapes change from step to step, with the shapes.",
            ("trace.json.gz", "trace.json.gz --format csv"),
            """A row is an operator with GPU work whose inputs are not the same in every steady step: the shapes of its
            largest input and in how many steps it has each, how many elements that are at least, in the middle and at
            most, and its GPU time in the shortest and in the longest step. Padding or bucketing to few shapes helps
            cuDNN's autotuning, torch.compile and the allocator; lengths that differ much waste padding.""",
        ),
    ),
    Table(
        "counters", "Sampled counters of the GPU", "analysis.tables.devices.CounterStats",
        lambda _, m, __: m.counter_rows,
        "No counters were sampled (nsys profile --gpu-metrics-devices=all does).",
        command=Command(
            "counters", "List the GPU counters that were sampled.",
            "List the counters of the GPU that the recorder sampled during the steady steps.",
            ("run.sqlite", "run.sqlite --format csv"),
            """A row is a counter of a GPU: its mean over the steps (idle time included), its mean while the GPU had
            work, and the largest sample. They come from nsys profile --gpu-metrics-devices=all. `kernels` and `steps`
            have the same counters by kernel and step; a kernel shorter than the sampling period is unsampled.""",
        ),
    ),
    Table(
        "profiled", "The profiler's table", "analysis.tables.profiled.ProfiledRow",
        lambda _, m, __: m.profiled.rows if m.profiled else [],
        "The recording is no printed table of sums.",
        long=True,
    ),
    Table(
        "copies", "Memory copies", "analysis.tables.copies.CopyStats",
        lambda _, m, __: m.copies,
        "No memory copies in this recording.",
        command=Command(
            "copies", "List memory copies with their bandwidth.",
            "List the memory copies by direction, kind of memory and size.",
            ("trace.json.gz", "trace.json.gz --device 1 --format csv"),
            """A row is one sort of copy in a mean steady step: bytes, time, the bandwidth achieved, the part of the
            time that does not overlap with compute or collectives (exposed), and whether the CPU waits for it. Copies
            from or to pageable host memory are slow and block the CPU.""",
        ),
    ),
    Table(
        "memory", "GPU memory at its peak, by line", "analysis.memory.measure.Site",
        lambda _, m, __: [site for device in m.memory_of_devices for site in device.sites],
        "No memory snapshot in this recording.",
        long=True,
    ),
    Table(
        "op_memory", "Operators by GPU memory", "analysis.tables.op_memory.OpMemory",
        lambda _, m, __: m.op_memory,
        "No allocator events in this recording.",
        long=True,
    ),
    Table(
        "collectives", "Collectives", "analysis.tables.collectives.CollectiveStats",
        lambda _, m, __: m.collectives,
        "No collectives in this recording.",
        command=Command(
            "comm", "List collectives with overlap and bandwidth.",
            "List the collectives by kind, process group and message size.",
            ("rank*.json.gz", "trace.json.gz --rank 0 --format json"),
            """A row is one sort of collective in a mean steady step: time of its kernels (waiting for other ranks
            included), the part that does not overlap with compute (exposed), and bandwidth where the recording tells
            the size: algorithm bandwidth is message bytes over time, bus bandwidth the same scaled by NCCL's factor for
            the number of ranks, which compares with a link's speed.""",
        ),
    ),
    Table(
        "skew", "Collectives across ranks: transfer and waiting", "analysis.ranks.skew.CollectiveSkew",
        lambda of, _, __: list(of.ranks.collectives),
        "No collectives that several recorded ranks share.",
    ),
    Table(
        "traffic", "Traffic between ranks", "analysis.ranks.point_to_point.TrafficRow",
        _traffic,
        "No send or receive that says its peer in this recording.",
    ),
    Table(
        "nvtx", "NVTX ranges by domain and category", "analysis.tables.modules.RangeRow",
        lambda _, m, __: m.range_rows,
        "No NVTX range has a domain, a category or a payload.",
        long=True,
    ),
    Table(
        "load", "Load while the program ran", "trace.circumstances.Load",
        lambda _, m, __: list(m.trace.loads),
        "No load was sampled (collect --nvml SECONDS does).",
    ),
    Table(
        "conditions", "Conditions of the recording", "trace.circumstances.Condition",
        lambda _, m, __: m.conditions,
        "No conditions were recorded.",
    ),
)  # fmt: skip
"""Every table, in the report's order; those with a command in the order of `--help`."""

BY_NAME = {table.name: table for table in TABLES}
BY_COMMAND = {table.command.name: table for table in TABLES if table.command}


def named(name: str) -> Table:
    """The table of that name, or that the command of that name prints. Raises ValueError, naming what there is."""
    table = BY_COMMAND.get(name) or BY_NAME.get(name)
    if table is None:
        without_command = [one.name for one in TABLES if one.command is None]
        raise ValueError(f"there is no table {name!r}; tables: {', '.join([*BY_COMMAND, *without_command])}")
    return table
