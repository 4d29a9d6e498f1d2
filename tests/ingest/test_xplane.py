# ruff: noqa: S311, PT017 damage by chance, from a seed; either outcome is right, but an error has one line
"""JAX's XPlane and its JSON: by hand, against a slow reading of the raw bytes, cut and damaged."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.protobuf import message, parse, varint
from tests.xplane_builder import Plane, space
from traceanalyzer.analysis.joined.joined import framework
from traceanalyzer.analysis.names import Framework
from traceanalyzer.base.errors import EmptyRecordingError, TraceAnalyzerError, UnreadableInputError
from traceanalyzer.base.limits import raised
from traceanalyzer.ingest import load
from traceanalyzer.ingest.xplane.host import UNNAMED_LAUNCH
from traceanalyzer.ingest.xplane.reader import MOST_EVENTS
from traceanalyzer.report.build import build_report
from traceanalyzer.trace import CopyKind, DeviceOpKind, MemoryKind, RangeKind

DATA = Path(__file__).parents[1] / "data" / "xplane"
FILES = sorted(DATA.glob("*.gz"))
US = 1_000_000
MS = 1_000_000_000
"""In ps."""
START = 1_795_000_000_000_000_000
KERNEL = "regs:40 static_shared:1024 dynamic_shared:512 grid:8,4,1 block:128,1,1 occ_pct:50"
COPY = "kind_src:pageable kind_dst:device size:4096 dest:0 async:1"


def hlo(op: str, module: str = "jit_train_step") -> dict[str, int | str]:
    return {"hlo_op": op, "hlo_module": module, "program_id": 3}


def small(gpu: str = "/device:GPU:0", steps: int = 4) -> list[Plane]:
    """A training loop: in each step two kernels by two launches and a copy."""
    device = {
        "device_vendor": "NVIDIA",
        "core_count": 132,
        "memory_size": 85_000_000_000,
        "clock_rate": 1_980_000,
    }
    device |= {
        "compute_cap_major": 9,
        "compute_cap_minor": 0,
        "memory_bandwidth": 3_350_000_000_000,
    }
    kernels = []
    copies = []
    host = []
    for i in range(steps):
        at = i * MS
        one = 10 * i + 1
        detail = {"kernel_details": KERNEL}
        kernels.append(
            ("gemm", at + 20 * US, 300 * US, {"correlation_id": one, **detail, **hlo("dot.1")})
        )
        kernels.append(
            (
                "loop_fusion",
                at + 320 * US,
                200 * US,
                {"correlation_id": one + 1, **detail, **hlo("fusion.2")},
            )
        )
        copies.append(
            (
                "MemcpyH2D",
                at + 600 * US,
                50 * US,
                {"correlation_id": one + 2, "memcpy_details": COPY},
            )
        )
        host.append(("train", at, 900 * US, {"_r": 1, "step_num": 7 + i}))
        host.append(("PjitFunction(train_step)", at + 1 * US, 100 * US, {}))
        host.append(("cuLaunchKernel", at + 5 * US, 5 * US, {"correlation_id": one}))
        host.append(("cuLaunchKernel", at + 12 * US, 5 * US, {"correlation_id": one + 1}))
        host.append(("cudaMemcpyAsync_v3020", at + 30 * US, 5 * US, {"correlation_id": one + 2}))
        host.append(("$train.py:12 step", at, 800 * US, {}))
        host.append(("$builtins len", at + 2 * US, 1 * US, {}))
        memory = {
            "allocation_bytes": 256,
            "bytes_allocated": 1024 + i,
            "bytes_reserved": 2048,
            "addr": 77,
        }
        host.append(("MemoryAllocation", at + 40 * US, 0, memory | {"allocator_name": "GPU_0_bfc"}))
        host.append(("ThreadpoolListener::StartRegion", at + 41 * US, 0, {}))
    one = (
        Plane(gpu, device)
        .line(13, "Stream #13(Compute)", kernels, 1000)
        .line(14, "Stream #14(MemcpyH2D)", copies, 1000)
    )
    task = Plane(
        "Task Environment", {"profile_start_time": START, "profile_stop_time": START + 10**10}
    )
    return [one, Plane("/host:CPU").line(70, "python", host, 500), task]


def read(folder, data, name="host1.xplane.pb"):
    path = folder / name
    path.write_bytes(bytes(data))
    (trace,) = load([path]).traces
    return trace


def names(trace, table):
    return [trace.text(code) for code in table.name]


def test_what_a_hand_made_profile_says(tmp_path):
    trace = read(tmp_path, space(*small(steps=1), warnings=("dropped 3 events",)))
    ops = trace.device_ops
    assert (trace.source, trace.epoch_ns, trace.window) == ("xplane", START, (0, 10**10))
    assert names(trace, ops) == ["gemm", "loop_fusion", "MemcpyH2D"]
    assert ops.kind.tolist() == [DeviceOpKind.KERNEL, DeviceOpKind.KERNEL, DeviceOpKind.MEMCPY]
    assert (ops.start.tolist(), ops.end.tolist()) == (
        [21_000, 321_000, 601_000],
        [321_000, 521_000, 651_000],
    )
    assert (ops.stream.tolist(), ops.correlation.tolist()) == ([13, 13, 14], [1, 2, 3])
    assert (
        ops.blocks[0],
        ops.threads[0],
        ops.registers[0],
        ops.shared_bytes[0],
        ops.occupancy[0],
    ) == (
        32,
        128,
        40,
        1536,
        50,
    )
    assert (ops.bytes.tolist(), ops.copy_kind.tolist()) == (
        [-1, -1, 4096],
        [0, 0, CopyKind.HOST_TO_DEVICE],
    )
    assert (ops.source_memory[2], ops.target_memory[2]) == (MemoryKind.PAGEABLE, MemoryKind.DEVICE)
    (device,) = trace.devices
    assert (device.sm_count, device.memory_bytes, device.compute_capability) == (
        132,
        85_000_000_000,
        (9, 0),
    )
    assert (device.bandwidth, device.clock_hz) == (3.35e12, 1.98e9)
    assert "The recorder reports: dropped 3 events" in trace.health.notes
    assert trace.health.skipped == 1  # a moment of the thread pool


def test_what_the_host_says(tmp_path):
    trace = read(tmp_path, space(*small(steps=1)))
    ranges = trace.host_ranges
    kinds = defaultdict(list)
    for kind, name in zip(ranges.kind.tolist(), names(trace, ranges), strict=True):
        kinds[kind].append(name)
    assert kinds[RangeKind.ANNOTATION] == ["train step_num=7", "PjitFunction(train_step)"]
    assert kinds[RangeKind.PYTHON] == ["train.py(12): step", "<built-in function len>"]
    assert kinds[RangeKind.OP] == ["jit_train_step/dot.1", "jit_train_step/fusion.2"]
    assert names(trace, trace.api_calls) == ["cuLaunchKernel", "cuLaunchKernel", "cudaMemcpyAsync"]
    memory = trace.memory_events
    assert (memory.device.tolist(), memory.bytes.tolist(), memory.allocated.tolist()) == (
        [0],
        [256],
        [1024],
    )
    assert (trace.threads[0].tid, trace.threads[0].name, trace.process.host) == (
        "70",
        "python",
        "node1",
    )


def replay(node):
    return {"cuda_graph_id": 10, "cuda_graph_node_id": 50 + node}


def test_a_replayed_graph_is_of_its_module(tmp_path):
    """One launch with kernels of two operators: no one of them is the launch's."""
    gpu = Plane("/device:GPU:1").line(
        5,
        "Stream #5(Kernel)",
        [
            (
                f"k{i}",
                i * US,
                US,
                {"correlation_id": 9, "kernel_details": KERNEL, **replay(i), **hlo(f"fusion.{i}")},
            )
            for i in range(2)
        ],
    )
    gpu.stats |= {"device_vendor": "Nvidia", "gpu_device_name": "NVIDIA H200"}
    host = Plane("/host:CPU").line(
        1, "python", [("cuGraphLaunch (CudaGraph:10)", 0, US, {"correlation_id": 9})]
    )
    trace = read(tmp_path, space(gpu, host))
    assert names(trace, trace.host_ranges) == ["jit_train_step"]
    assert names(trace, trace.api_calls) == ["cuGraphLaunch"]
    assert (trace.device_ops.graph.tolist(), trace.device_ops.graph_node.tolist()) == (
        [10, 10],
        [50, 51],
    )
    assert trace.devices[0].name == "NVIDIA H200"


