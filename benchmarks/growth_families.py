# ruff: noqa: E501 rows of recordings
"""Inputs by name and size: shapes of recordings, honest and hostile, whose cost must not grow faster than n log n."""

from __future__ import annotations

import gzip
import json
import sqlite3
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Row = dict[str, Any]


def _span(cat: str, name: str, ts: float, dur: float, tid: int = 1, pid: int = 1, **args: Any) -> Row:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def _op(name: str, ts: float, dur: float, tid: int = 1, **args: Any) -> Row:
    return _span("cpu_op", name, ts, dur, tid, **args)


def _launch(
    i: int, at: float, start: float, dur: float, stream: int = 7, tid: int = 1, name: str = "k", **args: Any
) -> list[Row]:
    placed = {"device": 0, "context": 1, "stream": stream, "correlation": i + 1, **args}
    return [
        _span("cuda_runtime", "cudaLaunchKernel", at, 1, tid, correlation=i + 1),
        _span("kernel", name, start, dur, stream, 0, **placed),
    ]


def _trace(rows: Iterable[Row], **metadata: Any) -> bytes:
    return json.dumps(metadata | {"schemaVersion": 1, "traceEvents": list(rows)}).encode()


def _steps(n: int, count: int = 4) -> list[Row]:
    """`count` steps over 10 us for each of n things."""
    length = 10 * max(n, 1) / count
    return [_span("user_annotation", f"ProfilerStep#{i}", i * length, length) for i in range(count)]


def plain(n: int) -> bytes:
    rows = _steps(n)
    for i in range(n):
        rows += [_op(f"aten::op{i % 20}", 10 * i, 8), *_launch(i, 10 * i + 1, 10 * i + 5, 4)]
    return _trace(rows)


def many_steps(n: int) -> bytes:
    rows = []
    for i in range(n):
        rows += [_span("user_annotation", f"ProfilerStep#{i}", 10 * i, 10), *_launch(i, 10 * i + 1, 10 * i + 5, 4)]
    return _trace(rows)


def nested_steps(n: int) -> bytes:
    rows = [_span("user_annotation", f"ProfilerStep#{i}", i, 2 * (2 * n - i)) for i in range(n)]
    return _trace(rows + [row for i in range(n) for row in _launch(i, i, i + 1, 1)])


def overlapping_steps(n: int) -> bytes:
    rows = [_span("user_annotation", f"ProfilerStep#{i}", i, n) for i in range(n)]
    return _trace(rows + [row for i in range(n) for row in _launch(i, i, i + 1, 1)])


def steps_on_threads(n: int) -> bytes:
    rows = [_span("user_annotation", f"ProfilerStep#{i}", 10 * i, 10, tid=i) for i in range(n)]
    return _trace(rows + [row for i in range(n) for row in _launch(i, 10 * i, 10 * i + 1, 1)])


def kernels_at_one_instant(n: int) -> bytes:
    return _trace(_steps(n) + [row for i in range(n) for row in _launch(i, 10 * i, 5 * n, 5)])


def kernels_at_one_instant_on_streams(n: int) -> bytes:
    return _trace(_steps(n) + [row for i in range(n) for row in _launch(i, 10 * i, 5 * n, 5, stream=i % 64)])


def kernels_end_at_one_instant(n: int) -> bytes:
    rows = [row for i in range(n) for row in _launch(i, 10 * i, 10 * i + 5, 10 * n - 10 * i, stream=7 + i % 2)]
    return _trace(_steps(n) + rows)


def all_at_one_instant(n: int) -> bytes:
    return _trace(_steps(n) + [row for i in range(n) for row in _launch(i, 1, 5 * n, 5, stream=7 + i % 3)])


def kernels_all_overlap(n: int) -> bytes:
    return _trace(_steps(n) + [row for i in range(n) for row in _launch(i, 10 * i, 10 * i + 1, 10 * n)])


def empty_kernels(n: int) -> bytes:
    return _trace(_steps(n) + [row for i in range(n) for row in _launch(i, 10 * i, 5 * n, 0)])


def launches_at_one_instant(n: int) -> bytes:
    return _trace(_steps(n) + [row for i in range(n) for row in _launch(i, 1, 10 * i, 5)])


def launches_overlap(n: int) -> bytes:
    rows = [row for i in range(n) for row in _launch(i, 10 * i, 10 * i + 5, 4)]
    for row in rows:
        if row["cat"] == "cuda_runtime":
            row["dur"] = 10 * n
    return _trace(_steps(n) + rows)


def deep_ops(n: int) -> bytes:
    return _trace(_steps(n) + [_op(f"aten::op{i % 20}", i, 10 * n - 2 * i) for i in range(n)] + _launch(0, n, n + 5, 5))


