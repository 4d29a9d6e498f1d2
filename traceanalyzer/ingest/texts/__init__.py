"""Texts that people paste: printed tables, samples, summaries of benchmarks. Each is answered as
far as it goes: what it is, what it tells, what to record to know more.

A kind is a module with `recognise(text)`, cheap, and `summarise(text, path)`; tables of sums give rows
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
from traceanalyzer.ingest.texts.serving import llama_server, summaries
from traceanalyzer.trace import Trace

KINDS = (
    TextKind("memory_summary", memory_summary.recognise, memory_summary.summarise),
    TextKind("ncu_csv", counters.recognise, counters.summarise),
    TextKind("printed_averages", nvbandwidth.recognise, nvbandwidth.summarise),
    TextKind(
        "printed_averages", benchmark_tables.recognise_pytest, benchmark_tables.summarise_pytest
    ),
    TextKind(
        "printed_averages", benchmark_tables.recognise_compare, benchmark_tables.summarise_compare
    ),
    TextKind(
        "printed_averages", benchmark_tables.recognise_report, benchmark_tables.summarise_report
    ),
    TextKind("printed_averages", trtexec.recognise, trtexec.summarise),
    TextKind("printed_averages", deepspeed_flops.recognise, deepspeed_flops.summarise),
    TextKind("printed_averages", nccl_tests.recognise, nccl_tests.summarise),
    TextKind("serving_summary", tgi.recognise_requests, tgi.summarise_requests),
    TextKind("serving_summary", tgi.recognise_benchmark, tgi.summarise_benchmark),
    TextKind("serving_summary", llama_server.recognise, llama_server.summarise),
    TextKind("serving_summary", generation.recognise, generation.summarise),
    TextKind("serving_summary", summaries.recognise, summaries.summarise),
    TextKind("gpu_samples", gpu_samples.recognise, gpu_samples.summarise),
    TextKind("compile_events", compile_events.recognise, compile_events.summarise),
    TextKind("nsys_stats", sums.is_nsys_stats, nsys_reports.summarise, rows=sums.nsys_rows),
    TextKind("nsys_stats", nsys_reports.recognise_trace, rows=nsys_reports.trace_rows),
    TextKind("nsys_stats", nsys_reports.recognise, nsys_reports.summarise),
    TextKind("host_profile", line_profiler.recognise, line_profiler.summarise),
    TextKind("host_profile", host_profiles.recognise_lightning, host_profiles.summarise_lightning),
    TextKind("host_profile", host_profiles.recognise_cprofile, host_profiles.summarise_cprofile),
    TextKind("host_profile", host_profiles.recognise_stacks, host_profiles.summarise_stacks),
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