def test_rows_of_xlas_own_analysis_are_no_work(tmp_path):
    planes = small()
    planes[0].line(90, "XLA Modules", [("jit_train_step", 0, 4 * MS, {})]).line(
        91, "XLA Ops", [("dot.1", 0, MS, {})]
    )
    trace = read(tmp_path, space(*planes))
    assert len(trace.device_ops) == 12
    assert any("2 rows on devices repeat others" in note for note in trace.health.notes)


def test_addresses_in_place_of_registers_are_not_recorded(tmp_path):
    garbage = (
        "regs:2191500840 static_shared:32462 dynamic_shared:0 grid:12,1,1 block:256,1,1 occ_pct:0"
    )
    ours = [
        ("k", 0, US, {"kernel_details": garbage}),
        ("j", US, US, {"kernel_details": "grid:4,1,1 block:64,1,1 group_mem:96"}),
    ]
    ops = read(
        tmp_path, space(Plane("/device:GPU:0").line(1, "Stream #1(Kernel)", ours))
    ).device_ops
    assert (ops.registers.tolist(), ops.shared_bytes.tolist()) == ([-1, -1], [-1, 96])
    assert (ops.blocks.tolist(), ops.occupancy.tolist()) == ([12, 4], [-1, -1])


def test_a_launch_that_has_the_name_of_its_kernel(tmp_path):
    gpu = Plane("/device:GPU:0").line(
        1, "Stream #1(Kernel)", [("gemm", US, US, {"correlation_id": 4})]
    )
    host = Plane("/host:CPU").line(1, "main", [("gemm", 0, US, {"correlation_id": 4})])
    trace = read(tmp_path, space(gpu, host))
    assert names(trace, trace.api_calls) == [UNNAMED_LAUNCH]


