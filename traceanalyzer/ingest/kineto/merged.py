"""Ranks whose Kineto traces were merged into one file, as scripts for a viewer do, told apart by the
process of each row.

Host rows carry the id of their process, device rows a process of their own: the device's number, or
what the script made of it. A device's rows are the host's with whose id they share a label (`[TP01]
4711` and `[TP01] 0`), or else whose calls alone can have launched them: each has a call of its kind
and its correlation id that began before it. Where two hosts could have, nothing is guessed."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from traceanalyzer.base import dataclass, regex
from traceanalyzer.ingest.columns import looked_up
from traceanalyzer.ingest.kineto.chunks import KinetoFile
from traceanalyzer.ingest.kineto.events import Event
from traceanalyzer.ingest.kineto.parallel import append_part, part_of
from traceanalyzer.ingest.kineto.repair import Decoded
from traceanalyzer.ingest.kineto.rows import Id, KinetoRows
from traceanalyzer.ingest.kineto.trace import CLOCK_ERROR_NS, kineto_trace
from traceanalyzer.ingest.stream import open_stream
from traceanalyzer.trace import Bool, DeviceOpKind, Trace
from traceanalyzer.trace.events import ApiCalls, DeviceOps

_NO_PROCESS = -1
"""What rows have that name none."""
_POSSIBLE_SHARE = 0.99
"""Of a device's work with ids of a host's calls: so much must have a call that can have launched
it."""
_RIVAL_SHARE = 0.5
"""Of the work that a host can have launched: another host that can have launched this much of it
may as well be its host. What the host launched before the recording began has calls of none."""
_CALLS_OF = {
    DeviceOpKind.KERNEL: ("launch", "kernel"),
    DeviceOpKind.MEMCPY: ("memcpy", "launch"),
    DeviceOpKind.MEMSET: ("memset", "launch"),
}
"""Words in the names of calls that start work of this kind; a graph's launch starts all kinds."""
_SEPARATORS = regex(r"[\s:/_|-]+")
_RANK_NAME = regex(r"\brank[\s_#:=-]*(\d{1,6})\b", re.IGNORECASE)
_NUMBER = regex(r"\d{1,6}")
_PROCESS = regex(r"[0-9]{1,18}")
"""A process's number."""


@dataclass(frozen=True, eq=False)
class _Rank:
    """The processes of one rank's rows: its host's first."""

    processes: tuple[Id, ...]
    number: int


def ranks_apart(path: Path, file: KinetoFile, damage: str) -> list[Trace]:
    """The trace of each rank in a file into which several were merged, by rank. `file`, `damage`:
    as they were found when it was read as one. None of the traces where the ranks cannot be told
    apart."""
    apart = _rows_by_process(path)
    owners = _owners(apart)
    if len({*owners.values()}) < 2 or None in owners.values():
        return []
    ranks = _ranks(apart, owners)
    traces = [_trace_of(path, file, damage, _joined(apart, rank.processes), rank) for rank in ranks]
    return [_with_note(traces[0], ranks), *traces[1:]]


def _rows_by_process(path: Path) -> dict[Id, KinetoRows]:
    """The rows of the file by the process that each row names, in the order of the file."""
    apart: dict[Id, KinetoRows] = defaultdict(KinetoRows)
    file = KinetoFile()
    with open_stream(path) as stream:
        for chunk in file.rest(stream, file.begin(stream)):
            events: dict[Id, list[Event]] = defaultdict(list)
            for event in chunk.events:
                events[getattr(event, "pid", _NO_PROCESS)].append(event)
            for process, found in events.items():
                apart[process].add(Decoded(found))
    apart.pop(_NO_PROCESS, None)
    return dict(apart)


def _owners(apart: Mapping[Id, KinetoRows]) -> dict[Id, Id | None]:
    """The host of each process with device rows; None where it cannot be told."""
    hosts = [process for process, rows in apart.items() if len(rows.tables[ApiCalls])]
    devices = [process for process, rows in apart.items() if len(rows.tables[DeviceOps])]
    possible = {device: _possible_hosts(device, hosts, apart) for device in devices}
    if len(devices) == len(hosts):
        _leave_out_taken(possible)
    return {device: found[0] if len(found) == 1 else None for device, found in possible.items()}


def _possible_hosts(device: Id, hosts: list[Id], apart: Mapping[Id, KinetoRows]) -> list[Id]:
    """The hosts that can have launched the device's work."""
    if device in hosts:  # one process stands for the whole rank
        return [device]
    labelled = [host for host in hosts if _have_one_label(device, host)]
    if len(labelled) == 1:
        return labelled
    launched = {host: _launched_by(apart[host], apart[device]) for host in hosts}
    rival = _RIVAL_SHARE * max(launched.values())
    return [host for host, count in launched.items() if count > 0 and count >= rival]


def _have_one_label(device: Id, host: Id) -> bool:
    """Whether the two ids are a rank's label with a number of their own (`[TP01] 0`, `[TP01]
    4711`), or the device's is the host's with a word (`4711 GPU`)."""
    of_device = _words(device)
    of_host = _words(host)
    before = of_device[:-1]
    after = of_device[1:]
    if not before:
        return False
    return before in (of_host, of_host[:-1]) or after in (of_host, of_host[1:])


