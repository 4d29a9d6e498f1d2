"""Texts that people paste: printed tables, samples, summaries of benchmarks. Each is answered as
far as it goes: what it is, what it tells, what to record to know more.

A kind is a module with `holds(text)`, cheap, and `told(text, path)`; tables of sums give rows
instead (`sums.py`). `KINDS` lists them in the order in which they are asked. Messages that also
stand in logs of steps (`ingest/messages`) are asked after these."""

from collections.abc import Callable
from pathlib import Path

from traceanalyzer.ingest.ncu import REPORT_SUFFIX
from traceanalyzer.ingest.texts import (
    compile_events,
    counters,
    deepspeed_flops,
    gpu_samples,
    host_profiles,
    line_profiler,
    memory_summary,
    nsys_reports,
    serving,
    sums,
)
from traceanalyzer.ingest.texts.benchmarks import (
    benchmark_tables,
    generation,
    nccl_tests,
    nvbandwidth,
    tgi,
    trtexec,
)
from traceanalyzer.ingest.texts.reading import TextKind, read_text, text_kind
from traceanalyzer.trace import Trace

KINDS = (
    TextKind("memory_summary", memory_summary.holds, memory_summary.told),
    TextKind("ncu_csv", counters.holds, counters.told),
    TextKind("printed_averages", nvbandwidth.holds, nvbandwidth.told),
    TextKind("printed_averages", benchmark_tables.pytest_holds, benchmark_tables.pytest_told),
    TextKind("printed_averages", benchmark_tables.compare_holds, benchmark_tables.compare_told),
    TextKind("printed_averages", benchmark_tables.report_holds, benchmark_tables.report_told),
    TextKind("printed_averages", trtexec.holds, trtexec.told),
    TextKind("printed_averages", deepspeed_flops.holds, deepspeed_flops.told),
    TextKind("printed_averages", nccl_tests.holds, nccl_tests.told),
    TextKind("serving_summary", tgi.requests_hold, tgi.requests_told),
    TextKind("serving_summary", tgi.benchmark_holds, tgi.benchmark_told),
    TextKind("serving_summary", generation.holds, generation.told),
    TextKind("serving_summary", serving.holds, serving.told),
    TextKind("gpu_samples", gpu_samples.holds, gpu_samples.told),
    TextKind("compile_events", compile_events.holds, compile_events.told),
    TextKind("nsys_stats", sums.is_nsys_stats, nsys_reports.told, rows=sums.nsys_rows),
    TextKind("nsys_stats", nsys_reports.holds_trace, rows=nsys_reports.trace_rows),
    TextKind("nsys_stats", nsys_reports.holds, nsys_reports.told),
    TextKind("host_profile", line_profiler.holds, line_profiler.told),
    TextKind("host_profile", host_profiles.lightning_holds, host_profiles.lightning_told),
    TextKind("host_profile", host_profiles.cprofile_holds, host_profiles.cprofile_told),
    TextKind("host_profile", host_profiles.stacks_holds, host_profiles.stacks_told),
    TextKind("nvprof", sums.is_nvprof, rows=sums.nvprof_rows),
    TextKind("nvprof", sums.is_nvprof_trace, rows=sums.nvprof_trace_rows),
    TextKind("rocprof_stats", sums.is_rocprof, rows=sums.rocprof_rows),
)


def recognise(head: bytes, path: Path) -> bool:
    """Whether it is one of these texts, or a report of Nsight Compute that can be read here.
    `head`: its first bytes, decompressed."""
    return counters.is_binary(head, path) or text_kind(head, KINDS) is not None


def read(path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
    """A `Trace` with nothing in it but what the text tells. Raises UnreadableInputError."""
    if path.suffix == REPORT_SUFFIX:
        return [counters.read_report(path)]
    return read_text(path, KINDS, progress)