def test_operators_of_a_tpu_are_those_that_hold_no_other(tmp_path):
    tpu = Plane("/device:TPU:2").line(
        2,
        "XLA Ops",
        [
            ("while.1", 0, 10 * US, hlo("while.1")),
            ("fusion.1", US, US, {}),
            ("fusion.1", 3 * US, US, {}),
        ],
    )
    tpu.line(1, "XLA Modules", [("jit_f", 0, 10 * US, {})]).line(
        3, "Source code", [("a.py", 0, US, {})]
    )
    trace = read(tmp_path, space(tpu))
    assert (names(trace, trace.device_ops), trace.device_ops.device.tolist()) == (
        ["fusion.1"] * 2,
        [2, 2],
    )
    assert names(trace, trace.device_ranges) == ["jit_f"]


def test_times_of_old_recordings_count_from_the_epoch(tmp_path):
    gpu = Plane("/device:GPU:0").line(
        1, "Stream #1(Kernel)", [("k", 0, US, {"kernel_details": KERNEL})], START + 5000
    )
    task = Plane("Task Environment", {"profile_start_time": START})
    trace = read(tmp_path, space(gpu, task))
    assert (trace.device_ops.start.tolist(), trace.epoch_ns) == ([5000], START)


def test_steps_words_and_operators_of_the_report(tmp_path):
    report = build_report(load([_written(tmp_path, space(*small(steps=5)))]))
    assert (report.inputs[0].kind, report.metrics.step_source) == ("xplane", "annotation")
    assert report.metrics.step_time_ms.median == pytest.approx(1.0, rel=0.01)
    assert {row.name for row in report.tables["ops"]} >= {
        "jit_train_step/dot.1",
        "jit_train_step/fusion.2",
    }
    said = " ".join([*report.notes, *(one.action for one in report.recommendations)])
    assert not re.search(r"torch|DataLoader|record_function", said)


def _written(folder, data, name="host1.xplane.pb"):
    path = folder / name
    path.write_bytes(bytes(data))
    return path


def test_a_recording_of_xla_is_a_program_in_jax(tmp_path):
    gpu = Plane("/device:GPU:0").line(
        1, "Stream #1(Kernel)", [("k", 0, US, {"kernel_details": KERNEL})]
    )
    assert framework(read(tmp_path, space(gpu))) is Framework.JAX


