# ruff: noqa: S311 rows of recordings
"""Every kind of input: seeds to mutate, how, and what the program does with it."""

from __future__ import annotations

import gzip
import json
import pickle
import tempfile
import zlib
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from tests import rocpd_builder
from tests.fleet.build import digest, write_rank
from tests.fuzz import grammar, mutate
from tests.fuzz.use import (
    CAPTURES,
    CLASSES,
    COMPILED,
    COSTS,
    COUNTED,
    DIGESTS,
    HANGS,
    HARDWARE,
    HISTORIES,
    JOURNALED,
    LOGS,
    OPERATIONS,
    PARQUET,
    POLICIES,
    QUESTIONS,
    RANKS,
    RECORDINGS,
    REPLAYS,
    SAVED_REPORTS,
    SERVER,
    SNAPSHOTS,
    STORES,
    TRACES,
    Command,
    cost,
    lacking,
    run,
)
from tests.history.days.logs import write_logs
from tests.ingest.test_pftrace import small as small_pftrace
from tests.ingest.test_xplane import small as small_profile
from tests.kineto_builder import KinetoTrace
from tests.nsys_builder import SCHEMAS, small_run
from tests.replay.compile.log_builder import LogBuilder
from tests.xplane_builder import space
from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.fleet.digests.files import encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).resolve().parents[2]
TEXTS = {
    "memsum.txt": "memory_summary",
    "oom.txt": "out_of_memory",
    "watchdog.txt": "watchdog",
    "nccl.log": "nccl_log",
    "lightning.txt": "host_profile",
    "ncu.csv": "ncu_csv",
    "vllm.txt": "serving_summary",
    "dmon.txt": "gpu_samples",
    "chrom.json": "compile_events",
    "recomp.txt": "torch_console",
    "averages.txt": "printed_averages",
    "comms.txt": "comms_log",
    "memory_stats.txt": "memory_stats",
    "xla.txt": "xla_metrics",
    "nsys.txt": "nsys_stats",
    "nvprof.txt": "nvprof",
    "rocprof.csv": "rocprof_stats",
}
"""Texts that people paste, of `tests/data/texts`, with what they are read as."""
FORMATS, TIMING = (ROOT / "tests" / "data" / name for name in ("formats", "timing"))
UNITRACE = gzip.decompress((FORMATS / "unitrace_made.json.gz").read_bytes()).decode()[:8000]
LARGEST_SEED = 400_000
"""Bytes of a real recording that is mutated: many small cases find more than few large ones."""


BY_GRAMMAR = 0.7
READ_ONLY = 0.7
DEAR = 0.05
MODEL = 0.12
"""Shares of cases: made by grammar, only read, and by commands that measure everything (they cost
ten times as much; MODEL: of the kinds by which the measuring is tried). The others have a command
for one table."""
GROUP = 10
"""Cases in a row that begin with the same valid input: the first is that input, the others change
it."""
FIRST_SUM = 999
"""Of the checksum that chooses a command: nothing is asked what most commands ask."""
MODULES = {
    "question": ("mcp",),
    "days": ("duckdb", PARQUET),
    "digest": (PARQUET,),
    "operations": (PARQUET,),
}
"""What kinds cannot be tried without."""


