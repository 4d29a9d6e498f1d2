"""A folder of dumps, one file a rank, whatever their names: read by several processes, each rank
kept as a digest."""

import io
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from traceanalyzer.base import UnreadableInputError, regex
from traceanalyzer.base.limits import limits
from traceanalyzer.base.parallel.children import children, shared_queue
from traceanalyzer.base.reading import reading
from traceanalyzer.ingest.flight_recorder.digest import Digests
from traceanalyzer.ingest.flight_recorder.nccl_logs import clues_of, is_inspector, is_ras
from traceanalyzer.ingest.memory.opcodes import FAULTS, OPCODES
from traceanalyzer.ingest.stream import open_stream
from traceanalyzer.trace.flight import (
    EMPTY_FILE,
    Flight,
    FlightGroup,
    RankDump,
    Repeated,
    Unreadable,
)

RUN = regex(
    rb"(?>(?:h.)++|[\](eu}N\x88\x89\x86\x94a]++|(?:K.)++|M..|q.|J.{4}|j.{4}|\x8a\x08.{8}|r..[\x00-\x0f]\x00"
    rb"|[s)\x85\x87]|G.{8}|\x95.{8}|\x8a(?:\x07.{7}|\x06.{6}|\x05.{5}|\x04.{4}|\x03...|\x02..|\x01.|\x00))*+",
    re.DOTALL,
).match
"""Opcodes without a text. The memo has room for what it is given the index of: a million at most
(`r`)."""
MAX_TUPLES = 50_000
"""Tuples inside tuples are hashed by recursion, one frame of C (100 bytes) each; a dump has one an
entry."""
MAX_BYTES = 64 << 20  # of a dump: 2,000 entries take 350 kB, and nobody keeps more than some 20,000
TEXT_SIZES = {
    0x58: 4,
    0x8C: 1,
    0x8D: 8,
}  # bytes of the length of BINUNICODE, SHORT_BINUNICODE and BINUNICODE8


class _Plain(
    pickle.Unpickler
):  # no opcode is left that names a class; were there one, it is refused here
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"names {module}.{name}")


CHUNK = 100
"""Dumps that a process takes, and hands over, at a time; fewer are read in the time that it takes
to start one."""
LOG_TAIL = 1 << 18  # bytes of the end of an Inspector's log: its last collectives
NUMBERED = regex(r"rank\D{0,2}(\d{1,18})", re.IGNORECASE)
COLUMNS: tuple[int | str, ...] = ("rank", -1, -2, -3, -4)
"""Where a file's name may have its rank: after that word, or as its last number, the one before it,
..."""
WHAT = (
    "no Flight Recorder dumps (TORCH_FR_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1 "
    "have PyTorch write them)"
)


def plain_values(data: bytes) -> Any:
    """The value that a pickle which is not trusted states: containers, numbers and texts. Raises
    UnreadableInputError.

    Two passes. The first walks the opcodes and refuses any that does more than state a value, or
    that could make the second take memory out of proportion. The second is the interpreter's own,
    which then has nothing to import or call, and refuses to: ten times as fast as
    `ingest.memory`'s, and a job may have ten thousand ranks of 200,000 opcodes."""
    _check(data)
    try:
        return _Plain(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, *FAULTS) as error:
        raise UnreadableInputError(f"damaged ({error})") from error


def _check(data: bytes) -> None:
    """Raises UnreadableInputError unless every opcode states a value."""
    if len(data) > MAX_BYTES:
        raise UnreadableInputError(f"larger than any dump ({len(data) >> 20} MiB)")
    if sum(map(data.count, (b"\x85", b"\x86", b"\x87"))) > MAX_TUPLES:
        raise UnreadableInputError("more tuples than a dump has")
    at = 0
    try:
        while True:
            run = RUN(data, at)
            at = run.end() if run else at
            op = data[at]
            if op == 0x2E:  # STOP
                break
            if op in TEXT_SIZES:
                begin = at + 1 + TEXT_SIZES[op]
                at = begin + int.from_bytes(data[at + 1 : begin], "little")
            elif op == 0x80:  # PROTO
                at += 2
            else:
                raise UnreadableInputError(
                    f"the pickle opcode {OPCODES.get(op, f'{op:#x}')}, which no dump has"
                )
    except (IndexError, OverflowError):
        raise UnreadableInputError("it is cut off") from None