def chrome(*planes: Plane, empty: bool = True) -> dict:
    """The JSON that JAX writes of these planes, from their bytes."""
    events: list[dict] = []
    for pid, plane in enumerate(planes, 1):
        found = read_plane(bytes(plane))
        events.append(
            {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": found["name"]}}
        )
        for tid, name, rows in found["lines"]:
            events.append(
                {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}
            )
            for title, start, end, stats in rows:
                args = {"args": {key: str(value) for key, value in stats.items()}} if stats else {}
                times = {"ts": start / 1e3, "dur": (end - start) / 1e3}
                events.append({"ph": "X", "pid": pid, "tid": tid, "name": title, **times, **args})
    return {
        "displayTimeUnit": "ns",
        "metadata": {"highres-ticks": True},
        "traceEvents": events + [{}] * empty,
    }


def read_plane(raw: bytes) -> dict:
    """Name and lines of a plane, the slow way."""
    fields_ = parse(raw)
    stat_names, event_names = (
        {
            dict(parse(entry))[1]: dict(parse(dict(parse(entry))[2]))[2].decode()
            for n, entry in fields_
            if n == table
        }
        for table in (5, 4)
    )

    def stat(entry):
        one = dict(parse(entry))
        value = stat_names[one[7]] if 7 in one else one.get(3, one.get(4, one.get(5, b"")))
        return stat_names[one[1]], value.decode() if isinstance(value, bytes) else value

    lines = []
    for line in (dict_ for number, dict_ in fields_ if number == 3):
        head = dict(parse(line))
        rows = []
        for event in (value for number, value in parse(line) if number == 4):
            one = dict(parse(event))
            start = head.get(3, 0) * 1000 + one.get(2, 0)
            stats = dict(stat(value) for number, value in parse(event) if number == 4)
            rows.append(
                (event_names[one[1]], start // 1000, (start + one.get(3, 0)) // 1000, stats)
            )
        lines.append((head.get(1, 0), head.get(2, b"").decode(), rows))
    return {"name": dict(fields_)[2].decode(), "lines": lines}


def test_the_json_says_the_same(tmp_path):
    planes = small()
    one = read(tmp_path, space(*planes))
    data = json.dumps(chrome(*planes[:2])).encode()
    other = read(tmp_path, gzip.compress(data), "vm.trace.json.gz")
    for table in ("device_ops", "api_calls", "host_ranges", "memory_events"):
        a, b = (getattr(trace, table).to_frame(trace.strings) for trace in (one, other))
        assert a.equals(b), table
    assert (one.epoch_ns, other.epoch_ns) == (START, 0)
    assert any("exact" in note for note in other.health.notes)


def test_of_a_folder_the_exact_form_is_read(tmp_path):
    planes = small()
    _written(tmp_path, space(*planes))
    _written(
        tmp_path, gzip.compress(json.dumps(chrome(*planes[:2])).encode()), "host1.trace.json.gz"
    )
    _written(
        tmp_path, gzip.compress(json.dumps(chrome(*planes[:2])).encode()), "perfetto_trace.json.gz"
    )
    assert [Path(trace.path).name for trace in load([tmp_path]).traces] == ["host1.xplane.pb"]


def test_hosts_of_one_run_are_numbered(tmp_path):
    for host in ("b", "a"):
        _written(tmp_path, space(*small(), host=host), f"{host}.xplane.pb")
    traces = load([tmp_path]).traces
    assert [(trace.process.host, trace.rank) for trace in traces] == [("a", 0), ("b", 1)]


def test_json_that_is_cut_off_names_the_other_form(tmp_path):
    data = json.dumps(chrome(*small()[:2])).encode()
    for text, name in (
        (data[:-300], "a.trace.json"),
        (gzip.compress(data[:-300]), "b.trace.json.gz"),
    ):
        with pytest.raises(UnreadableInputError, match=r"\.xplane\.pb beside it"):
            read(tmp_path, text, name)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.partition(".")[0])
def test_every_row_of_a_real_profile(path):
    """Rows and times of all devices, and the busy time of each, against a slow reading of the
    bytes."""
    (trace,) = load([path]).traces
    wanted = defaultdict(list)
    for _, raw in [field for field in parse(gzip.decompress(path.read_bytes())) if field[0] == 1]:
        match = re.match(rb"/device:GPU:(\d+)", dict(parse(raw)).get(2, b""))
        for _, _, rows in read_plane(raw)["lines"] if match else ():
            wanted[int(match[1])] += [
                (n, s, e, stats.get("correlation_id")) for n, s, e, stats in rows
            ]
    ops = trace.device_ops
    found = defaultdict(list)
    for i, device in enumerate(ops.device.tolist()):
        found[device].append(
            (trace.text(ops.name[i]), int(ops.start[i]), int(ops.end[i]), int(ops.correlation[i]))
        )
    assert {d: sorted(rows) for d, rows in found.items()} == {
        d: sorted(rows) for d, rows in wanted.items()
    }


GOLDEN = {
    "jax08_mi300x_8gpu": {0: (60, 0, 3_995_965, 138_470_832), 7: (25, 0, 3_502_165, 90_563_059)},
    "jax_legacy_mi300x": {0: (0, 53, 889_028, 27_867_728), 7: (25, 0, 3_586_493, 15_761_301)},
}


@pytest.mark.parametrize("name", GOLDEN)
def test_figures_of_real_profiles(name):
    (trace,) = load([DATA / f"{name}.xplane.pb.gz"]).traces
    for device, golden in GOLDEN[name].items():
        ops = trace.device_ops.take(trace.device_ops.device == device)
        busy = reach = 0
        for start, end in sorted(zip(ops.start.tolist(), ops.end.tolist(), strict=True)):
            busy += max(end - max(start, reach), 0)
            reach = max(reach, end)
        kernels, copies = (
            (ops.kind == kind).sum() for kind in (DeviceOpKind.KERNEL, DeviceOpKind.MEMCPY)
        )
        assert (kernels, copies, busy, int(ops.end.max() - ops.start.min())) == golden
    launched = set(trace.api_calls.correlation.tolist())
    assert launched >= set(trace.device_ops.correlation.tolist())


def test_a_cut_profile_is_read_as_far_as_it_goes(tmp_path):
    data = space(*small(steps=50))
    for share in (0.2, 0.6, 0.95):
        path = _written(tmp_path, data[: int(len(data) * share)])
        try:
            (trace,) = load([path]).traces
        except UnreadableInputError as error:
            assert "cut off" in str(error)
            continue
        assert trace.health.truncated


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_costs_events_not_the_answer(tmp_path, seed):
    data = bytearray(gzip.decompress(FILES[0].read_bytes()))
    dice = random.Random(seed)
    for _ in range(dice.choice((1, 30, 3000))):
        data[dice.randrange(len(data))] = dice.randrange(256)
    try:
        build_report(load([_written(tmp_path, data)]))
    except TraceAnalyzerError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    "plane",
    [
        message((2, "/device:GPU:0")) + varint(3 << 3 | 2) + varint(2**60),
        message(
            (2, "/device:GPU:0"),
            (3, message((1, 2**63), (2, "Stream #1"), (3, 2**63), (4, b"\xff" * 50))),
        ),
        message((2, "/host:CPU"), *((3, message((4, b""))) for _ in range(5_000))),
        message((2, "/device:GPU:3")) + b"\x08\x01" * 1_000_000,
    ],
    ids=["giant", "garbage", "many-lines", "many-fields"],
)
def test_planes_that_promise_too_much(tmp_path, plane):
    trace = read(tmp_path, space(*small()) + message((1, plane)))
    assert len(trace.device_ops) == 12


