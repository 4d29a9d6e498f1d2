"""Advice on loading by what the recording shows of the loader."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import traceanalyzer as ta
from tests.analysis.build import TraceBuilder
from tests.recorded import recording
from traceanalyzer.analysis.groups.input_loading import OS_READS, loading
from traceanalyzer.diagnosis import loader_advice
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.trace import CopyKind, DeviceOpKind, Load, MemoryKind, RangeKind

ITERATORS = {
    False: "_SingleProcessDataLoaderIter",
    True: "_MultiProcessingDataLoaderIter",
    None: "Reader",
}


def program(
    workers: bool | None = False,
    *,
    source: MemoryKind = MemoryKind.PAGEABLE,
    inside: tuple[tuple[str, float, RangeKind], ...] = (),
    waits: tuple[float, ...] = (1000.0,) * 10,
    loads: tuple[Load, ...] = (),
) -> Measurements:
    """Steps that load for so many us, copy the batch, and compute for 500 us. `workers`: None for a
    reader of the program's own. `inside`: names in
    the loading, the share of it, and their kind."""
    b = TraceBuilder()
    now = 1000.0
    number = 0
    copy: dict[str, Any] = {
        "kind": DeviceOpKind.MEMCPY,
        "copy_kind": CopyKind.HOST_TO_DEVICE,
        "bytes": 1 << 20,
    }
    for i, wait in enumerate(waits):
        start = now
        b.annotation(f"enumerate(DataLoader)#{ITERATORS[workers]}.__next__", now, now + wait)
        at = now
        for name, share, kind in inside:
            b.op(name, at, at + share * wait, kind=kind)
            at += share * wait
        now += wait
        number += 2
        b.op("aten::to", now, now + 20).call("cudaMemcpyAsync", now + 5, now + 15, number)
        b.kernel("Memcpy HtoD", now + 15, now + 30, number, stream=7, source_memory=source, **copy)
        b.op("aten::mm", now + 20, now + 40).call(
            "cudaLaunchKernel", now + 25, now + 30, number + 1
        )
        b.kernel("gemm", now + 40, now + 540, number + 1, stream=7)
        b.call("cudaStreamSynchronize", now + 45, now + 545)
        now += 560
        b.annotation(f"ProfilerStep#{i}", start, now)
    return measure(replace(b.build(), loads=loads))


def advice(m: Measurements) -> str:
    return next(r.action for r in diagnose(m).recommendations if r.remedy == "data_loader_workers")


def test_a_loader_without_workers_gets_some() -> None:
    m = program()
    assert m.loading is not None
    assert (m.loading.workers, m.loading.pinned, m.loading.waiting_steps) == (
        False,
        False,
        m.loading.steps,
    )
    assert "num_workers=" in advice(m)
    assert "pin_memory=True" in advice(m)
    assert "OPENBLAS" not in advice(m)
    (told,) = [r for r in diagnose(m).recommendations if r.remedy == "data_loader_workers"]
    assert "OPENBLAS_NUM_THREADS=1" in told.basis


def test_memory_that_is_pinned_already_is_not_asked_for() -> None:
    m = program(source=MemoryKind.PINNED)
    assert m.loading is not None
    assert m.loading.pinned is True
    assert "pin_memory" not in advice(m)
    assert "num_workers=" in advice(m)


def test_workers_that_do_not_keep_up() -> None:
    m = program(workers=True)
    assert "raise num_workers" in advice(m)
    assert "num_workers=" not in advice(m)
    (told,) = [r for r in diagnose(m).recommendations if r.remedy == "data_loader_workers"]
    assert "not in the recording" in told.basis


def test_workers_that_start_anew_with_the_epoch() -> None:
    m = program(workers=True, waits=(10.0, 10.0, 20_000.0, *(10.0,) * 9))
    assert m.loading is not None
    assert (m.loading.waiting_steps, m.loading.steps) == (1, 12)
    action = loader_advice.action(m.loading)
    assert "1 of 12 steps wait" in action
    assert "persistent_workers=True" in action


@pytest.mark.parametrize(
    ("name", "kind", "stage", "word"),
    [
        ("train.py(12): default_collate", RangeKind.PYTHON, "collate", "preallocated"),
        ("aten::stack", RangeKind.OP, "collate", "preallocated"),
        ("PIL/Image.py(900): convert", RangeKind.PYTHON, "decode", "decode once"),
        ("data.py(7): tokenize", RangeKind.PYTHON, "tokenise", "store the ids"),
        (
            "torchvision/transforms/functional.py(1): resize",
            RangeKind.PYTHON,
            "transform",
            "whole batch",
        ),
        (
            "<built-in method read of _io.BufferedReader object at 0x7f>",
            RangeKind.PYTHON,
            "storage",
            "larger files",
        ),
    ],
)
def test_where_the_time_goes_is_told_with_what_to_do(
    name: str, kind: RangeKind, stage: str, word: str
) -> None:
    m = program(inside=((name, 0.6, kind),))
    assert m.loading is not None
    assert m.loading.stages == ((stage, pytest.approx(0.6, abs=0.01)),)
    assert word in advice(m)
    small = program(inside=((name, 0.1, kind),))
    assert word not in advice(small)


def test_reads_of_the_operating_system() -> None:
    m = program(inside=(("pread64", 0.5, RangeKind.OS), ("pthread_cond_wait", 0.3, RangeKind.OS)))
    assert m.loading is not None
    assert m.loading.os_share == pytest.approx(0.5, abs=0.01)
    assert "larger files" in advice(m)
    assert program().loading.os_share is None  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("call", "reads"),
    [
        ("read", True),
        ("openat64", True),
        ("poll", False),
        ("write", False),
        ("pthread_join", False),
    ],
)
def test_calls_that_read(call: str, reads: bool) -> None:
    assert bool(OS_READS.match(call)) is reads


def test_cpus_that_are_full_are_evidence() -> None:
    m = program(loads=(Load("host: CPUs busy", "%", 97.0, 80.0, 100.0, 50),))
    (finding,) = [f for f in diagnose(m).findings if f.id == "input-wait"]
    assert [(e.value, e.threshold) for e in finding.evidence if e.metric == "host: CPUs busy"] == [
        (0.97, 0.9)
    ]


def test_without_loading_nothing_is_said() -> None:
    m = measure(
        TraceBuilder()
        .op("aten::mm", 0, 10)
        .call("cudaLaunchKernel", 1, 2, 1)
        .kernel("k", 5, 9, 1)
        .build()
    )
    assert loading(m.timed, m.budgets) is None


@pytest.mark.parametrize(
    ("side", "workers", "pinned"), [("base", False, False), ("fix", True, True)]
)
def test_a_recorded_loader(side: str, workers: bool, pinned: bool) -> None:
    m = measured(ta.load(str(recording(f"kineto/slow_dataloader.{side}")))).critical
    assert m.loading is not None
    assert (m.loading.workers, m.loading.pinned) == (workers, pinned)
    assert m.loading.waiting_steps == (0 if workers else m.loading.steps)


def test_a_program_without_a_dataloader_has_to_be_given_one() -> None:
    with_loader = program(workers=False)
    assert advice(with_loader).startswith("Load ahead of the step: DataLoader(")
    assert loader_advice.load_ahead(with_loader, "").effort is None
    by_hand = program(workers=None)
    assert not loader_advice.has_loader(by_hand)
    assert "or threads of your own" in advice(by_hand)
    assert loader_advice.load_ahead(by_hand, "").effort == "hours"


def test_what_nsys_does_not_name_may_be_a_dataloader() -> None:
    by_hand = program(workers=None)
    assert loader_advice.has_loader(measure(replace(by_hand.trace, source="nsys")))
