"""What is read of dumps: any writer and name, nothing that runs, damage counted and named."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.fleet.hang.document import hang_headline, hang_next_steps, notes
from traceanalyzer.fleet.hang.model import hang_of
from traceanalyzer.ingest.flight_recorder.digest import Digests, usual_next
from traceanalyzer.ingest.flight_recorder.folder import plain_values, read_flight
from traceanalyzer.trace.flight import NO_SIGNATURE, Flight, GroupProgress

CONFIG_OF_SIX = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3, 4, 5]"}}


def entry(
    seq: int, kind: str = "all_reduce", state: str = "completed", **more: Any
) -> dict[str, Any]:
    """An entry of group 0."""
    return {
        "record_id": seq,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "profiling_name": f"nccl:{kind}",
        "time_created_ns": 1_758_000_000_000_000_000 + seq,
        "input_sizes": [[4]],
        "input_dtypes": ["Float"],
        "output_sizes": [[4]],
        "output_dtypes": ["Float"],
        "state": state,
        "retired": state == "completed",
        "timeout_ms": 600_000,
        "is_p2p": False,
        **more,
    }


def dump(entries: list[dict[str, Any]], ranks: str = "[0, 1, 2, 3]", **more: Any) -> dict[str, Any]:
    """A dump of a rank of group 0."""
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}}
    return {"version": "2.9", "pg_config": config, "entries": entries, **more}


def first(value: dict[str, Any]) -> GroupProgress:
    """Where the rank stands in the first group."""
    return Digests().digest(value, "").groups[0]


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch /tmp/never",)


HOSTILE = {
    "a class": pickle.dumps(Evil()),
    "a call": b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.",
    "a far memo index": b"\x80\x02]r\xff\xff\xff\x7f.",
    "cut off": pickle.dumps(dump([entry(1)]))[:200],
    "a long text that is not there": b"\x80\x02X\xff\xff\xff\x7fabc.",
    "tuples in tuples": b"\x80\x02)" + b"\x85" * 60_000 + b".",
    "duplicates": b"\x80\x02]2.",
    "an extension": b"\x80\x02\x82\x01.",
    "bytes": pickle.dumps(b"abc", 4),
    "a stack that is empty": b"\x80\x02e.",
    "keys that are lists": b"\x80\x02}]]s.",
    "nothing": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_pickle_that_does_more_than_state_values_is_refused(name: str) -> None:
    with pytest.raises(UnreadableInputError):
        plain_values(HOSTILE[name])


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_come_out_whatever_the_protocol(protocol: int) -> None:
    value = dump(
        [entry(n, numbers=[n, -n, 1 << 40, -(1 << 33), 0.5, None, True]) for n in range(400)]
    )
    assert plain_values(pickle.dumps(value, protocol)) == value


def test_a_deep_list_is_no_crash() -> None:
    with pytest.raises(UnreadableInputError):
        Digests().digest(plain_values(b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b"."), "")


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        {"entries": 1},
        {"entries": [1]},
        {"entries": [{}]},
        dump([entry(1, collective_seq_id="x")]),
        dump([entry(1)], ranks="__import__('os')"),
        dump([entry(1)], pg_status={"0": {}}),
        {**dump([entry(1)]), "pg_config": {"0": {}}},
        dump([entry(1, input_sizes=[["a"]])]),
    ],
)
def test_what_is_no_dump_is_refused_in_a_line(value: Any) -> None:
    with pytest.raises(UnreadableInputError):
        Digests().digest(value, "")


def test_the_first_operation_that_is_not_completed() -> None:
    state = first(dump([entry(5), entry(6, state="started"), entry(7, state="scheduled")]))
    assert (state.enqueued, state.completed) == (7, 5)
    assert state.head is not None
    assert (state.head.seq, state.head.kind, state.head.started) == (6, "all_reduce", True)


def test_what_gloo_retires_has_ended() -> None:
    state = first(
        dump(
            [entry(1, state="scheduled", retired=True), entry(2, state="scheduled", retired=False)]
        )
    )
    assert (state.completed, state.ended_unseen) == (1, True)


def test_counters_of_a_group_without_entries_are_found_by_order() -> None:
    value = dump([entry(4, pg_id=3, process_group=("7", "tp"))])
    value["pg_config"]["7"] = {"name": "7", "desc": "tp", "ranks": "[0, 1]"}
    counters = {
        "last_enqueued_collective": 9,
        "last_started_collective": -1,
        "last_completed_collective": 9,
    }
    value["pg_status"] = {"0": counters, "3": {**counters, "last_enqueued_collective": 4}}
    state = first(value)
    assert (state.enqueued, state.completed, state.from_status) == (9, 9, True)


def test_an_operation_that_was_overwritten_is_known_by_the_counter() -> None:
    counters = {
        "last_enqueued_collective": 30,
        "last_started_collective": -1,
        "last_completed_collective": 3,
    }
    value = dump([entry(n, state="scheduled") for n in range(20, 31)], pg_status={"0": counters})
    head = first(value).head
    assert head is not None
    assert (head.seq, head.kind) == (4, "")


def test_the_operations_of_a_batch_have_the_state_of_its_end() -> None:
    def pair(seq: int, name: str, state: str = "scheduled") -> dict[str, Any]:
        return entry(seq, name, state, p2p_seq_id=seq, is_p2p=True, retired=state == "completed")

    batch = [pair(1, "send 0->1"), pair(1, "recv 0<-1"), pair(1, "coalesced", "completed")]
    assert first(dump(batch)).pairs == ()
    batch[-1] = pair(1, "coalesced")
    assert [(op.kind, op.peer) for op in first(dump(batch)).pairs] == [("send", 1), ("recv", 1)]
    counters = {
        "last_enqueued_collective": 1,
        "last_started_collective": -1,
        "last_completed_collective": 1,
    }
    assert first(dump(batch[:2], pg_status={"0": counters})).pairs == ()


def test_the_frame_is_the_programs_own() -> None:
    frames = [
        {
            "name": "all_reduce",
            "filename": "/v/site-packages/torch/distributed/distributed_c10d.py",
            "line": 1,
        },
        {"name": "step", "filename": "/home/me/train.py", "line": 24},
    ]
    head = first(dump([entry(1, state="scheduled", frames=frames)])).head
    assert head is not None
    assert head.frame == "/home/me/train.py:24 (step)"


def write(folder: Path, name: Callable[[int], str], ranks: int = 4, **more: Any) -> None:
    """Four dumps whose groups do not tell them apart."""
    for rank in range(ranks):
        path = folder / name(rank)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(dump([entry(1), entry(2, state="scheduled")], **more)))


@pytest.mark.parametrize(
    "name",
    [
        lambda r: f"rank_{r}",
        lambda r: f"_dump_{r}",
        lambda r: f"host-17/nccl_trace_rank_{r}",
        lambda r: f"job77_rank{r:05d}_of_4.pkl",
        lambda r: f"{r}/20261123-1437.bin",
        lambda r: f"fr.{r}.{1758000000 + r}",
    ],
)
def test_ranks_by_any_name(name: Callable[[int], str], tmp_path: Path) -> None:
    write(tmp_path, name)
    flight = read_flight(tmp_path)
    assert sorted(flight.dumps) == [0, 1, 2, 3]
    assert all(name(rank) in dump.path for rank, dump in flight.dumps.items())


def test_damaged_missing_and_repeated_ranks_are_named(tmp_path: Path) -> None:
    write(tmp_path, lambda r: f"rank_{r}")
    (tmp_path / "rank_1").write_bytes((tmp_path / "rank_1").read_bytes()[:100])
    (tmp_path / "rank_2").unlink()
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "rank_3").write_bytes((tmp_path / "rank_3").read_bytes())
    (tmp_path / "notes.txt").write_text("nothing to see")
    flight = read_flight(tmp_path)
    assert flight.missing == (1, 2)
    assert [(Path(one.path).name, one.rank) for one in flight.unreadable] == [("rank_1", 1)]
    assert [one.rank for one in flight.repeated] == [3]


def test_an_empty_dump_is_not_called_no_dump(tmp_path: Path) -> None:
    write(tmp_path, lambda r: f"rank_{r}")
    (tmp_path / "rank_0").write_bytes(pickle.dumps(dump([])))
    (tmp_path / "rank_1").write_bytes(b"")
    (tmp_path / "rank_2").write_bytes((tmp_path / "rank_2").read_bytes()[:100])
    (tmp_path / "rank_3").unlink()
    write(tmp_path, lambda r: f"rank_{r + 4}", ranks=2, pg_config=CONFIG_OF_SIX)
    hang = hang_of(read_flight(tmp_path))
    assert hang.silent == (0, 1, 2, 3)
    assert hang.without_entries == {
        "no dump": (3,),
        "empty dump": (0, 1),
        "dump not readable": (2,),
    }
    lines = [line for line in notes(hang) if "have no dump" in line]
    assert lines == ["1 of 6 ranks have no dump: rank 3."]
    assert hang.left([0, 1]) == "an empty dump"
    assert hang.left([3]) == "no dump"


def test_json_and_gzip(tmp_path: Path) -> None:
    value = dump([entry(1), entry(2, state="scheduled")])
    (tmp_path / "rank_0.json").write_text(json.dumps(value))
    (tmp_path / "rank_1.pickle.gz").write_bytes(gzip.compress(pickle.dumps(value)))
    flight = read_flight(tmp_path)
    assert sorted(flight.dumps) == [0, 1]
    assert flight.dumps[0].groups == flight.dumps[1].groups


def test_no_dumps_is_one_line_that_says_how_to_get_some(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("step 1")
    with pytest.raises(UnreadableInputError, match="TORCH_NCCL_DUMP_ON_TIMEOUT"):
        read_flight(tmp_path)
    with pytest.raises(UnreadableInputError, match="no such folder"):
        read_flight(tmp_path / "nowhere")


RAS = """NCCL version 2.28.3 compiled with CUDA 12.9

