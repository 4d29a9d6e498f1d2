"""Inputs by name and size: shapes of recordings, honest and hostile, whose cost must not grow
faster than n log n."""

import gzip
import json
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

Row = dict[str, Any]
Of = Callable[[int], Any]
Family = Callable[[int], bytes]


def _span(
    cat: str, name: str, ts: float, dur: float, tid: int = 1, pid: int = 1, **args: Any
) -> Row:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def _op(name: str, ts: float, dur: float, tid: int = 1, **args: Any) -> Row:
    return _span("cpu_op", name, ts, dur, tid, **args)


def _launch(
    i: int,
    at: float,
    start: float,
    dur: float,
    stream: int = 7,
    tid: int = 1,
    name: str = "k",
    **args: Any,
) -> list[Row]:
    placed = {"device": 0, "context": 1, "stream": stream, "correlation": i + 1, **args}
    return [
        _span("cuda_runtime", "cudaLaunchKernel", at, 1, tid, correlation=i + 1),
        _span("kernel", name, start, dur, stream, 0, **placed),
    ]


def _trace(rows: Iterable[Row], **metadata: Any) -> bytes:
    return json.dumps(metadata | {"schemaVersion": 1, "traceEvents": list(rows)}).encode()


ONE = _launch(0, 1, 5, 5)


def _steps(n: int, count: int = 4) -> list[Row]:
    """`count` steps over 10 us for each of n things."""
    length = 10 * max(n, 1) / count
    return [_span("user_annotation", f"ProfilerStep#{i}", i * length, length) for i in range(count)]


def _step(i: int, ts: float, dur: float, tid: int = 1) -> Row:
    return _span("user_annotation", f"ProfilerStep#{i}", ts, dur, tid)


def _rows(n: int, *parts: Of) -> list[Row]:
    """For each of n things the rows that the parts make of its number, part by part: a row, or
    several."""
    made = ((part(i) for part in parts) for i in range(n))
    return [
        row for one in made for some in one for row in (some if isinstance(some, list) else [some])
    ]


def _usual(n: int, *parts: Of, last: Iterable[Row] = ()) -> bytes:
    """Four steps, and n things in them."""
    return _trace([*_steps(n), *_rows(n, *parts), *last])


def _at(start: Of, dur: Of, at: Of = lambda i: 10 * i, **how: Of) -> Of:
    """A launch, by default one every 10 us."""
    return lambda i: _launch(
        i, at(i), start(i), dur(i), **{name: of(i) for name, of in how.items()}
    )


def _later(i: int) -> float:
    return 10 * i + 5


def _every(**how: Of) -> Of:
    """A launch and its kernel of 4 us, every 10 us."""
    return _at(_later, lambda _: 4, **how)


def _inside(**how: Of) -> Of:
    """The same, launched within an operator."""
    return _every(at=lambda i: 10 * i + 1, **how)


def _named(kind: str, number: int) -> str:
    return f"{kind}{number % 20}"


def _changed(rows: list[Row], of: str, /, **to: Any) -> list[Row]:
    return [row | to if row["cat"] == of else row for row in rows]


def _shape(i: int) -> list[Row]:
    named = {
        "Input Dims": [[i + 1, 64], [64, 32]],
        "Input type": ["float", "float"],
        "External id": i,
    }
    return [
        _op("aten::mm", 10 * i, 8, **named),
        *_launch(i, 10 * i + 1, 10 * i + 5, 4, name="sgemm"),
    ]


def _collective(i: int) -> list[Row]:
    named = {
        "Collective name": "allreduce",
        "In msg nelems": i + 1,
        "Out msg nelems": i + 1,
        "Group size": 8,
        "dtype": "Float",
        "Process Group Name": str(i % 7),
    }
    nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"
    return [
        *_launch(2 * i, 10 * i, 10 * i + 2, 3),
        *_launch(2 * i + 1, 10 * i + 1, 10 * i + 4, 5, 20, name=nccl, **named),
    ]


