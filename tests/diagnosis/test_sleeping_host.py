"""A host that sleeps in a queue, a lock or a socket does no work that could be moved."""

import json

import pytest

from traceanalyzer.diagnosis.outside import sleep_of_host
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.ingest import load
from traceanalyzer.report.build import build_report

WAIT_US = 30_000
STEP_US = 5_000
KERNEL_US = 450


def events(frames, steps=4):
    """Steps of ten kernels, before each of which the host is within the frames for 30 ms."""
    at = 1_000
    for step in range(steps):
        for depth, name in enumerate(frames):
            ids = {"Python id": 100 * step + depth + 1}
            if depth:
                ids["Python parent id"] = 100 * step + depth
            yield event("python_function", name, at + depth, WAIT_US - 2 * depth, ids)
        at += WAIT_US
        yield event("user_annotation", "step", at, STEP_US, {})
        for kernel in range(10):
            link = {"correlation": 100 * step + kernel + 1}
            yield event("cuda_runtime", "cudaLaunchKernel", at + 10 * kernel, 6, link)
            place = {"stream": 7, "device": 0, "grid": [512, 1, 1], "block": [256, 1, 1]}
            start = at + 20 + KERNEL_US * kernel
            yield event("kernel", "sgemm_128x64", start, KERNEL_US, link | place)
        yield event("cuda_runtime", "cudaStreamSynchronize", at + 200, 4_400, {})
        at += STEP_US


def event(category, name, start_us, duration_us, args):
    where = {"pid": 0, "tid": 7} if category == "kernel" else {"pid": 1, "tid": 1}
    times = {"ts": start_us, "dur": duration_us}
    return {"ph": "X", "cat": category, "name": name, "args": args} | where | times


def run_of(tmp_path, frames):
    path = tmp_path / "trace.json"
    gpu = {"id": 0, "name": "NVIDIA H100 80GB HBM3"}
    document = {"schemaVersion": 1, "deviceProperties": [gpu], "traceEvents": list(events(frames))}
    path.write_text(json.dumps(document))
    return load([path])


@pytest.mark.parametrize(
    "frames",
    [
        ("queue.py(154): get", "<built-in method acquire of _thread.lock object at 0x7f>"),
        ("selectors.py(402): select", "<built-in method poll of select.epoll object at 0x7f>"),
        ("<built-in function sleep>",),
        ("socket.py(200): recv_multipart", "<built-in method recv of Socket object at 0x7f>"),
    ],
)
def test_nothing_is_promised_of_a_host_that_sleeps(tmp_path, frames):
    run = run_of(tmp_path, frames)
    report = build_report(run)
    assert sleep_of_host(measured(run).critical)
    assert "while the CPU waits for work itself" in report.summary.headline
    assert [advice.id for advice in report.recommendations if advice.cls == "host"] == []
    assert all(finding.headroom_ms is None for finding in report.findings if finding.cls == "host")


def test_work_of_the_host_stays_work(tmp_path):
    run = run_of(tmp_path, ("scheduler.py(77): plan",))
    assert not sleep_of_host(measured(run).critical)
    assert "while the CPU does other work" in build_report(run).summary.headline