class Read(NamedTuple):
    """A file: a dump with the ranks it may be of, or what it is else, or why it cannot be read."""

    path: str
    dump: RankDump | None = None
    candidates: frozenset[int] = frozenset()
    log: bytes = b""
    why: str = ""


def read_flight(
    folder: Path, progress: Callable[[int, int], None] | None = None, world: int | None = None
) -> Flight:
    """The dumps in a folder and below it, or of one file. `world`: how many ranks the job has,
    where the dumps do not say it, as those of gloo. Raises UnreadableInputError where there are
    none."""
    if not folder.exists():
        raise UnreadableInputError(f"{folder}: there is no such folder")
    inside = [folder] if folder.is_file() else sorted(folder.rglob("[!.]*"))
    groups, found = _read_all([path for path in inside if path.is_file()], progress)
    if not any(one.dump for one in found):
        why = next((f"; {Path(one.path).name}: {one.why}" for one in found if one.why), "")
        raise UnreadableInputError(f"{folder}: {WHAT}{why}")
    return _flight(folder, groups, found, world)


def _read_all(
    files: Sequence[Path], progress: Callable[[int, int], None] | None
) -> tuple[list[FlightGroup], list[Read]]:
    """Every file, by several processes where that is worth it; what another one does not send is
    read here."""
    chunks = [files[start : start + CHUNK] for start in range(0, len(files), CHUNK)]
    helpers = max(min(reading().jobs, len(chunks)), 1) - 1
    merged = _Merged()
    done = set[int]()
    with (
        shared_queue(len(chunks)) as numbers,
        children(partial(_read_chunks, chunks, numbers), helpers) as others,
    ):
        sent = (one for other in others for one in other.values())
        for number, groups, found in chain(_read_chunks(chunks, numbers), sent):
            merged.add(groups, found)
            if progress is not None:
                progress(len(done) * CHUNK, len(files))
            done.add(number)
    for _, groups, found in _read_chunks(chunks, sorted(set(range(len(chunks))) - done)):
        merged.add(groups, found)
    return merged.groups, merged.found


def _read_chunks(
    chunks: Sequence[Sequence[Path]], numbers: Iterable[int]
) -> Iterator[tuple[int, list[FlightGroup], list[Read]]]:
    for number in numbers:
        digests = Digests()
        yield number, digests.groups, [_read(path, digests) for path in chunks[number]]


class _Merged:
    """Digests of several readers, with one list of groups."""

    def __init__(self) -> None:
        self.groups: list[FlightGroup] = []
        self.found: list[Read] = []
        self._index: dict[FlightGroup, int] = {}

    def add(self, groups: Sequence[FlightGroup], found: Iterable[Read]) -> None:
        for group in groups:
            if self._index.setdefault(group, len(self.groups)) == len(self.groups):
                self.groups.append(group)
        place = [self._index[group] for group in groups]
        for file in found:
            if file.dump is not None:
                moved = {place[i]: state for i, state in file.dump.groups.items()}
                last = place[file.dump.last_group] if file.dump.last_group >= 0 else -1
                file = file._replace(dump=replace(file.dump, groups=moved, last_group=last))
            self.found.append(file)


def _read(path: Path, digests: Digests) -> Read:
    try:
        with open_stream(path) as stream:
            head = stream.read()
            if head[:1] not in (
                b"\x80",
                b"{",
            ):  # any other file is not spoken of; an empty one was to be a dump
                return Read(
                    str(path),
                    log=head if is_ras(head[:4096]) else b"",
                    why="" if head else EMPTY_FILE,
                )
            if is_inspector(head[:4096]):
                tail = reduce(lambda data, piece: (data + piece)[-LOG_TAIL:], stream, head)
                return Read(str(path), log=tail[-LOG_TAIL:])
            data = b"".join([head, *_limited(stream)])
            if stream.damage:
                return Read(str(path), why=stream.damage)
        values = plain_values(data) if head[:1] == b"\x80" else orjson.loads(data)
        dump = digests.digest(values, str(path), path.stat().st_mtime_ns)
        return Read(str(path), dump, digests.candidates(dump))
    except orjson.JSONDecodeError as error:
        return Read(str(path), why=f"damaged ({error})")
    except (UnreadableInputError, OSError) as error:
        return Read(str(path), why=str(error))