@dataclass(frozen=True)
class Kind:
    """A kind of input."""

    name: str
    file: str
    """What it is called, in its folder."""
    seeds: Callable[[], Sequence[Any]]
    mutated: Callable[[Any, Random], bytes]
    commands: Sequence[Command] = RECORDINGS
    made: Callable[[Random], Any] | None = None
    """A valid input by grammar."""
    others: Callable[[], dict[str, bytes]] = dict
    """Sound files in the same folder."""
    source: str | None = None
    """Of a recording of this kind: `Trace.source`."""
    dear: float = DEAR
    """Share of cases by commands that measure everything."""

    @cached_property
    def possible(self) -> list[int]:
        """The places of commands that need no module which is not installed."""
        return [i for i, command in enumerate(self.commands) if not lacking(command)]

    @property
    def lacks(self) -> str:
        """The module without which it cannot be tried, where that is not installed."""
        needed = MODULES.get(self.name, ())
        return next((name for name in needed if find_spec(name) is None), "")

    def case(self, seed: int, number: int) -> bytes:
        """The data of a case: of a valid input, by grammar or a stored one, with one to three
        changes, or none."""
        value = _valid(self, seed, number // GROUP)
        if number % GROUP == 0:
            return self.plain(value)
        return self.mutated(value, Random(f"{self.name}/{seed}/{number}"))

    def plain(self, value: Any) -> bytes:
        """The value as a file."""
        if isinstance(value, bytes):
            return value
        return pickle.dumps(value) if self.file.endswith(".pickle") else mutate.as_json(value)

    def use(self, data: bytes, folder: Path, number: int | None = None) -> None:
        """Run one of the commands, chosen by the data where no `number` is given. Raises
        TraceAnalyzerError."""
        beside = folder / "beside"
        own = folder / self.name
        path = own / self.file
        for place, files in ((beside, _beside), (own, self.others)):
            if not place.exists():
                (place / self.file).parent.mkdir(parents=True)
                for name, content in files().items():
                    (place / name).write_bytes(content)
        path.write_bytes(data)
        run(
            self.commands[self.chosen(data) if number is None else number],
            path,
            own,
            beside,
            folder / "out",
        )

    def warm(self, folder: Path) -> None:
        """Run one command of each cost on a valid input, so that processes that are forked have what
        a first run loads and compiles. DuckDB's threads end with a fork: its commands are left."""
        data = self.plain(self.seeds()[0])
        for places in self._by_cost:
            for number in places[:1] if self.name != "days" else ():
                with suppress(TraceAnalyzerError):
                    self.use(data, folder, number)

    def numbers(self, name: str) -> list[int]:
        """The places of the commands of a name."""
        return [i for i, command in enumerate(self.commands) if command[0] == name]

    def chosen(self, data: bytes) -> int:
        """Which command is run on the data."""
        drawn = zlib.crc32(data, FIRST_SUM)
        share = drawn % 1000 / 1000
        read, cheap, dear = self._by_cost
        some = dear if share < self.dear else read if share < self.dear + READ_ONLY else cheap
        some = some or read or cheap or dear
        return some[drawn // 1000 % len(some)]

    @cached_property
    def _by_cost(self) -> tuple[list[int], list[int], list[int]]:
        """The places of commands that only read, of those for one table, and of the others."""
        costs = [[i for i in self.possible if cost(self.commands[i]) == one] for one in COSTS]
        return costs[0], costs[1], costs[2]

    def size(self, data: bytes) -> int:
        """Bytes of the input, decompressed where that can be."""
        try:
            return len(gzip.decompress(data)) if data[:2] == b"\x1f\x8b" else len(data)
        except (OSError, EOFError, gzip.zlib.error):  # type: ignore[attr-defined]
            return 50 * len(data)


@lru_cache(maxsize=1)
def _valid(kind: Kind, seed: int, group: int) -> Any:
    """The input that the cases of a group begin with, decoded; they leave it as it is."""
    random = Random(f"{kind.name}/{seed}/group {group}")
    if kind.made is not None and random.random() < BY_GRAMMAR:
        return kind.made(random)
    seeds = kind.seeds()
    return seeds[int(random.random() ** 8 * len(seeds))]


@cache
def _beside() -> dict[str, bytes]:
    """Sound files of all kinds."""
    texts = {
        "policy.toml": POLICY,
        "gpu.toml": HARDWARE_TOML,
        "server.log": (TIMING / "tensorrt_llm.log").read_bytes(),
    }
    texts["report.json"] = mutate.as_json(_reports()[0])
    return texts | {"server.json": mutate.as_json(grammar.served()), "ncu.csv": _ncu()[0]}


@cache
def _rank(number: int, late: int = 0) -> bytes:
    return gzip.decompress(_built(lambda folder: write_rank(folder, number, 4, late, most=300)))


def _built(write: Callable[[Path], Path]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return write(Path(folder)).read_bytes()


@cache
def _digests() -> Sequence[bytes]:
    calls = [
        [(i, 1000 * i + late, 1000 * i + 900, "[0, 1, 2, 3]") for i in range(6)]
        for late in (0, 0, 0, 400)
    ]
    return [encoded(digest(rank, one, steps=6, host=f"h{rank}")) for rank, one in enumerate(calls)]


@cache
def _operations() -> Sequence[bytes]:
    return [grammar.operations(Random(7)), (ROOT / "tests/data/stragglers/ST.parquet").read_bytes()]


@cache
def _days() -> Sequence[bytes]:
    """Files of a store of days of steps, by another one's rows."""
    from traceanalyzer.history.days.store import append

    with tempfile.TemporaryDirectory() as name:
        append(write_logs(Path(name) / "logs", 60, 2), Path(name) / "store", "a")
        return [file.read_bytes() for file in sorted(Path(name).rglob("*.parquet"))]


QUESTION = [
    {"verb": "diagnose", "arguments": {"path": SERVER, "rank": None, "step": 1}},
    {"verb": "explain", "arguments": {"name": "host-waits"}},
    {
        "verb": "table",
        "arguments": {
            "path": SERVER,
            "name": "kernels",
            "top": 3,
            "sort": "device_ms",
            "columns": ["name", "device_ms"],
        },
    },
    {"verb": "evidence", "arguments": {"path": SERVER, "finding": "host-waits"}},
    {"verb": "whatif", "arguments": {"path": SERVER, "speedups": {"gemm": 2.0}}},
    {"verb": "compare", "arguments": {"a": SERVER, "b": SERVER}},
    {
        "verb": "verify",
        "arguments": {
            "path": SERVER,
            "at_most": {"gpu_idle_share": "10%"},
            "at_least": {},
            "baseline": SERVER,
        },
    },
    {"verb": "limits", "arguments": {"path": SERVER}},
    {"verb": "hang", "arguments": {"path": SERVER}},
]
HARDWARE_TOML = b"""[[gpu]]
name = "my GPU"
match = ["NVIDIA H100.*", ".*"]
source = "measured with ... on ..."
memory_gb = 80
bandwidth_gbs = 3000
sms = 132
tensor = { bf16 = 800, tf32 = 400 }
vector = { fp32 = 50 }
fp32_lanes_per_sm = 128
"""
CLASSES_TOML = b"""[[class]]
name = "mine"
title = "my kernels"
bound = "compute"
communication = false
[[rule]]
class = "mine"
patterns = ["gemm|triton_.*", '^nvjet_']
"""
POLICY = b"""baseline = "../beside/report.json"
allow_missing = true
[max]
step_time_ms.median = "+3%"
gpu_idle_share = 0.10
headroom_ms.sync = 0.5
"kernels.gemm.device_ms" = "+5%"
[min]
roofline.mfu = "-5%"
memory.peak = "24 GB"
"""


@cache
def _kineto() -> Sequence[Any]:
    small = [_small_trace(), _ranks(), _odd_trace()]
    folders = ("tests/data/gpu", "sample_traces", "tests/data/serving", "tests/data/formats/mi300x")
    files = [f for folder in folders for f in sorted(ROOT.glob(f"{folder}*/**/*.json.gz"))]
    texts = [gzip.decompress(file.read_bytes()) for file in files]
    cut = [_thinned(json.loads(text)) for text in texts]
    return [*small, *sorted(cut, key=lambda value: len(json.dumps(value)))]


def _thinned(trace: dict[str, Any]) -> dict[str, Any]:
    """The events of the first 20 ms of a real recording's steps, at most 300."""
    return trace | {"traceEvents": trace["traceEvents"][:40] + trace["traceEvents"][-260:]}


def _small_trace() -> dict[str, Any]:
    trace = KinetoTrace()
    for i in range(4):
        at = 1000 * i + 10
        trace.step(i, at, 980)
        trace.op(
            "aten::linear",
            at + 5,
            60,
            External_id=i,
            Input_Dims=[[8, 16], [16, 16]],
            Input_type=["float", "float"],
        )
        trace.launched(
            "sgemm_128", at + 10, at + 30, 200, external_id=i, grid=[8, 1, 1], block=[128, 1, 1]
        )
        trace.launched("vectorized_elementwise_kernel", at + 70, at + 240, 50, stream=7)
        trace.copy("DtoH (Device -> Pageable)", at + 300, 20, correlation=900 + i, bytes=4096)
        trace.api("cudaMemcpyAsync", at + 80, 10, 900 + i)
        trace.api("cudaStreamSynchronize", at + 95, 300, 800 + i)
        trace.python("train.py(3): step", at + 1, 900)
    trace.window(0, 5000)
    return json.loads(trace.json())


def _ranks() -> dict[str, Any]:
    trace = KinetoTrace().rank(1, 4)
    for i in range(4):
        at = 1000 * i + 10
        trace.step(i, at, 980)
        trace.launched("gemm", at + 10, at + 30, 200)
        trace.launched(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            at + 40,
            at + 240,
            300,
            stream=20,
            **{
                "Collective name": "allreduce",
                "In msg nelems": 4096 * (i + 1),
                "Out msg nelems": 4096 * (i + 1),
                "Group size": 4,
                "dtype": "Float",
                "Process Group Name": "0",
                "Process Group Ranks": "[0, 1, 2, 3]",
            },
        )
    trace.name_process("python")
    return json.loads(trace.json())


def _odd_trace() -> dict[str, Any]:
    trace = KinetoTrace()
    trace.metadata |= {
        "baseTimeNanoseconds": 1712345678901234567,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "numSms": 132}],
    }
    for i in range(3):
        trace.annotation("DataLoader.__next__", 1000 * i, 400)
        trace.launched("triton_poi_fused_add_0", 1000 * i + 500, 1000 * i + 520, 100, graph_id=3)
        trace.add(
            {
                "ph": "i",
                "s": "t",
                "name": "[memory]",
                "pid": 1,
                "tid": 1,
                "ts": 1000 * i,
                "args": {
                    "Total Allocated": 10**9,
                    "Total Reserved": 2 * 10**9,
                    "Bytes": 512,
                    "Device Type": 1,
                    "Device Id": 0,
                },
            }
        )
        trace.add(
            {
                "ph": "X",
                "cat": "cuda_sync",
                "name": "Stream Wait Event",
                "pid": 0,
                "tid": 7,
                "ts": 1000 * i + 600,
                "dur": 5,
                "args": {"stream": 7, "wait_on_stream": 9, "correlation": i + 1, "device": 0},
            }
        )
        trace.add(
            {
                "ph": "X",
                "cat": "overhead",
                "name": "Buffer Flush",
                "pid": 1,
                "tid": 0,
                "ts": 1000 * i + 700,
                "dur": 5,
            }
        )
    return json.loads(trace.json())


def _mutated_kineto(value: dict[str, Any], random: Random) -> bytes:
    if random.random() < 0.75:
        made = dict(value)
        if random.random() < 0.5:
            made["traceEvents"] = list(value["traceEvents"])
            rows = [
                dict(row)
                | ({"args": dict(row["args"])} if isinstance(row.get("args"), dict) else {})
                for row in made["traceEvents"]
            ]
            made["traceEvents"] = rows
            part = rows if random.random() < 0.5 else [row["args"] for row in rows if "args" in row]
            mutate.column_of(part, random)
        else:
            made = mutate.json_values(value, random)
        data = mutate.as_json(made)
    else:
        data = mutate.in_bytes(mutate.as_json(value), random)
    return mutate.zipped(data, random) if random.random() < 0.15 else data


@cache
def _nsys() -> Sequence[bytes]:
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for i, schema in enumerate(reversed(SCHEMAS)):
            made.append(small_run(schema).write(Path(folder) / f"{i}.sqlite").read_bytes())
    for file in sorted((ROOT / "sample_traces").rglob("*.sqlite*")):
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        if len(data) < LARGEST_SEED:
            made.append(data)
    return made


def _mutated_nsys(data: bytes, random: Random) -> bytes:
    made = mutate.in_database(data, random)
    return mutate.zipped(made, random) if random.random() < 0.1 else made


@cache
def _amd(name: str) -> Sequence[bytes]:
    if name == "rpd":
        return [gzip.decompress((FORMATS / "matmul_result.rpd.gz").read_bytes())]
    with tempfile.TemporaryDirectory() as folder:
        return [
            rocpd_builder.small_run(schema, steps=4)
            .write(Path(folder) / f"{schema}.db")
            .read_bytes()
            for schema in rocpd_builder.SCHEMAS
        ]


def _trees() -> Sequence[Any]:
    return _decoded("tests/data/formats/*.hatchet")


def _mutated_tree(value: Any, random: Random) -> bytes:
    if random.random() < 0.8:
        return _mutated_json(value, random)
    return mutate.in_bytes(msgspec.msgpack.encode(value), random)


def _rocprof() -> Sequence[Any]:
    from tests.ingest.rocm.test_rocprofv1 import steps

    return [{"traceEvents": steps(4)}]


@cache
def _rocprof_table() -> Sequence[Any]:
    from tests.ingest.rocm.test_rocprofv1 import TABLE

    return [TABLE.encode()]


@cache
def _rocprofv3() -> Sequence[Any]:
    from tests.ingest.rocm.test_amd import WHOLE

    return [{"rocprofiler-sdk-tool": [WHOLE, WHOLE]}]


@cache
def _tables() -> Sequence[bytes]:
    from tests.ingest.rocm.test_amd import tables

    with tempfile.TemporaryDirectory() as folder:
        return [tables(Path(folder), guid).read_bytes() for guid in (False, True)]


@cache
def _logs() -> Sequence[bytes]:
    files = [f for f in sorted(TIMING.iterdir()) if f.suffix in (".log", ".jsonl", ".csv")]
    return [file.read_bytes()[:4000] for file in files]


@cache
def _texts(*patterns: str) -> Sequence[bytes]:
    files = [f for pattern in patterns for f in sorted(ROOT.glob(pattern))]
    return [file.read_bytes()[:50_000] for file in files]


def _environments() -> Sequence[Any]:
    return _decoded("sample_traces/*/environment.json")


def _unprofiled() -> Sequence[Any]:
    return _decoded("sample_traces/*/unprofiled.rank0.json")


@cache
def _decoded(pattern: str) -> Sequence[Any]:
    return [json.loads(text) for text in _texts(pattern)]


def _mutated_json(value: Any, random: Random) -> bytes:
    if random.random() < 0.7:
        return mutate.as_json(mutate.json_values(value, random))
    return mutate.in_bytes(mutate.as_json(value), random)


SAMPLES = (
    b'{"time_s": 1.5, "gpu": 0, "sm_clock_mhz": 1980, "throttle_reasons": []}\n'
    b'{"time_s": 1.6, "gpu": 0, "sm_clock_mhz": 1200, "throttle_reasons": ["power cap"]}\n' * 3
)


@cache
def _ncu() -> Sequence[bytes]:
    return [one[:8000] for one in _texts("tests/data/ncu/*.csv", "tests/data/ncu/*/*.csv")]


@cache
def _reports() -> Sequence[Any]:
    from tests.report.reports import empty, full
    from traceanalyzer.report.json import render_json

    return [json.loads(render_json(report)) for report in (full(), empty())]


def _tried() -> Sequence[Any]:
    """What `try` leaves: a report with what its trials found."""
    from traceanalyzer.trials.answer import FASTER, Answer, Row, to_json
    from traceanalyzer.trials.measured import StepsOfRuns
    from traceanalyzer.trials.recording import Promise

    before, after = (StepsOfRuns(ms, 0.9 * ms, 1.1 * ms) for ms in (10.0, 7.0))
    promise = Promise(7.0, 6.0, 8.0, "compile")
    rows = [
        Row("compile", "torch.compile", FASTER, "", promise, True, before, after),
        Row("fused_optimizer", "a fused optimizer", "failed", "was ended by signal 9"),
    ]
    answer = Answer("python train.py", "step of SGD", before, 7, rows, ("compile",), after)
    return [report | {"trials": to_json(answer)} for report in _reports()]


@cache
def _captures() -> Sequence[Any]:
    """Recordings of the capture of CUDA graphs, as servers write them when they start."""
    from tests.ingest.test_graph_captures import capture

    return [json.loads(_built(lambda folder: capture(folder / "a.json")))]


def _replay() -> dict[str, bytes]:
    from tests.ingest.test_graph_captures import replay

    return {"decode.json": _built(lambda folder: Path(replay(folder / "decode.json")))}


@cache
def _sums() -> Sequence[bytes]:
    from tests.ingest.test_key_averages import table

    return [table().encode()]


def _text(name: str, source: str) -> Kind:
    """A text of the test data."""

    def seeds() -> Sequence[bytes]:
        return [(ROOT / "tests" / "data" / "texts" / name).read_bytes()]

    return Kind(source, name, seeds, mutate.in_lines, source=source)


@cache
def _pasted() -> Sequence[bytes]:
    """Texts that the tests of pasted ones write out."""
    from tests.ingest import test_pasted_summaries as summaries
    from tests.ingest import test_pasted_tables as tables

    written = (*summaries.SAMPLES, *summaries.OTHERS, *tables.TABLES)
    return [text.encode() for text, _ in written]


@cache
def _nccl() -> Sequence[bytes]:
    from tests.fleet.hang.test_reader import RAS

    line = {
        "header": {"id": "0x7f", "rank": 1, "n_ranks": 4, "nnodes": 1},
        "metadata": {"dump_timestamp_us": 1, "hostname": "node-7", "pid": 3},
        "coll_perf": {"coll": "AllReduce", "coll_sn": 64},
    }
    return [RAS.encode(), json.dumps(line).encode()]


def _dumps() -> dict[str, bytes]:
    return {f"rank_{rank}": _texts(f"tests/data/hang/rank_{rank}.json")[0] for rank in (1, 2)}


def _recording() -> dict[str, bytes]:
    return {"trace.rank0.json": mutate.as_json(_small_trace())}


@cache
def _histories() -> Sequence[bytes]:
    from tests.report.reports import empty, full
    from traceanalyzer.history.runs import store_report

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        for i, report in enumerate((full(), empty(), full())):
            store_report(path, report, tags={"n": str(i)})
        return [path.read_bytes()]


@cache
def _snapshots() -> Sequence[Any]:
    block = {
        "size": 512,
        "requested_size": 500,
        "address": 4096,
        "state": "active_allocated",
        "frames": [],
    }
    segment = {
        "device": 0,
        "address": 4096,
        "total_size": 2 << 20,
        "allocated_size": 512,
        "active_size": 512,
        "stream": 0,
        "segment_type": "small",
        "requested_size": 500,
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "blocks": [block],
        "frames": [],
    }
    frames = [{"name": "step", "filename": "train.py", "line": 3}]
    trace = [
        {
            "action": action,
            "addr": 4096,
            "size": 512 * (i + 1),
            "stream": 0,
            "time_us": 1000 + i,
            "frames": frames,
        }
        for i, action in enumerate(
            (
                "alloc",
                "free_requested",
                "free_completed",
                "alloc",
                "segment_alloc",
                "snapshot",
                "oom",
            )
        )
    ]
    files = sorted(
        (ROOT / "tests" / "data" / "memory").glob("oom_*.pickle.gz"),
        key=lambda file: file.stat().st_size,
    )
    real = [pickle.loads(gzip.decompress(file.read_bytes())) for file in files[:3]]  # noqa: S301 the tests' own
    return [
        {
            "segments": [segment],
            "device_traces": [trace, []],
            "allocator_settings": {"a": "b"},
            "external_annotations": [],
        },
        *real,
    ]


def _mutated_snapshot(value: Any, random: Random) -> bytes:
    if random.random() < 0.5:
        return pickle.dumps(mutate.json_values(value, random), protocol=random.choice((2, 4)))
    return mutate.in_bytes(pickle.dumps(value, protocol=random.choice((2, 4))), random)


@cache
def _compile_logs() -> Sequence[bytes]:
    log = LogBuilder(prefix="[rank0]:")
    for number in range(3):
        at = 1e6 * number
        log.number = number
        log.start()
        log.event("dynamo", "B", at)
        log.span("backend_compile", at + 10, at + 400)
        log.event("fx_graph_cache_miss", "i", at + 15)
        log.event("dynamo", "E", at + 500)
        log.artifact(
            "recompile_reasons", "0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5"
        )
        log.record(
            "graph_break_reason",
            {"reason": "call to print", "user_stack": []},
            "Graph break: call to print",
        )
        log.artifact("inductor_output_code", "triton_poi_fused_0.run(buf, 8)")
        log.metrics(0.4, fail_type=None, cache_size=number, graph_op_count=7)
    real = gzip.decompress((ROOT / "tests" / "data" / "compile" / "clean.log.gz").read_bytes())
    return [log.bytes(), real[:30_000], real[-30_000:]]


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "kineto",
            "a.json",
            _kineto,
            _mutated_kineto,
            TRACES,
            grammar.kineto,
            source="kineto",
            dear=MODEL,
        ),
        Kind(
            "nsys",
            "a.sqlite",
            _nsys,
            _mutated_nsys,
            made=grammar.nsys,
            source="nsys",
            dear=MODEL,
        ),
        Kind(
            "rocpd",
            "a.db",
            lambda: _amd("rocpd"),
            _mutated_nsys,
            made=grammar.rocpd,
            source="rocpd",
        ),
        Kind("rpd", "a.rpd", lambda: _amd("rpd"), _mutated_nsys, source="rpd"),
        Kind("rocprofv3", "a.json", _rocprofv3, _mutated_json, source="rocprofv3"),
        Kind("tables", "a_kernel_trace.csv", _tables, mutate.in_lines, source="rocprofv3_csv"),
        Kind("rocprof", "a.json", _rocprof, _mutated_json, source="rocprof"),
        Kind("rocprof_table", "a.csv", _rocprof_table, mutate.in_lines, source="rocprof_csv"),
        Kind("proton", "a.hatchet", _trees, _mutated_tree, made=grammar.proton, source="proton"),
        Kind(
            "unitrace",
            "a.json",
            lambda: [UNITRACE.encode()],
            mutate.in_lines,
            made=grammar.unitrace,
            source="unitrace",
        ),
        Kind(
            "pftrace",
            "a.pftrace",
            lambda: (bytes(small_pftrace()),),
            mutate.in_message,
            made=grammar.pftrace,
            source="pftrace",
        ),
        Kind(
            "xplane",
            "a.xplane.pb",
            lambda: (space(*small_profile()),),
            mutate.in_message,
            made=grammar.xplane,
            source="xplane",
        ),
        Kind("log", "a.log", _logs, mutate.in_lines, LOGS, grammar.log, source="timing_log"),
        Kind("sums", "a.txt", _sums, mutate.in_lines, source="key_averages"),
        *(_text(name, source) for name, source in TEXTS.items()),
        Kind("pasted", "a.txt", _pasted, mutate.in_lines),
        Kind(
            "rank",
            "rank3.json",
            lambda: [json.loads(_rank(3, 300))],
            _mutated_kineto,
            RANKS,
            grammar.rank,
            lambda: {f"rank{i}.json": _rank(i) for i in range(2)},
        ),
        Kind(
            "digest",
            "rank3-0.digest.parquet",
            lambda: _digests()[3:],
            mutate.in_parquet,
            DIGESTS,
            others=lambda: {
                f"rank{i}-0.digest.parquet": one for i, one in enumerate(_digests()[:3])
            },
        ),
        Kind(
            "operations",
            "a.parquet",
            _operations,
            mutate.in_parquet,
            OPERATIONS,
            grammar.operations,
        ),
        Kind(
            "days",
            "run=a/day=x/a.parquet",
            lambda: _days()[:1],
            mutate.in_parquet,
            STORES,
            others=lambda: {"run=a/day=x/b.parquet": _days()[1]},
        ),
        Kind(
            "dump",
            "rank_0.pickle",
            lambda: [json.loads(one) for one in _dumps().values()],
            _mutated_snapshot,
            HANGS,
            grammar.dump,
            _dumps,
        ),
        Kind("nccl", "ras.txt", _nccl, mutate.in_lines, HANGS, others=_dumps),
        Kind(
            "environment",
            "environment.json",
            _environments,
            _mutated_json,
            CAPTURES,
            others=_recording,
        ),
        Kind(
            "unprofiled",
            "unprofiled.rank0.json",
            _unprofiled,
            _mutated_json,
            CAPTURES,
            others=_recording,
        ),
        Kind(
            "light",
            "light.rank0.json",
            _kineto,
            _mutated_kineto,
            CAPTURES,
            grammar.kineto,
            _recording,
        ),
        Kind(
            "samples",
            "nvml.rank0.jsonl",
            lambda: (SAMPLES,),
            mutate.in_lines,
            CAPTURES,
            others=_recording,
        ),
        Kind("ncu", "a.csv", _ncu, mutate.in_lines, COUNTED),
        Kind("hardware", "a.toml", lambda: [HARDWARE_TOML], mutate.in_lines, HARDWARE),
        Kind("classes", "a.toml", lambda: [CLASSES_TOML], mutate.in_lines, CLASSES),
        Kind("policy", "a.toml", lambda: [POLICY], mutate.in_lines, POLICIES),
        Kind(
            "question",
            "a.json",
            lambda: QUESTION,
            _mutated_json,
            QUESTIONS,
            lambda random: random.choice(QUESTION),
        ),
        Kind("report", "a.json", _reports, _mutated_json, SAVED_REPORTS),
        Kind("tried", "try.json", _tried, _mutated_json, SAVED_REPORTS),
        Kind(
            "captures",
            "graph_capture_rank_0.1.json",
            _captures,
            _mutated_kineto,
            REPLAYS,
            grammar.kineto,
            _replay,
        ),
        Kind("history", "a.db", _histories, mutate.in_database, HISTORIES),
        *(
            Kind(
                name,
                f"a.db-{name}",
                lambda: (b"",),
                mutate.in_bytes,
                JOURNALED,
                mutate.journal,
                lambda: {"a.db": _histories()[0]},
            )
            for name in ("journal", "wal")
        ),
        Kind(
            "compile",
            "a.log",
            _compile_logs,
            mutate.in_lines,
            COMPILED,
            grammar.compile_log,
            source="torch_log",
        ),
        Kind(
            "snapshot",
            "a.pickle",
            _snapshots,
            _mutated_snapshot,
            SNAPSHOTS,
            grammar.snapshot,
            source="memory_snapshot",
        ),
        Kind(
            "besides",
            "memory.rank0.pickle",
            _snapshots,
            _mutated_snapshot,
            CAPTURES,
            grammar.snapshot,
            _recording,
        ),
    )
}