def test_numbers_beyond_the_columns_are_lost_or_not_recorded(tmp_path):
    events = [
        ("k", 2**63 - 1, US, {}),
        ("k", 0, 2**62, {}),
        ("k", 0, US, {"correlation_id": 2**63 - 1}),
        ("k", 0, US, {"kernel_details": "regs:9" + "9" * 5000 + " grid:" + "9" * 400 + ",1,1"}),
    ]
    trace = read(tmp_path, space(Plane("/device:GPU:0").line(2**64 - 1, "Stream #1", events)))
    assert (len(trace.device_ops), trace.health.lost) == (2, 2)
    assert trace.device_ops.blocks.tolist() == [-1, -1]


def test_a_file_that_goes_on_for_ever_is_refused(tmp_path):
    path = _written(
        tmp_path, gzip.compress(space(*small()) + message((9, bytes(3_000_000)))), "a.xplane.pb.gz"
    )
    with raised(size=1_000_000, ratio=1), pytest.raises(UnreadableInputError, match="--limit size"):
        load([path])


def test_an_empty_profile_and_one_converted_to_text(tmp_path):
    with pytest.raises(EmptyRecordingError, match="holds no events"):
        read(tmp_path, space(Plane("/host:CPU")))
    data = gzip.decompress(FILES[0].read_bytes()).decode("utf-8", "replace").encode()
    with pytest.raises(
        UnreadableInputError, match="an XPlane of JAX, damaged by a conversion to text"
    ):
        read(tmp_path, data)


def test_a_profile_at_the_recorders_limit_says_so(tmp_path, monkeypatch):
    assert MOST_EVENTS == 1_000_000
    monkeypatch.setattr("traceanalyzer.ingest.xplane.reader.MOST_EVENTS", 10)
    assert any("stops at" in note for note in read(tmp_path, space(*small())).health.notes)
