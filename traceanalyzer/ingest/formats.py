"""The formats that can be read, one entry each, in the order in which they are asked.

Detection, what users are told to give, the kinds in the report's schema, the cache, the names of
redacted files and the table of docs/inputs.md follow from these entries. A reader is imported when
those before it did not recognise a file, and not sooner.
"""

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Literal, Protocol

from traceanalyzer.base import dataclass
from traceanalyzer.trace import Trace

STEPS_WITHIN = 200_000
"""Lines of a log within which the first steps have to be: start-up messages of large jobs are some
ten thousands."""

InFolder = Literal["recording", "companion", "printout"]
"""How a folder's file of the format is taken: as a recording; as what goes with a recording, read
where the folder holds nothing else; or as a text printed from a recording, read where it is
named."""


@dataclass(frozen=True)
class FormatSource:
    """What `Trace.source` and a report's `kind` say of a recording."""

    name: str
    suffix: str = ""  # of a file of this source, for names that stand for others in a report
    keeps_model: bool = True
    """Whether the cache may hold its traces: all that they say comes from the one file, and reading
    it takes longer than reading the model."""


class Reader(Protocol):
    """Recognises and reads files of a format."""

    @property
    def name(self) -> str:
        """The format's."""

    def recognise(self, head: bytes, path: Path) -> bool:
        """Whether the file is of this format. `head`: its first bytes, decompressed."""

    def read(self, path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
        """A trace for each process recorded; `progress` is called with the share done, 0 to 1."""


@dataclass(frozen=True)
class Format:
    """A format of recordings; its texts are Markdown for a table."""

    name: str  # its package or module in `ingest`, which has `recognise` and `read`
    sources: tuple[FormatSource, ...]  # of the traces that it gives
    expected: str  # what users are told to give, in a list of all formats
    title: str  # what the files are
    tells: str
    cannot: str  # what they never hold, so that it is `null` in every report on them
    record: str  # how to make one
    per_rank: bool = False
    """Whether a file is one process of a job, as a rule, and does not say which rank it is."""
    in_folder: InFolder = "recording"

    @property
    def module(self) -> ModuleType:
        """The reader's module."""
        return importlib.import_module(f"traceanalyzer.ingest.{self.name}")

    def recognise(self, head: bytes, path: Path) -> bool:
        """Whether the file is of this format. `head`: its first bytes, decompressed."""
        return self.module.recognise(head, path)

    def read(self, path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
        """A trace for each process recorded; `progress` is called with the share done, 0 to 1.
        Raises UnreadableInputError, EmptyRecordingError."""
        return self.module.read(path, progress)

    def repeats(self, path: Path) -> bool:
        """Whether another file in the folder holds the same and is read instead."""
        repeats = getattr(self.module, "repeats", None)
        return repeats is not None and repeats(path)


FORMATS = (
    Format(
        name="kineto",
        sources=(FormatSource("kineto", ".json"),),
        expected="torch.profiler (.json, .json.gz, .pftrace)",
        title="Kineto trace (`.json`, `.json.gz`) of torch.profiler, NVIDIA or AMD",
        tells="everything; the roofline needs shapes, lines of the program need stacks",
        cannot=(
            "what happened outside PyTorch's process and its GPUs; of AMD's GPUs registers, "
            "shared memory and occupancy"
        ),
        record=(
            "`traceanalyzer collect torch -- python train.py`; or "
            "`torch.profiler.profile(record_shapes=True)` and `prof.export_chrome_trace`"
        ),
    ),
    Format(
        name="pftrace",
        sources=(FormatSource("pftrace", ".pftrace"),),
        expected="",  # named with Kineto's
        title="`.pftrace` of torch.profiler",
        tells=(
            "operators, API calls, kernels, waits and graph nodes, shapes, stacks, sampled counters"
        ),
        cannot=(
            "direction of copies, shared memory, occupancy, allocations, the GPU's name, rank; a "
            "kernel that overlaps the next one on its stream ends there: busy time is exact, sums "
            "of kernels up to 1 % short"
        ),
        record=(
            "PyTorch 2.14 or later: `ProfilerActivityConfig(profiler_configs=[CuspyConfig()])`, "
            'then `prof.export_chrome_trace("trace.pftrace")`'
        ),
    ),
    Format(
        name="xplane",
        sources=(FormatSource("xplane", ".xplane.pb"),),
        per_rank=True,
        expected="JAX (.xplane.pb)",
        title="JAX: `.xplane.pb`, or the `trace.json.gz` beside it",
        tells=(
            "kernels and copies, API calls, HLO operators with their module, steps of "
            "`StepTraceAnnotation`, Python functions, XLA's threads, the allocator's curve"
        ),
        cannot=(
            "shapes, so no roofline; waits on the device; rank; before JAX 0.11 the GPU's name; of "
            "a TPU launches and copies; the JSON rounds times"
        ),
        record=(
            "`traceanalyzer collect jax -- python train.py`; or `with jax.profiler.trace(DIR):` "
            "around some steps, each in "
            "`with jax.profiler.StepTraceAnnotation('train', step_num=i):`"
        ),
    ),
    Format(
        name="unitrace",
        sources=(FormatSource("unitrace", ".json"),),
        per_rank=True,
        expected="unitrace (.json)",
        title="Intel: Chrome trace (`.json`) of unitrace",
        tells=(
            "kernels and copies of each GPU or tile, calls of Level Zero and what each launched, "
            "calls of MPI and oneCCL"
        ),
        cannot=(
            "operators and shapes, so no roofline; waits on the device; the allocator; times "
            "finer than 250 ns"
        ),
        record="`unitrace --chrome-kernel-logging --chrome-call-logging python train.py`",
    ),
    Format(
        name="proton",
        sources=(FormatSource("proton", ".hatchet", keeps_model=False),),
        expected="Proton (.hatchet)",
        title="Triton's Proton: a tree (`.hatchet`, `.hatchet_msgpack`)",
        tells=(
            "kernels by time and calls; rates and shares of the GPU's limits where the program "
            "states FLOPs or bytes"
        ),
        cannot=(
            "when anything happened: no steps, no idle time, no overlap; trees of clock cycles "
            "have no times at all"
        ),
        record="`proton.start('run', data='tree')` and `proton.finalize()`",
    ),
    Format(
        name="rocm",
        sources=(
            FormatSource("rocpd", ".db"),
            FormatSource("rocprofv3", ".json"),
            # a folder of tables, of which one is named
            FormatSource("rocprofv3_csv", ".csv", keeps_model=False),
            FormatSource("rpd", ".rpd"),
            FormatSource("rocprof", ".json"),
            FormatSource("rocprof_csv", ".csv"),
        ),
        per_rank=True,
        expected="rocprofv3 (.db, .json, *_kernel_trace.csv), rocprof (.json, .csv), rpd (.rpd)",
        title=(
            "AMD: rocpd database (`.db`) of rocprofv3, its `*_results.json`, its "
            "`*_kernel_trace.csv`; rocprof v1's `results.json` and `results.csv`; RPD (`.rpd`)"
        ),
        tells=(
            "kernels and copies of every process, HIP's calls and what each launched, ROCTx "
            "ranges, RCCL's calls"
        ),
        cannot=(
            "operators and shapes, so no roofline; waits on the device; the allocator; rank; with "
            "kernels alone also launches, copies and the causes of idle time; of RPD, CSV and "
            "rocprof v1 the GPU's name"
        ),
        record=(
            "`traceanalyzer collect rocprofv3 -- python train.py`; or `rocprofv3 --sys-trace -- "
            "python train.py`"
        ),
    ),
    Format(
        name="nsys",
        sources=(FormatSource("nsys", ".sqlite"),),
        per_rank=True,
        expected="Nsight Systems (.sqlite)",
        title="Nsight Systems export (`.sqlite`; an `.nsys-rep` where `nsys` is installed)",
        tells=(
            "kernels, copies, graphs, API calls, waits, NVTX ranges in place of operators, GPU "
            "metrics, every process"
        ),
        cannot=(
            "operators' shapes (save where NVTX carries them, as of `collect nsys`), and no roofline "
            "without; the allocator; Python's stacks"
        ),
        record=(
            "`traceanalyzer collect nsys -- python train.py`; or `nsys profile` and `nsys export "
            "--type sqlite`"
        ),
    ),
    Format(
        name="memory",
        sources=(FormatSource("memory_snapshot", ".pickle", keeps_model=False),),
        in_folder="companion",
        expected="a CUDA memory snapshot (.pickle)",
        title="CUDA memory snapshot (a pickle)",
        tells=(
            "what fills GPU memory at its peak by line, what grows, why it ran out, what would "
            "free it"
        ),
        cannot="anything of time; given with a trace what a remedy costs in time",
        record=(
            "`torch.cuda.memory._dump_snapshot`, or `traceanalyzer collect torch --memory-snapshot`"
        ),
    ),
    Format(
        name="torch_log",
        sources=(FormatSource("torch_log", ".log", keeps_model=False),),
        in_folder="companion",
        expected="a TORCH_TRACE log",
        title="log of torch.compile (`TORCH_TRACE`)",
        tells=(
            "compile time by stage, graph breaks, recompilations with their guards, caches, what "
            "to change"
        ),
        cannot="what they cost in a step; given with a trace it does",
        record="`TORCH_TRACE=FOLDER`, or `traceanalyzer collect torch --compile-log`",
    ),
    Format(
        name="texts",
        sources=tuple(
            FormatSource(name, ".txt", keeps_model=False)
            for name in (
                *("memory_summary", "ncu_csv", "serving_summary", "gpu_samples", "compile_events"),
                *(
                    "nsys_stats",
                    "nvprof",
                    "rocprof_stats",
                    "host_profile",
                    "comms_log",
                    "xla_metrics",
                ),
            )
        ),
        in_folder="printout",
        expected="what nsys stats, ncu --csv or nvidia-smi printed",
        title=(
            "texts as people paste them: `nsys stats`, nvprof, rocprof v1, `ncu`, "
            "`torch.cuda.memory_summary()`, samples of `nvidia-smi`, `rocm-smi` and DCGM, summaries of "
            "serving benchmarks, trtexec, nccl-tests, nvbandwidth, llama.cpp, "
            "Lightning's profiler, cProfile, line_profiler, py-spy, pytest-benchmark, Triton's `perf_report`, "
            "`chromium_events.json` of tlparse"
        ),
        tells="what the text holds, in a sentence or two, and what to record to know more",
        cannot="when anything happened, and what waits for what",
        record="a file with the text; or `... | traceanalyzer analyze -`",
    ),
    Format(
        name="timing",
        sources=(FormatSource("timing_log", ".log", keeps_model=False),),
        expected=f"a log of step times (the first within {STEPS_WITHIN:,} lines)",
        title="log of step times (a trainer's log, JSON lines, CSV)",
        tells="step times, outliers, drift, waiting for data, throughput",
        cannot="anything that happens within a step",
        record=(
            "`traceanalyzer collect timing -- python train.py`; or the log that the trainer "
            "writes anyway"
        ),
    ),
    Format(
        name="messages",
        sources=(
            FormatSource("out_of_memory", ".txt", keeps_model=False),
            FormatSource("torch_console", ".txt", keeps_model=False),
            FormatSource("watchdog", ".txt", keeps_model=False),
            FormatSource("nccl_log", ".log", keeps_model=False),
            FormatSource("printed_averages", ".txt", keeps_model=False),
            FormatSource("comms_log", ".txt", keeps_model=False),
            FormatSource("memory_stats", ".txt", keeps_model=False),
            FormatSource("xla_metrics", ".txt", keeps_model=False),
        ),
        in_folder="printout",
        expected="an out-of-memory error",
        title=(
            "messages: an allocation that failed, a collective that timed out, NCCL's log (`NCCL_DEBUG=INFO`), "
            "recompilations and graph "
            "breaks (`TORCH_LOGS`), what a benchmark prints at its end, `torch.cuda.memory_stats()`, DeepSpeed's "
            "log of communication, torch_xla's metrics, MLPerf's log"
        ),
        tells=(
            "how much memory was asked for and why there was none; how ranks are connected; what recompiled, and why; "
            "mean, percentiles and rate"
        ),
        cannot="what the memory is used for, what a recompilation costs",
        record="a file with the message; or `... | traceanalyzer analyze -`",
    ),
    Format(
        name="key_averages",
        sources=(FormatSource("key_averages", ".txt", keeps_model=False),),
        in_folder="printout",
        expected="a table of key_averages",
        title="table of sums, as people paste it",
        tells="operators and kernels by time, kinds of kernels, calls that wait",
        cannot="when anything happened: no steps, no idle time, no overlap",
        record="`print(prof.key_averages().table())`",
    ),
)
"""In the order in which they are asked: one that recognises much stands after those that recognise
little."""

SOURCES = {source.name: source for form in FORMATS for source in form.sources}
"""Every source, by its name."""

KEPT_SOURCES = frozenset(name for name, source in SOURCES.items() if source.keeps_model)
"""Those whose traces the cache holds."""

RANKLESS_SOURCES = frozenset(
    source.name for form in FORMATS if form.per_rank for source in form.sources
)
"""Those that write a file a process, as a rule, and do not say which rank it is."""

_NAMED = [form.expected for form in FORMATS if form.expected]
_KINDS = [re.sub(r" \([^)]*\)", "", one) for one in _NAMED]
EXPECTED = f"give one of: {', '.join(_KINDS)}"
"""What can be read, as a request."""
