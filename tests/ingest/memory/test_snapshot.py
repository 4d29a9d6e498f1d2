"""Snapshots are interpreted: equal to what unpickling gives for what PyTorch writes, refused for
everything else."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.snapshots import (
    FORWARD,
    MIB,
    SEGMENT,
    TRAIN,
    content,
    event,
    frames,
    freed,
    segment,
    snapshot,
)
from traceanalyzer.base.errors import RefusedSnapshotError
from traceanalyzer.ingest.memory import read_snapshot
from traceanalyzer.ingest.memory.opcodes import interpret
from traceanalyzer.ingest.memory.shapes import Shapes
from traceanalyzer.trace.snapshot import ACTIONS

DATA = Path(__file__).parents[2] / "data" / "memory"
MOST_BYTES = 50 << 20
MANY = 200
OPEN = b"\x80\x04"


def read_bytes(folder: Path, raw: bytes) -> Any:
    path = folder / "raw.pickle"
    path.write_bytes(raw)
    return read_snapshot(path)


def assert_equal(got: Any, value: dict[str, Any]) -> None:
    for device in got.devices:
        wanted = value["device_traces"][device.device]
        assert len(device.events) == len(wanted)
        for i, entry in enumerate(wanted):
            events = device.events
            assert ACTIONS[events.action[i]] == entry["action"]
            assert events.address[i] == entry.get("addr", entry.get("device_free"))
            assert (events.size[i], events.begin_us + int(events.since_us[i])) == (
                entry["size"],
                entry["time_us"],
            )
            stack = [(f.name, f.file, f.line) for f in got.stacks[events.stack[i]]]
            assert stack == [(f["name"], f["filename"], f["line"]) for f in entry["frames"]]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("name", ["kv_cat.base", "oom_optimizer_state", "ring"])
def test_what_is_read_is_what_pickle_gives(tmp_path: Path, name: str, protocol: int) -> None:
    value = pickle.loads(gzip.decompress((DATA / f"{name}.snapshot.pickle.gz").read_bytes()))  # noqa: S301 our own
    got = read_bytes(tmp_path, pickle.dumps(value, protocol=protocol))
    assert_equal(got, value)
    blocks = [
        (b["address"], b["size"], b["requested_size"])
        for s in value["segments"]
        for b in s["blocks"]
    ]
    ours = got.devices[0].blocks
    assert (
        list(zip(ours.address.tolist(), ours.size.tolist(), ours.requested.tolist(), strict=True))
        == blocks
    )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["alloc", "free_requested", "free_completed", "segment_alloc", "oom"]),
            st.integers(0, 2**47),
            st.integers(0, 2**40),
            st.lists(
                st.tuples(
                    st.sampled_from("abc"), st.sampled_from(["x.py", "y.py"]), st.integers(0, 300)
                ),
                max_size=4,
            ),
        ),
        max_size=60,
    ),
    st.sampled_from([2, 4]),
)
def test_any_history_is_read_as_pickle_gives_it(
    tmp_path_factory: Any, rows: list[Any], protocol: int
) -> None:
    events = [
        event(action, address, size, frames(*stack), i)
        for i, (action, address, size, stack) in enumerate(rows)
    ]
    value = content(events, [])
    assert_equal(snapshot(tmp_path_factory.mktemp("any"), value, protocol), value)


def test_the_fast_lane_and_the_interpreter_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = DATA / "oom_leak.snapshot.pickle.gz"
    fast = read_snapshot(path).devices[0].events
    monkeypatch.setattr("traceanalyzer.ingest.memory.templates.Templates.learn", lambda *_: None)
    slow = read_snapshot(path).devices[0].events
    for name in fast.__dataclass_fields__:
        assert np.array_equal(getattr(fast, name), getattr(slow, name))


BOMBS = {
    "memo index": b"\x80\x04Nr\xff\xff\xff\x1f.",
    "frame": OPEN + b"\x95" + b"\xff" * 8 + b"N.",
    "binbytes8": OPEN + b"\x8e" + b"\xff\xff\xff\x7f\0\0\0\0aa.",
    "text of 8": OPEN + b"\x8d" + b"\xff\xff\xff\x7f\0\0\0\0aa.",
    "text of 4": OPEN + b"X\xff\xff\xff\x7faa.",
    "depth": OPEN + b"(" * 1_000_000,
    "lists": OPEN + b"]" * 2_000_000,
    "dictionaries": OPEN + b"}\x94(" * 1_000_000,
    "tuples": OPEN + b")" + b"\x85" * 1_000_000 + b".",
    "long1": OPEN + b"\x8a\xff" + b"\x11" * 255 + b".",
    "long4": OPEN + b"\x8b\xff\xff\xff\x7f.",
    "laughs": OPEN
    + b"]\x94"
    + b"".join(b"](" + bytes((0x68, i)) * 10 + b"e\x94" for i in range(60))
    + b".",
    "persid": OPEN + b"Pfoo\n.",
    "global": b"cos\nsystem\n(S'echo'\ntR.",
    "nones": OPEN + b"N" * 5_000_000,
    "memoize": OPEN + b"N" + b"\x94" * 5_000_000,
    "texts": OPEN + b"".join(b"\x8c\x04%04x" % (i % 65536) for i in range(400_000)),
    "dup": OPEN + b"N" + b"2" * 1_000_000,
    "itself": OPEN + b"}\x94(\x8c\x08segments]\x94(h\0h\0eu.",
    "an event twice": OPEN
    + b"}(\x8c\x08segments]\x8c\x0ddevice_traces](](}\x94(\x8c\x06action\x8c\x05alloc"
    b"\x8c\x04sizeK\x01u" + b"h\0" * 100_000 + b"eeu.",
    "empty": b"",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_in_little_memory(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        RefusedSnapshotError, match="not a CUDA memory snapshot that can be read safely"
    ):
        read_bytes(tmp_path, BOMBS[name])
    tracemalloc.start()
    with pytest.raises(RefusedSnapshotError):
        interpreted(BOMBS[name])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MOST_BYTES


def interpreted(raw: bytes) -> Any:
    from traceanalyzer.ingest.memory import snapshot_of

    file = io.BytesIO(raw)
    shapes = Shapes()
    return snapshot_of("raw", interpret(lambda: file.read(1 << 18), shapes), shapes)


def test_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    """`benchmarks/memory_fuzz.py` does ten thousand."""
    chosen = random.Random(0)  # noqa: S311 the same ones each time
    raw = gzip.decompress((DATA / "kv_cat.base.snapshot.pickle.gz").read_bytes())
    for _ in range(MANY):
        mutant = bytearray(raw)
        for _ in range(chosen.choice((1, 2, 30))):
            mutant[chosen.randrange(len(mutant))] = chosen.randrange(256)
        try:
            interpreted(
                bytes(
                    mutant[: chosen.randrange(1, len(mutant))] if chosen.random() < 0.2 else mutant
                )
            )
        except RefusedSnapshotError:
            continue


SELDOM = {
    "append": b"]K\x01a",
    "set item": b"}\x8c\x01aK\x01s",
    "empty tuple": b")",
    "tuples of one to three": b"](K\x01\x85K\x01K\x02\x86K\x01K\x02K\x03\x87e",
    "tuple": b"(K\x01K\x02\x8c\x01aK\x03t",
    "list": b"(K\x01K\x02l",
    "dictionary": b"(\x8c\x01aK\x01\x8c\x01bK\x02d",
    "one in another": b"(\x8c\x01a(K\x01K\x02ld",
}


@pytest.mark.parametrize("name", SELDOM)
def test_opcodes_that_snapshots_seldom_have_mean_what_pickle_says(name: str) -> None:
    raw = OPEN + SELDOM[name] + b"."
    file = io.BytesIO(raw)
    assert interpret(lambda: file.read(1 << 18), Shapes()) == pickle.loads(raw)  # noqa: S301 our own


@pytest.mark.parametrize("raw", [b"]\x85", b"\x85", b"(K\x01d", b"K\x01K\x02a", b"l"])
def test_opcodes_that_find_the_wrong_values_are_refused(raw: bytes) -> None:
    file = io.BytesIO(OPEN + raw + b".")
    with pytest.raises(RefusedSnapshotError):
        interpret(lambda: file.read(1 << 18), Shapes())


class Harmful:
    def __init__(self, victim: Path) -> None:
        self.victim = victim

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.victim),)


def test_nothing_in_the_file_is_run(tmp_path: Path) -> None:
    victim = tmp_path / "made"
    with pytest.raises(RefusedSnapshotError, match=r"STACK_GLOBAL|GLOBAL"):
        snapshot(tmp_path, {"segments": [Harmful(victim)]})
    assert not victim.exists()


@pytest.mark.parametrize("value", [[1], {"segments": [{}]}, {"segments": 3}, {"device_traces": []}])
def test_other_pickles_are_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(RefusedSnapshotError):
        snapshot(tmp_path, value)


def test_older_snapshots_state_blocks_without_addresses(tmp_path: Path) -> None:
    old = {
        "size": 2 * MIB,
        "state": "active_allocated",
        "history": [{"addr": 1, "frames": FORWARD, "real_size": MIB}],
    }
    held = segment([], 4 * MIB)
    held["blocks"] = [{"size": MIB, "state": "inactive"}, old]
    got = snapshot(tmp_path, {"segments": [held]})
    blocks = got.devices[0].blocks
    assert blocks.address.tolist() == [SEGMENT, SEGMENT + MIB]
    assert blocks.requested.tolist() == [MIB, MIB]
    assert got.stacks[blocks.stack[1]][-1].file == TRAIN[1]


def test_a_cut_off_file_is_refused(tmp_path: Path) -> None:
    raw = pickle.dumps(content(freed(SEGMENT, 5), []))
    with pytest.raises(RefusedSnapshotError):
        read_bytes(tmp_path, raw[:-20])