def _limited(pieces: Iterable[bytes]) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_BYTES:
            raise UnreadableInputError("larger than any dump")
        yield piece


def _kept(
    found: Sequence[Read], ranks: Sequence[int | None]
) -> tuple[dict[int, RankDump], list[Repeated], list[Unreadable]]:
    dumps: dict[int, RankDump] = {}
    repeated = []
    unreadable = []
    for file, rank in sorted(zip(found, ranks, strict=True), key=lambda pair: pair[0].path):
        if file.dump is None or rank is None:
            if file.why or file.dump:
                why = file.why or "neither its name nor its groups say which rank it is of"
                unreadable.append(Unreadable(file.path, why, rank))
        elif rank not in dumps:
            dumps[rank] = replace(file.dump, rank=rank)
        else:  # the later one of two is kept
            kept, other = sorted(
                (dumps[rank], replace(file.dump, rank=rank)), key=lambda d: -d.newest_ns
            )
            dumps[rank] = kept
            repeated.append(Repeated(other.path, rank))
    return dumps, repeated, unreadable


def _flight(
    folder: Path, groups: Sequence[FlightGroup], found: Sequence[Read], world: int | None
) -> Flight:
    dumps, repeated, unreadable = _kept(found, _ranks_of(folder, found))
    expected = frozenset(range(world or 0)).union(*map(attrgetter("ranks"), groups))
    if not expected:
        named = [one.rank for one in unreadable if one.rank is not None]
        expected = frozenset(range(max([*dumps, *named], default=-1) + 1))
    logs = [(Path(one.path).name, one.log) for one in found if one.log]
    # gloo's dumps do not say which ranks a group has; the first group has all.
    everyone = tuple(sorted(expected))
    all_groups = (
        FlightGroup(g.name, g.desc, g.ranks or everyone) if g.desc == "default_pg" else g
        for g in groups
    )
    clues = clues_of(logs, len(expected))
    return Flight(
        str(folder), tuple(all_groups), dumps, expected | dumps.keys(), unreadable, repeated, clues
    )


def _ranks_of(folder: Path, found: Sequence[Read]) -> list[int | None]:
    """The rank of each file: what its groups leave no choice of, else the number in its name that
    suits most files."""
    paths = [Path(file.path) for file in found]
    names = [path.relative_to(folder) if folder.is_dir() else path.name for path in paths]
    numbers = [_numbers(str(name)) for name in names]
    files = list(zip(found, numbers, strict=True))
    dumps = [(file, own) for file, own in files if file.dump is not None]

    def suits(column: int | str) -> int:
        named = [(file, own.get(column)) for file, own in dumps]
        return len({rank for file, rank in named if _allowed(file, rank)})

    column = max(COLUMNS, key=suits)
    return [_rank_of(file, own.get(column)) for file, own in files]


def _rank_of(file: Read, named: int | None) -> int | None:
    """The rank of a file whose name has this number."""
    if len(file.candidates) == 1:
        return next(iter(file.candidates))
    return named if _allowed(file, named) else None


def _allowed(file: Read, rank: int | None) -> bool:
    # a larger number in a name is a time
    return rank is not None and (
        rank in file.candidates if file.candidates else rank < limits().ranks
    )


def _numbers(name: str) -> dict[int | str, int]:
    every = [int(text) for text in re.findall(r"\d{1,9}", name)]
    found: dict[int | str, int] = {}
    found.update((-i, number) for i, number in enumerate(reversed(every), 1))
    match = NUMBERED.search(name)
    if match:
        found["rank"] = int(match[1])
    return found