def deep_ops_with_launches(n: int) -> bytes:
    rows = _steps(n)
    for i in range(n):
        rows += [_op(f"aten::op{i % 20}", 4 * i, 10 * n - 4 * i), *_launch(i, 4 * i + 1, 4 * i + 2, 2)]
    return _trace(rows)


def deep_annotations(n: int) -> bytes:
    rows = [_span("user_annotation", f"part {i}", i, 10 * n - 2 * i) for i in range(n)]
    return _trace(_steps(n) + rows + _launch(0, n, n + 5, 5))


def deep_python(n: int) -> bytes:
    rows = [_span("python_function", f"a.py({i}): f", i, 10 * n - 2 * i, **{"Python id": i + 1}) for i in range(n)]
    return _trace(_steps(n) + rows + [row for i in range(n) for row in _launch(i, n + i, n + i + 5, 1)])


def many_threads(n: int) -> bytes:
    rows = [
        row
        for i in range(n)
        for row in [_op("aten::add", 10 * i, 8, tid=i), *_launch(i, 10 * i + 1, 10 * i + 5, 4, tid=i)]
    ]
    return _trace(_steps(n) + rows)


def many_streams(n: int) -> bytes:
    return _trace(_steps(n) + [row for i in range(n) for row in _launch(i, 10 * i, 10 * i + 5, 4, stream=i)])


def many_devices(n: int) -> bytes:
    return _trace(_steps(n) + [row for i in range(n) for row in _launch(i, 10 * i, 10 * i + 5, 4, device=i % 4096)])


def many_processes(n: int) -> bytes:
    rows = [_op("aten::add", 10 * i, 8) | {"pid": i} for i in range(n)]
    return _trace(_steps(n) + rows + _launch(0, 1, 5, 5))


def distinct_names(n: int) -> bytes:
    rows = [
        row
        for i in range(n)
        for row in [_op(f"op{i}", 10 * i, 8), *_launch(i, 10 * i + 1, 10 * i + 5, 4, name=f"kernel_{i}")]
    ]
    return _trace(_steps(n) + rows)


def distinct_shapes(n: int) -> bytes:
    shapes = [[[i + 1, 64], [64, 32]] for i in range(n)]
    rows = []
    for i in range(n):
        named = {"Input Dims": shapes[i], "Input type": ["float", "float"], "External id": i}
        rows += [_op("aten::mm", 10 * i, 8, **named), *_launch(i, 10 * i + 1, 10 * i + 5, 4, name="sgemm")]
    return _trace(_steps(n) + rows)


def long_name(n: int) -> bytes:
    return _trace(_steps(4) + _launch(0, 1, 5, 5, name="k" * n))


def long_namespaces(n: int) -> bytes:
    return _trace(
        [*_steps(4), _op("a::" * n, 1, 5), *_launch(0, 1, 5, 5, name="void a::" + "b::" * n + "k<" + "c<" * n)]
    )


def long_path(n: int) -> bytes:
    name = "/" + "a/" * n + "b.py(3): f"
    return _trace([*_steps(4), _span("python_function", name, 1, 30), *_launch(0, 3, 5, 5, name="=a/b:" * n)])


def long_shape(n: int) -> bytes:
    return _trace(
        [
            *_steps(4),
            _op("aten::cat", 1, 5, **{"Input Dims": [[[1]] * n], "Input type": ["TensorList"]}),
            *_launch(0, 1, 5, 5),
        ]
    )


def syncs(n: int) -> bytes:
    rows = [_span("cuda_runtime", "cudaStreamSynchronize", 10 * i + 5, 4, correlation=n + i + 1) for i in range(n)]
    return _trace(_steps(n) + rows + [row for i in range(n) for row in _launch(i, 10 * i, 10 * i + 5, 4)])


def waits_at_one_instant(n: int) -> bytes:
    rows = [
        _span("cuda_sync", "Stream Wait Event", 5 * n, 1, 7, 0, stream=7, device=0, wait_on_stream=9, correlation=i)
        for i in range(n)
    ]
    return _trace(_steps(n) + rows + [row for i in range(n) for row in _launch(i, 10 * i, 10 * i + 5, 4)])


def collectives(n: int) -> bytes:
    rows = []
    for i in range(n):
        named = {"Collective name": "allreduce", "In msg nelems": i + 1, "Out msg nelems": i + 1, "Group size": 8, "dtype": "Float",
                 "Process Group Name": str(i % 7)}  # fmt: skip
        rows += _launch(2 * i, 10 * i, 10 * i + 2, 3)
        rows += _launch(
            2 * i + 1, 10 * i + 1, 10 * i + 4, 5, 20, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", **named
        )
    return _trace(_steps(n) + rows, distributedInfo={"rank": 0, "world_size": 8})


def world_size(n: int) -> bytes:
    return _trace(_steps(4) + _launch(0, 1, 5, 5), distributedInfo={"rank": 0, "world_size": n})