def _graph(i: int) -> list[Row]:
    first = i % 50 == 0
    rows = _launch(i // 50, 10 * (i // 50) * 50, 10 * i + 5, 4, **{"graph id": 1})
    return [rows[0] | {"name": "cudaGraphLaunch"}, rows[1]] if first else rows[1:]


def _backward(number: Of) -> Family:
    """Operators and what the autograd engine makes of them, with sequence numbers."""
    name = "autograd::engine::evaluate_function: MmBackward0"
    return lambda n: _usual(
        n,
        lambda i: _op("aten::mm", 10 * i, 4, **{"Sequence number": number(i)}),
        lambda i: _launch(i, 10 * i + 1, 10 * i + 2, 3),
        lambda i: _op(name, 10 * i + 5, 4, 2, **{"Sequence number": number(i), "Fwd thread id": 1}),
    )


def _wait(n: int) -> Of:
    at = {"stream": 7, "device": 0, "wait_on_stream": 9}
    return lambda i: _span("cuda_sync", "Stream Wait Event", 5 * n, 1, 7, 0, **at, correlation=i)


def _memory(i: int) -> Row:
    args = {"Bytes": 512, "Total Allocated": 512 * i, "Device Type": 1, "Device Id": 0}
    return {"ph": "i", "name": "[memory]", "ts": 10 * i, "args": args}


def _flow(i: int) -> list[Row]:
    return [
        {"ph": ph, "id": i, "pid": 1, "tid": 1, "ts": i, "cat": "ac2g", "name": "ac2g"}
        for ph in "sf"
    ]


def _nested(kind: str, name: str, **args: Of) -> Of:
    """Ranges of which each is within the one before it, of n."""
    return lambda n: (
        lambda i: _span(
            kind, name.format(i), i, 10 * n - 2 * i, **{k: of(i) for k, of in args.items()}
        )
    )


_PYTHON = _nested("python_function", "a.py({}): f", **{"Python id": lambda i: i + 1})
_PART = _nested("user_annotation", "part {}")
_EVENTS = b'{"traceEvents":['

KINETO: dict[str, Family] = {
    "plain": lambda n: _usual(n, lambda i: _op(_named("aten::op", i), 10 * i, 8), _inside()),
    "many_steps": lambda n: _trace(_rows(n, lambda i: _step(i, 10 * i, 10), _inside())),
    "nested_steps": lambda n: _trace(
        _rows(n, lambda i: _step(i, i, 2 * (2 * n - i)))
        + _rows(n, _at(lambda i: i + 1, lambda _: 1, at=lambda i: i))
    ),
    "overlapping_steps": lambda n: _trace(
        _rows(n, lambda i: _step(i, i, n))
        + _rows(n, _at(lambda i: i + 1, lambda _: 1, at=lambda i: i))
    ),
    "steps_on_threads": lambda n: _trace(
        _rows(n, lambda i: _step(i, 10 * i, 10, tid=i))
        + _rows(n, _at(lambda i: 10 * i + 1, lambda _: 1))
    ),
    "kernels_at_one_instant": lambda n: _usual(n, _at(lambda _: 5 * n, lambda _: 5)),
    "kernels_at_one_instant_on_streams": lambda n: _usual(
        n, _at(lambda _: 5 * n, lambda _: 5, stream=lambda i: i % 64)
    ),
    "kernels_end_at_one_instant": lambda n: _usual(
        n, _at(_later, lambda i: 10 * n - 10 * i, stream=lambda i: 7 + i % 2)
    ),
    "all_at_one_instant": lambda n: _usual(
        n, _at(lambda _: 5 * n, lambda _: 5, at=lambda _: 1, stream=lambda i: 7 + i % 3)
    ),
    "kernels_all_overlap": lambda n: _usual(n, _at(lambda i: 10 * i + 1, lambda _: 10 * n)),
    "empty_kernels": lambda n: _usual(n, _at(lambda _: 5 * n, lambda _: 0)),
    "launches_at_one_instant": lambda n: _usual(
        n, _at(lambda i: 10 * i, lambda _: 5, at=lambda _: 1)
    ),
    "launches_overlap": lambda n: _trace(
        _steps(n) + _changed(_rows(n, _every()), "cuda_runtime", dur=10 * n)
    ),
    "deep_ops": lambda n: _usual(
        n, lambda i: _op(_named("aten::op", i), i, 10 * n - 2 * i), last=_launch(0, n, n + 5, 5)
    ),
    "deep_ops_with_launches": lambda n: _usual(
        n,
        lambda i: _op(_named("aten::op", i), 4 * i, 10 * n - 4 * i),
        _at(lambda i: 4 * i + 2, lambda _: 2, at=lambda i: 4 * i + 1),
    ),
    "deep_annotations": lambda n: _usual(n, _PART(n), last=_launch(0, n, n + 5, 5)),
    "deep_python": lambda n: _usual(
        n, _PYTHON(n), last=_rows(n, _at(lambda i: n + i + 5, lambda _: 1, at=lambda i: n + i))
    ),
    "many_threads": lambda n: _usual(
        n, lambda i: _op("aten::add", 10 * i, 8, tid=i), _inside(tid=lambda i: i)
    ),
    "many_streams": lambda n: _usual(n, _every(stream=lambda i: i)),
    "many_devices": lambda n: _usual(n, _every(device=lambda i: i % 4096)),
    "many_processes": lambda n: _usual(
        n, lambda i: _op("aten::add", 10 * i, 8) | {"pid": i}, last=ONE
    ),
    "distinct_names": lambda n: _usual(
        n, lambda i: _op(f"op{i}", 10 * i, 8), _inside(name=lambda i: f"kernel_{i}")
    ),
    "distinct_shapes": lambda n: _usual(n, _shape),
    "long_name": lambda n: _trace(_steps(4) + _launch(0, 1, 5, 5, name="k" * n)),
    "long_namespaces": lambda n: _trace(
        [
            *_steps(4),
            _op("a::" * n, 1, 5),
            *_launch(0, 1, 5, 5, name="void a::" + "b::" * n + "k<" + "c<" * n),
        ]
    ),
    "long_path": lambda n: _trace(
        [
            *_steps(4),
            _span("python_function", "/" + "a/" * n + "b.py(3): f", 1, 30),
            *_launch(0, 3, 5, 5, name="=a/b:" * n),
        ]
    ),
    "long_shape": lambda n: _trace(
        [
            *_steps(4),
            _op("aten::cat", 1, 5, **{"Input Dims": [[[1]] * n], "Input type": ["TensorList"]}),
            *ONE,
        ]
    ),
    "syncs": lambda n: _usual(
        n,
        lambda i: _span(
            "cuda_runtime", "cudaStreamSynchronize", 10 * i + 5, 4, correlation=n + i + 1
        ),
        last=_rows(n, _every()),
    ),
    "waits_at_one_instant": lambda n: _usual(n, _wait(n), last=_rows(n, _every())),
    "collectives": lambda n: _trace(
        _steps(n) + _rows(n, _collective), distributedInfo={"rank": 0, "world_size": 8}
    ),
    "world_size": lambda n: _trace(_steps(4) + ONE, distributedInfo={"rank": 0, "world_size": n}),
    "memory_events": lambda n: _usual(n, _memory, last=ONE),
    "copies": lambda n: _trace(
        _steps(n)
        + _changed(
            _rows(n, _every(name=lambda _: "Memcpy HtoD (Pageable -> Device)", bytes=lambda i: i)),
            "kernel",
            cat="gpu_memcpy",
        )
    ),
    "graphs": lambda n: _usual(n, _graph),
    "flows": lambda n: _trace(_steps(4) + ONE + _rows(n, _flow)),
    "backward_links": _backward(lambda i: i),
    "one_sequence_number": _backward(lambda _: 1),
    "one_correlation": lambda n: _usual(n, lambda i: _launch(0, 10 * i, 10 * i + 5, 4)),
    "blanks": lambda n: _EVENTS + b" " * (16 * n) + _trace(ONE)[38:],
    "commas": lambda n: _EVENTS + b"} , " * (4 * n) + b"{" * n,
    "unclosed_strings": lambda n: _EVENTS + b'{"ph":"X","name":' + b'": "' * (4 * n),
    "escaped_quotes": lambda n: _EVENTS + b'{"ph":"X","name":"' + b'\\"' * (4 * n) + b"\n\x00",
    "nested_brackets": lambda n: _EVENTS + b'{"ph":"X","args":' + b'{"args":' * n,
    "exponents": lambda n: _trace(ONE).replace(
        b'"ts": 1,', b'"ts": 1e' + b"9" * min(n, 6) + b",", 1
    ),
    "digits": lambda n: _trace(ONE).replace(b'"ts": 1,', b'"ts": ' + b"9" * n + b",", 1),
    "damaged_events": lambda n: (
        _EVENTS
        + b",".join(
            b'{"ph":"X","cat":"cpu_op","name":"a"b","ts":%d,"dur":1,"args":{}}' % i
            for i in range(n)
        )
        + b"]}"
    ),
    "secrets": lambda n: _usual(n, _every(name=lambda i: f"user{i}@host{i} /home/u{i}/x")),
    "gzip_of_one_name": lambda n: gzip.compress(KINETO["long_name"](64 * n), 1),
}

_ITERATION = b"time (ms) | forward_microstep: 193.65 | backward_microstep: "
LOGS: dict[str, Family] = {
    "log_digits": lambda n: (_ITERATION + b"1" * min(n, 4000) + b"\n") * (n // 100 + 1),
    "log_lines": lambda n: b"".join(
        b"iteration %d/ 9 | elapsed time per iteration (ms): 12.5 | loss\n" % i for i in range(n)
    ),
    "log_ranks": lambda n: b"".join(
        b'{"step": %d, "iter_ms": 12.5, "rank": %d}\n' % (i // 4, i) for i in range(n)
    ),
    "log_one_line": lambda n: b"step: 1 loss: " * n,
}


def _nsys(tables: dict[str, tuple[str, list[tuple[Any, ...]]]]) -> bytes:
    db = sqlite3.connect(":memory:")
    for name, (columns, rows) in tables.items():
        db.execute(f"CREATE TABLE {name} ({columns})")
        places = ",".join("?" * len(columns.split(",")))
        db.executemany(f"INSERT INTO {name} VALUES ({places})", rows)  # noqa: S608
    db.commit()
    data = db.serialize()
    db.close()
    return data


_KERNEL = (
    "start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName, shortName"
)
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


def _long_names(n: int) -> bytes:
    text = "a" * n + ", sizes = [[1" * (n // 10) + ", seq = 1" * (n // 10)
    overhead = ("start, end, globalTid, nameId", [(1, 2, _PID | 1000, 10)])
    return _nsys_run(
        2, lambda i: "a" * n, [text, "a::" * n, "autograd::" + "x" * n], PROFILER_OVERHEAD=overhead
    )


def _diagnostics(n: int) -> bytes:
    texts = ("severity, text", [(2, "'/=" * n), (2, "a@" * n), (3, "a" * n + "=")])
    variables = ("name, value", [("ENVIRONMENT", f"K{i}=value{i}\n") for i in range(n)])
    return _nsys_run(2, str, DIAGNOSTIC_EVENT=texts, META_DATA_CAPTURE=variables)


def _processes(n: int) -> bytes:
    rows = [
        (10 * i + 5, 10 * i + 9, 0, 1, 7, i + 1, 1 << 48 | (i % 2000) << 24, 10, 10)
        for i in range(n)
    ]
    return _nsys(
        {"StringIds": ("id, value", [(10, "k")]), "CUPTI_ACTIVITY_KIND_KERNEL": (_KERNEL, rows)}
    )


NSYS: dict[str, Family] = {
    "nsys_kernels": lambda n: _nsys_run(
        n, lambda i: f"k{i % 20}", [f"step_{i}" for i in range(n // 100)]
    ),
    "nsys_distinct_names": lambda n: _nsys_run(
        n,
        lambda i: f"kernel_{i}",
        [f"aten::op{i}, seq = {i}, op_id = {i}, sizes = [[{i}]]" for i in range(n)],
    ),
    "nsys_long_names": _long_names,
    "nsys_diagnostics": _diagnostics,
    "nsys_processes": _processes,
}
FAMILIES = KINETO | LOGS | NSYS