def _words(process: Id) -> list[str]:
    return _SEPARATORS.split(str(process).strip())


def _launched_by(host: KinetoRows, device: KinetoRows) -> int:
    """How much of the device's work the host can have launched; 0 where some of it has ids of calls
    that cannot have."""
    calls = host.tables[ApiCalls]
    calls_found = calls.rows(np.arange(len(calls)))
    work = device.tables[DeviceOps]
    ops = work.rows(np.arange(len(work)))
    known = np.flatnonzero(calls_found["correlation"] > 0)
    order = known[np.argsort(calls_found["correlation"][known], kind="stable")]
    call = looked_up(calls_found["correlation"][order], order, ops["correlation"])
    began_before = calls_found["start"][call] <= ops["start"] + CLOCK_ERROR_NS
    fits = _is_of_its_kind(host, calls_found["name"][call], ops["kind"])
    launched = np.count_nonzero((call >= 0) & began_before & fits)
    return int(launched) if launched >= _POSSIBLE_SHARE * np.count_nonzero(call >= 0) else 0


def _is_of_its_kind(host: KinetoRows, names: np.ndarray, kinds: np.ndarray) -> Bool:
    """Whether each call starts work of the kind that it is looked up for. `names`: codes of the
    calls, `kinds`: those of the work."""
    texts = [text.lower() for text in host.texts.in_order()]
    fits = np.zeros(len(kinds), bool)
    for kind, words in _CALLS_OF.items():
        starting = [code for code, text in enumerate(texts) if any(word in text for word in words)]
        fits |= (kinds == kind) & np.isin(names, starting)
    return fits


def _leave_out_taken(possible: dict[Id, list[Id]]) -> None:
    """Where each host has one device: take from the others the host that is one device's alone."""
    for _ in possible:
        taken = {found[0] for found in possible.values() if len(found) == 1}
        for device, found in possible.items():
            if len(found) > 1:
                possible[device] = [host for host in found if host not in taken]


def _ranks(apart: Mapping[Id, KinetoRows], owners: Mapping[Id, Id | None]) -> list[_Rank]:
    """The ranks by their numbers: those that labels or names of processes say, else in the order of
    the file."""
    hosts = [process for process in apart if process in owners.values()]
    processes = {host: _processes_of(host, apart, owners) for host in hosts}
    stated = [_stated_number(host, processes[host], apart) for host in hosts]
    told = [number for number in stated if number is not None]
    numbers = told if len({*told}) == len(hosts) else list(range(len(hosts)))
    ranks = [_Rank(processes[host], number) for host, number in zip(hosts, numbers, strict=True)]
    return sorted(ranks, key=lambda rank: rank.number)


def _processes_of(
    host: Id, apart: Mapping[Id, KinetoRows], owners: Mapping[Id, Id | None]
) -> tuple[Id, ...]:
    """The host, its devices, and what else has its label (the recorder's own rows)."""
    devices = [device for device, owner in owners.items() if owner == host]
    others = [
        process
        for process in apart
        if process not in owners
        and process not in owners.values()
        and len(_words(process)) > 1
        and _words(process)[:-1] == _words(host)[:-1]
    ]
    return tuple(dict.fromkeys((host, *devices, *others)))


def _stated_number(host: Id, processes: Iterable[Id], apart: Mapping[Id, KinetoRows]) -> int | None:
    """The rank's number as a name of its processes or the only number of its label says it."""
    names = [text for process in processes for text in apart[process].names.values()]
    for text in (str(host), *names):
        named = _RANK_NAME.search(text)
        if named:
            return int(named[1])
    numbers = _NUMBER.findall(" ".join(_words(host)[:-1]))
    return int(numbers[0]) if len(numbers) == 1 else None


def _joined(apart: Mapping[Id, KinetoRows], processes: Iterable[Id]) -> KinetoRows:
    """The rows of several processes as one rank's."""
    rows = KinetoRows()
    for process in processes:
        append_part(rows, part_of(apart[process]), ([], [], []))
    return rows


def _trace_of(path: Path, file: KinetoFile, damage: str, rows: KinetoRows, rank: _Rank) -> Trace:
    trace = kineto_trace(path, file, rows, damage)
    process = replace(trace.process, rank=rank.number, pid=_pid(rank.processes[0]))
    return replace(trace, process=process)


def _pid(process: Id) -> int | None:
    last = _words(process)[-1]
    return int(last) if _PROCESS.fullmatch(last) else None


def _with_note(trace: Trace, ranks: list[_Rank]) -> Trace:
    """The first trace with how many ranks the file holds."""
    places = "; ".join(f"rank {rank.number}: {rank.processes[0]}" for rank in ranks[:4])
    more = f"; {len(ranks) - 4} more" if len(ranks) > 4 else ""
    note = (
        f"{len(ranks)} ranks in one file, told apart by the process of each row ({places}{more})."
    )
    health = replace(trace.health, notes=(note, *trace.health.notes))
    return replace(trace, health=health)