Job summary
===========
  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      1          4            1          4        4

Communicators... (0.00s)
=============
Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         4         4         4  RUNNING  INCOMPLETE

Errors
======
INCOMPLETE
  Missing communicator data from 1 job process
  Process 3487984 on node 172.16.64.213 managing GPU 2

Warnings
========
#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different collective operation counts
  2 ranks have launched up to operation 66
  Rank 3 has launched up to operation 64 -- GPU 3 managed by process 483072 on node 172.16.64.210
"""


def test_what_nccl_says_is_added(tmp_path: Path) -> None:
    write(tmp_path, lambda r: f"rank_{r}")
    (tmp_path / "ras.txt").write_text(RAS)
    line = {
        "header": {"id": "0x7f", "rank": 1, "n_ranks": 4, "nnodes": 1},
        "metadata": {"dump_timestamp_us": 1, "hostname": "node-7", "pid": 3},
        "coll_perf": {"coll": "AllReduce", "coll_sn": 64},
    }
    (tmp_path / "node-7-pid3.log").write_text(json.dumps(line))
    flight = read_flight(tmp_path)
    clues = flight.clues
    assert clues.dead == ("Process 3487984 on node 172.16.64.213 managing GPU 2",)
    assert clues.behind == (3,)
    assert clues.hosts == {3: "172.16.64.210", 1: "node-7"}
    verdict = hang_of(flight).verdict  # all four have issued it, and RAS saw which launched less
    assert (verdict.culprits, verdict.kind, verdict.confidence) == ((3,), "cpu_stopped", "likely")


def test_what_comes_next_is_what_followed_the_longest_stretch_like_the_last() -> None:
    gather = ("_all_gather_base", 4, 8, "Float")
    reduce = ("all_reduce", 4, 4, "Float")
    cycle = [gather, gather, reduce]
    assert usual_next([*cycle, *cycle, gather]) == gather
    assert usual_next([*cycle, *cycle, gather, gather]) == reduce
    assert usual_next([reduce, gather]) == NO_SIGNATURE
    assert usual_next([]) == NO_SIGNATURE


def test_two_ranks_that_issued_different_operations_are_told_apart_by_earlier_cycles(
    tmp_path: Path,
) -> None:
    cycle = ["_all_gather_base", "_all_gather_base", "all_reduce"]
    usual = [entry(i, cycle[i % 3]) for i in range(7)]
    here = entry(7, "_all_gather_base", "started")
    there = entry(7, "all_reduce", "started")
    for rank, last in enumerate((here, there)):
        data = pickle.dumps(dump([*usual, last], "[0, 1]"), 2)
        (tmp_path / f"rank_{rank}").write_bytes(data)
    hang = hang_of(read_flight(tmp_path, world=2))
    assert (hang.verdict.culprits, hang.verdict.kind) == ((1,), "mismatch")
    assert hang.mismatches[0].others_by == (0,)


def two_ranks(left_out: int | None, steps: int = 6, state: str = "scheduled") -> Flight:
    """Two ranks that gather and reduce by turns; rank 1 leaves out a gather."""
    digests = Digests()
    dumps = {}
    for rank in range(2):
        kinds = ["all_gather", "all_reduce"] * steps
        if rank == 1 and left_out is not None:
            del kinds[left_out]
        stop = 2 * steps - 2 if left_out is None else left_out
        entries = [
            entry(i, kind, "completed" if i < stop else state)
            for i, kind in enumerate(kinds[: stop + 1])
        ]
        dumps[rank] = replace(digests.digest(dump(entries, "[0, 1]"), f"rank_{rank}"), rank=rank)
    return Flight("", tuple(digests.groups), dumps, frozenset(range(2)))


def test_of_two_ranks_that_differ_the_one_that_left_the_cycle_is_named() -> None:
    hang = hang_of(two_ranks(8))
    assert (hang.verdict.culprits, hang.verdict.kind) == ((1,), "mismatch")
    assert hang.verdict.confidence == "likely"
    assert "Rank 1 issued all_reduce of 4 Float, rank 0 all_gather of 4 Float." in hang_headline(
        hang
    )


def test_of_two_ranks_without_a_cycle_both_are_named_with_what_they_issued() -> None:
    hang = hang_of(two_ranks(2, steps=2))
    assert (hang.verdict.culprits, hang.verdict.confidence) == ((), "undecided")
    assert (hang.mismatches[0].issued_by, hang.mismatches[0].others_by) == ((0,), (1,))
    assert "Rank 0 issued all_gather of 4 Float, rank 1 all_reduce of 4 Float." in hang_headline(
        hang
    )
    assert "ranks 0 and 1: which branch issued" in hang_next_steps(hang)[0]


def test_what_peers_have_only_begun_is_not_complete() -> None:
    digests = Digests()
    dumps = {}
    for rank in range(4):
        entries = [entry(0), entry(1, state="scheduled" if rank == 0 else "started")]
        entries[1]["time_discovered_started_ns"] = (
            None if rank == 0 else entries[1]["time_created_ns"]
        )
        dumps[rank] = replace(digests.digest(dump(entries), f"rank_{rank}"), rank=rank)
    hang = hang_of(Flight("", tuple(digests.groups), dumps, frozenset(range(4))))
    assert (hang.verdict.culprits, hang.verdict.kind) == ((0,), "gpu_stopped")
    assert "has not begun all_reduce" in hang_headline(hang)
    assert "have completed" not in hang_headline(hang)


def test_many_ranks_without_a_dump_are_told_in_linear_time() -> None:
    world = 20_000
    digests = Digests()
    ranks = str(list(range(world)))
    entries = [entry(0, state="scheduled")]
    dumps = {
        rank: replace(digests.digest(dump(entries, ranks), f"rank_{rank}"), rank=rank)
        for rank in range(2)
    }
    flight = Flight("", tuple(digests.groups), dumps, frozenset(range(world)))
    hang = hang_of(flight)
    assert len(hang.verdict.culprits) == world - 2
    assert "Ranks 2 to 19999 left no dump" in hang_headline(hang)