def memory_events(n: int) -> bytes:
    rows = [
        {
            "ph": "i",
            "name": "[memory]",
            "ts": 10 * i,
            "args": {"Bytes": 512, "Total Allocated": 512 * i, "Device Type": 1, "Device Id": 0},
        }
        for i in range(n)
    ]
    return _trace(_steps(n) + rows + _launch(0, 1, 5, 5))


def copies(n: int) -> bytes:
    rows = [
        row
        for i in range(n)
        for row in _launch(i, 10 * i, 10 * i + 5, 4, name="Memcpy HtoD (Pageable -> Device)", bytes=i)
    ]
    for row in rows:
        row["cat"] = "gpu_memcpy" if row["cat"] == "kernel" else row["cat"]
    return _trace(_steps(n) + rows)


def graphs(n: int) -> bytes:
    rows = []
    for i in range(n):
        at = 10 * i
        rows += _launch(i // 50, 10 * (i // 50) * 50, at + 5, 4, **{"graph id": 1})[0 if i % 50 == 0 else 1 :]
        if i % 50 == 0:
            rows[-2]["name"] = "cudaGraphLaunch"
    return _trace(_steps(n) + rows)


def flows(n: int) -> bytes:
    rows = [
        {"ph": phase, "id": i, "pid": 1, "tid": 1, "ts": i, "cat": "ac2g", "name": "ac2g"}
        for i in range(n)
        for phase in "sf"
    ]
    return _trace(_steps(4) + _launch(0, 1, 5, 5) + rows)


def backward_links(n: int) -> bytes:
    rows = []
    for i in range(n):
        rows += [_op("aten::mm", 10 * i, 4, **{"Sequence number": i}), *_launch(i, 10 * i + 1, 10 * i + 2, 3)]
        rows += [
            _op(
                "autograd::engine::evaluate_function: MmBackward0",
                10 * i + 5,
                4,
                2,
                **{"Sequence number": i, "Fwd thread id": 1},
            )
        ]
    return _trace(_steps(n) + rows)


def one_sequence_number(n: int) -> bytes:
    rows = []
    for i in range(n):
        rows += [_op("aten::mm", 10 * i, 4, **{"Sequence number": 1}), *_launch(i, 10 * i + 1, 10 * i + 2, 3)]
        rows += [
            _op(
                "autograd::engine::evaluate_function: MmBackward0",
                10 * i + 5,
                4,
                2,
                **{"Sequence number": 1, "Fwd thread id": 1},
            )
        ]
    return _trace(_steps(n) + rows)


def one_correlation(n: int) -> bytes:
    return _trace(_steps(n) + [row for i in range(n) for row in _launch(0, 10 * i, 10 * i + 5, 4)])


def blanks(n: int) -> bytes:
    return b'{"traceEvents":[' + b" " * (16 * n) + _trace(_launch(0, 1, 5, 5))[38:]


def commas(n: int) -> bytes:
    return b'{"traceEvents":[' + b"} , " * (4 * n) + b"{" * n


def unclosed_strings(n: int) -> bytes:
    return b'{"traceEvents":[{"ph":"X","name":' + b'": "' * (4 * n)


def escaped_quotes(n: int) -> bytes:
    return b'{"traceEvents":[{"ph":"X","name":"' + b'\\"' * (4 * n) + b"\n\x00"


def nested_brackets(n: int) -> bytes:
    return b'{"traceEvents":[{"ph":"X","args":' + b'{"args":' * n


def exponents(n: int) -> bytes:
    return _trace(_launch(0, 1, 5, 5)).replace(b'"ts": 1,', b'"ts": 1e' + b"9" * min(n, 6) + b",", 1)


def digits(n: int) -> bytes:
    return _trace(_launch(0, 1, 5, 5)).replace(b'"ts": 1,', b'"ts": ' + b"9" * n + b",", 1)


def damaged_events(n: int) -> bytes:
    rows = b",".join(b'{"ph":"X","cat":"cpu_op","name":"a"b","ts":%d,"dur":1,"args":{}}' % i for i in range(n))
    return b'{"traceEvents":[' + rows + b"]}"


def secrets(n: int) -> bytes:
    return _trace(
        _steps(n)
        + [row for i in range(n) for row in _launch(i, 10 * i, 10 * i + 5, 4, name=f"user{i}@host{i} /home/u{i}/x")]
    )


def gzip_of_one_name(n: int) -> bytes:
    return gzip.compress(long_name(64 * n), 1)


def log_digits(n: int) -> bytes:
    line = b"time (ms) | forward_microstep: 193.65 | backward_microstep: "
    return (line + b"1" * min(n, 4000) + b"\n") * (n // 100 + 1)


def log_lines(n: int) -> bytes:
    return b"".join(b"iteration %d/ 9 | elapsed time per iteration (ms): 12.5 | loss\n" % i for i in range(n))


def log_ranks(n: int) -> bytes:
    return b"".join(b'{"step": %d, "iter_ms": 12.5, "rank": %d}\n' % (i // 4, i) for i in range(n))


def log_one_line(n: int) -> bytes:
    return b"step: 1 loss: " * n


def _nsys(tables: dict[str, tuple[str, list[tuple[Any, ...]]]]) -> bytes:
    db = sqlite3.connect(":memory:")
    for name, (columns, rows) in tables.items():
        db.execute(f"CREATE TABLE {name} ({columns})")
        db.executemany(f"INSERT INTO {name} VALUES ({','.join('?' * len(columns.split(',')))})", rows)  # noqa: S608
    db.commit()
    data = db.serialize()
    db.close()
    return data


_KERNEL = "start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName, shortName"
_PID = 1 << 48 | 1000 << 24


def _nsys_run(n: int, names: Callable[[int], str], texts: Iterable[str] = (), **more: Any) -> bytes:
    strings = [(1, "cudaLaunchKernel"), *((i + 10, names(i)) for i in range(n))]
    kernels = [(10 * i + 5, 10 * i + 9, 0, 1, 7, i + 1, _PID, i + 10, i + 10) for i in range(n)]
    calls = [(10 * i, 10 * i + 1, _PID | 1000, i + 1, 1) for i in range(n)]
    ranges = [(10 * i, 10 * i + 8, 59, _PID | 1000, text) for i, text in enumerate(texts)]
    return _nsys(
        {
            "StringIds": ("id, value", strings),
            "CUPTI_ACTIVITY_KIND_KERNEL": (_KERNEL, kernels),
            "CUPTI_ACTIVITY_KIND_RUNTIME": ("start, end, globalTid, correlationId, nameId", calls),
            "NVTX_EVENTS": ("start, end, eventType, globalTid, text", ranges),
            **more,
        }
    )


def nsys_kernels(n: int) -> bytes:
    return _nsys_run(n, lambda i: f"k{i % 20}", [f"step_{i}" for i in range(n // 100)])


def nsys_distinct_names(n: int) -> bytes:
    return _nsys_run(
        n, lambda i: f"kernel_{i}", [f"aten::op{i}, seq = {i}, op_id = {i}, sizes = [[{i}]]" for i in range(n)]
    )


def nsys_long_names(n: int) -> bytes:
    text = "a" * n + ", sizes = [[1" * (n // 10) + ", seq = 1" * (n // 10)
    overhead = ("start, end, globalTid, nameId", [(1, 2, _PID | 1000, 10)])
    return _nsys_run(2, lambda i: "a" * n, [text, "a::" * n, "autograd::" + "x" * n], PROFILER_OVERHEAD=overhead)


def nsys_diagnostics(n: int) -> bytes:
    texts = ("severity, text", [(2, "'/=" * n), (2, "a@" * n), (3, "a" * n + "=")])
    return _nsys_run(
        2,
        str,
        DIAGNOSTIC_EVENT=texts,
        META_DATA_CAPTURE=("name, value", [("ENVIRONMENT", f"K{i}=value{i}\n") for i in range(n)]),
    )


def nsys_processes(n: int) -> bytes:
    rows = [(10 * i + 5, 10 * i + 9, 0, 1, 7, i + 1, 1 << 48 | (i % 2000) << 24, 10, 10) for i in range(n)]
    return _nsys({"StringIds": ("id, value", [(10, "k")]), "CUPTI_ACTIVITY_KIND_KERNEL": (_KERNEL, rows)})


FAMILIES: dict[str, Callable[[int], bytes]] = {
    f.__name__: f
    for f in (
        plain, many_steps, nested_steps, overlapping_steps, steps_on_threads, kernels_at_one_instant,
        kernels_at_one_instant_on_streams, kernels_end_at_one_instant, all_at_one_instant, kernels_all_overlap, empty_kernels,
        launches_at_one_instant, launches_overlap, deep_ops, deep_ops_with_launches, deep_annotations, deep_python, many_threads,
        many_streams, many_devices, many_processes, distinct_names, distinct_shapes, long_name, long_namespaces, long_path, long_shape,
        syncs, waits_at_one_instant, collectives, world_size, memory_events, copies, graphs, flows, backward_links, one_sequence_number,
        one_correlation, blanks, commas, unclosed_strings, escaped_quotes, nested_brackets, exponents, digits, damaged_events, secrets,
        gzip_of_one_name, log_digits, log_lines, log_ranks, log_one_line, nsys_kernels, nsys_distinct_names, nsys_long_names,
        nsys_diagnostics, nsys_processes,
    )
}  # fmt: skip
