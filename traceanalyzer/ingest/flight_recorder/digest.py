"""One rank's dump as a `RankDump`: where it stands in each group.

Written by PyTorch 2.3 to 2.15 (versions 1.x to 2.10 of the format), for NCCL and gloo:
https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/FlightRecorder.hpp"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from traceanalyzer.base import UnreadableInputError, regex
from traceanalyzer.base.limits import limits
from traceanalyzer.trace.flight import (
    NO_SIGNATURE,
    FlightGroup,
    GroupProgress,
    Op,
    RankDump,
    Signature,
)
from traceanalyzer.trace.table import MOST_IDS

TAIL = 4
"""Signatures kept on each side of the first operation that is not completed: who goes further must
have waited."""
FEW_RANKS = 4
"""In a group of more, most ranks decide which of two operations was meant."""
HISTORY = 256
"""Operations before the first that is not completed in which those like them are looked for."""
LEAST_NS = 1_000_000_000 * 10**6  # a time before this is none: JSON dumps have 0
RANKS = regex(r"\[?[\d,\s]*\]?")
ENDS = regex(r"(send|recv) (\d{1,9})(?:->|<-)(\d{1,9})")
INTERNAL = regex(
    r"[\\/]torch[\\/](?:distributed|_|autograd|nn[\\/]modules|utils)|<frozen|[\\/]runpy\.py"
)
_MOMENTS = ("time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns")
Entry = dict[str, Any]


class Digests:
    """Makes digests of dumps; groups that several ranks name are one."""

    def __init__(self) -> None:
        self.groups: list[FlightGroup] = []
        self._index: dict[tuple[str, str, str], int] = {}
        self._common: dict[tuple[int, ...], frozenset[int]] = {}

    def digest(self, dump: Any, path: str, dumped_ns: int = 0) -> RankDump:
        """The digest, its rank not yet known (-1). Raises UnreadableInputError where it is no
        dump."""
        if not isinstance(dump, dict) or not isinstance(dump.get("entries"), list):
            raise UnreadableInputError("no Flight Recorder dump: it has no entries")
        try:
            return self._digest(dump, path, dumped_ns)
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
            raise UnreadableInputError(f"damaged ({type(error).__name__}: {error})") from error

    def candidates(self, dump: RankDump) -> frozenset[int]:
        """The ranks that are in all groups of the dump; empty where it does not say. One value for
        all that share their groups: it may be long."""
        known = tuple(i for i in dump.groups if self.groups[i].ranks)
        if known and known not in self._common:
            self._common[known] = frozenset.intersection(
                *(frozenset(self.groups[i].ranks) for i in known)
            )
        return self._common.get(known, frozenset())

    def _digest(self, dump: Entry, path: str, dumped_ns: int) -> RankDump:
        entries: list[Entry] = dump["entries"]
        by_name = {
            str(one["name"]): self._group(one)
            for one in (dump.get("pg_config") or {}).values()
            if one["name"]
        }
        by_group: dict[int, list[tuple[int, Entry]]] = {}
        ids: dict[str, int] = {}
        group = -1
        for i, entry in enumerate(entries):
            group = self._group_of(entry, by_name)
            record = _whole(entry.get("record_id", i))  # counts what was overwritten, too
            by_group.setdefault(group, []).append((record, entry))
            ids[str(entry.get("pg_id", ""))] = group
        counted = self._counted(dump.get("pg_status") or {}, by_name, ids)
        wrapped = _is_wrapped(entries)
        groups = {
            i: _in_group(
                by_group.get(i, ()),
                counted.get(i),
                wrapped,
                is_small=len(self.groups[i].ranks) <= FEW_RANKS,
            )
            for i in by_name.values()
        }
        last: Entry = next(reversed(entries), {})
        return RankDump(
            -1,
            path,
            groups,
            len(entries),
            _op(0, last) if entries else None,
            group,
            max(_time(last.get(moment)) for moment in _MOMENTS),
            dumped_ns,
            str(dump.get("version", "")),
        )

    def _group_of(self, entry: Entry, by_name: dict[str, int]) -> int:
        """The index of an entry's group; one that the dump does not list is added to
        `by_name`."""
        named = entry.get("process_group") or (str(entry.get("pg_id", 0)), "")
        if named[0] not in by_name:
            stated = {"name": named[0], "desc": named[1], "ranks": ""}
            by_name[named[0]] = self._group(stated)
        return by_name[named[0]]

    def _group(self, config: Entry) -> int:
        """The index of a group. Its ranks are a text: long ones are the same in thousands of
        dumps."""
        name = str(config["name"])
        desc = str(config.get("desc", ""))
        ranks = str(config.get("ranks", ""))
        if (name, desc, ranks) not in self._index:
            members = tuple(map(int, re.findall(r"\d+", ranks)))
            if not RANKS.fullmatch(ranks) or max(members, default=0) >= limits().ranks:
                raise ValueError(f"ranks of group {name}")
            self._index[name, desc, ranks] = len(self.groups)
            self.groups.append(FlightGroup(name, desc, members))
        return self._index[name, desc, ranks]

    def _counted(
        self, status: Entry, by_name: dict[str, int], ids: dict[str, int]
    ) -> dict[int, Entry]:
        """The counters by group. They have the number of a group in its process, entries have that
        and its name: groups without entries are told by their order, which is that of their
        making."""
        found = {ids[pg]: counters for pg, counters in status.items() if pg in ids}
        if len(status) == len(by_name) and all(map(str.isdigit, [*by_name, *status])):
            names = sorted(by_name, key=int)
            numbers = sorted(status, key=int)
            paired = {number: by_name[name] for number, name in zip(numbers, names, strict=True)}
            if all(paired[pg] == group for pg, group in ids.items() if pg in paired):
                found = {group: status[number] for number, group in paired.items()}
        return found


def _is_wrapped(entries: Sequence[Entry]) -> bool:
    if not entries:
        return False
    first, last = (_whole(entry.get("record_id", 0)) for entry in (entries[0], entries[-1]))
    return first > 0 and last - first == len(entries) - 1


def _in_group(
    entries: Sequence[tuple[int, Entry]],
    counters: Entry | None,
    wrapped: bool,
    *,
    is_small: bool,
) -> GroupProgress:
    """Where the rank stands, from its entries of the group in order, and the group's counters."""
    completed_at = -1 if counters is None else _whole(counters["last_completed_collective"])
    if not entries:
        return _from_counters(counters, completed_at, wrapped)
    ended = _ended_batches([e for _, e in entries], completed_at)
    collectives, pairs = _parted(entries)
    enqueued = max(_collective_seq(e) for _, e in entries)
    place = _first_open(collectives, ended)
    head = _op(*collectives[place]) if place < len(collectives) else None
    may_be_overwritten = wrapped and not pairs and place == 0
    if head is not None and may_be_overwritten and -1 < completed_at < head.seq - 1:
        head = _overwritten(completed_at + 1)  # the counter is not
    at = enqueued + 1 if head is None else head.seq
    near = collectives[max(place - TAIL, 0) : place + TAIL]
    before = collectives[max(place - HISTORY, 0) : place] if is_small else []
    return GroupProgress(
        enqueued,
        at - 1,
        head,
        last=_op(*collectives[-1]) if collectives else None,
        pairs=tuple(_first_of_pairs(pairs, ended)),
        pairs_enqueued=max((_seq(e) for _, e in pairs), default=-1),
        tail={_seq(e): _signature(e) for _, e in reversed(near)},
        follows=usual_next([_signature(e) for _, e in before]),
        ended_unseen=any(_ended_unseen(entry) for _, entry in (entries[0], entries[-1])),
    )


def _from_counters(counters: Entry | None, completed_at: int, wrapped: bool) -> GroupProgress:
    """Where the rank stands in a group without entries. What is not completed was overwritten."""
    enqueued = -1 if counters is None else _whole(counters["last_enqueued_collective"])
    is_lost = wrapped and enqueued > completed_at >= 0
    head = _overwritten(completed_at + 1) if is_lost else None
    return GroupProgress(enqueued, completed_at, head, pairs_enqueued=enqueued, from_status=True)


def _overwritten(seq: int) -> Op:
    return Op(seq, "", record=-1)


def _first_open(collectives: Sequence[tuple[int, Entry]], ended: set[tuple[bool, int]]) -> int:
    """The place of the first that is not completed; after all where there is none."""
    for place, (_, entry) in enumerate(collectives):
        if not _completed(entry) and _number(entry) not in ended:
            return place
    return len(collectives)


def usual_next(history: Sequence[Signature]) -> Signature:
    """What followed the longest stretch of earlier operations that is like the last ones; the later
    of two as long. `NO_SIGNATURE` where the last operation is unlike all before it."""
    newest_first = history[::-1]
    like_the_last = _common_prefixes(newest_first)
    best = 0
    found = NO_SIGNATURE
    for place, length in enumerate(like_the_last):
        if length > best:
            best = length
            found = newest_first[place - 1]
    return found


def _common_prefixes(values: Sequence[Signature]) -> list[int]:
    """How many values from each place on are those from the begin on, 0 for the begin: the Z
    algorithm, in linear time (Gusfield, "Algorithms on Strings, Trees, and Sequences", 1.4)."""
    found = [0] * len(values)
    left = right = 0
    for i in range(1, len(values)):
        same = min(found[i - left], right - i) if i < right else 0
        while i + same < len(values) and values[same] == values[i + same]:
            same += 1
        found[i] = same
        if i + same > right:
            left = i
            right = i + same
    return found


def _ended_unseen(entry: Entry) -> bool:
    return bool(entry.get("retired")) and entry.get("state") == "scheduled"


def _ended_batches(entries: Sequence[Entry], completed: int) -> set[tuple[bool, int]]:
    """The numbers of batches that are completed. Only what ends a batch has a state; where dumps
    leave out what is completed, its operations stay, and the counter of the group says it."""
    ends = {_number(e): _completed(e) for e in filter(_is_end, entries)}
    open_ = Counter(_number(e) for e in entries if not (_completed(e) or _is_end(e)))
    repeated = {one for one, count in open_.items() if count > 1} - ends.keys()
    alone = {one for one in repeated if one[1] <= completed}
    return alone | {one for one, done in ends.items() if done}


def _parted(
    entries: Sequence[tuple[int, Entry]],
) -> tuple[list[tuple[int, Entry]], list[tuple[int, Entry]]]:
    """Collectives, and sends and receives. What only ends a batch of them has neither sizes nor
    peers."""
    collectives = []
    pairs = []
    for numbered in entries:
        is_pair = numbered[1].get("is_p2p", True)
        if is_pair and ENDS.search(numbered[1]["profiling_name"]):
            pairs.append(numbered)
        elif not (is_pair and "is_p2p" in numbered[1] and _is_end(numbered[1])):
            collectives.append(numbered)
    return collectives, pairs


def _first_of_pairs(
    pairs: Iterable[tuple[int, Entry]], ended: set[tuple[bool, int]]
) -> Iterable[Op]:
    """For each peer and direction the first that is not completed: one that a later one passed
    is."""
    first: dict[tuple[str, int], Op] = {}
    for i, entry in pairs:
        op = _op(i, entry)
        if _completed(entry) or _number(entry) in ended:
            first.pop((op.kind, op.peer), None)
        else:
            first.setdefault((op.kind, op.peer), op)
    return first.values()


def _is_end(entry: Entry) -> bool:
    return bool(entry["profiling_name"][-10:] == ":coalesced")


def _completed(entry: Entry) -> bool:
    """gloo never changes the state: what is retired was completed."""
    return bool(entry.get("retired")) or entry.get("state") == "completed"


def _seq(entry: Entry) -> int:
    p2p = entry.get("is_p2p") or ENDS.search(entry["profiling_name"])
    return _whole(entry["p2p_seq_id"] if p2p and "p2p_seq_id" in entry else _collective_seq(entry))


def _collective_seq(entry: Entry) -> int:
    return _whole(entry["collective_seq_id"] if "collective_seq_id" in entry else entry["seq_id"])


def _number(entry: Entry) -> tuple[bool, int]:
    return bool(entry.get("is_p2p")), _seq(entry)


def _kind(entry: Entry) -> str:
    return str(entry["profiling_name"]).partition(":")[2].partition(" ")[0] or str(
        entry["profiling_name"]
    )


def _signature(entry: Entry) -> Signature:
    types = sorted(set(map(str, entry.get("input_dtypes") or entry.get("output_dtypes") or ())))
    sizes = (entry.get(f"{side}_sizes") or () for side in ("input", "output"))
    inputs, outputs = (_whole(sum(map(_elements, shapes))) for shapes in sizes)
    return _kind(entry), inputs, outputs, ", ".join(types)


def _elements(shape: Any) -> int:
    """The elements of a tensor. Raises ValueError for what is no shape: text and lists multiply by
    repeating themselves, and products of large numbers grow without end."""
    count = 1
    for size in shape:
        if type(size) is not int:
            raise ValueError("a size that is no number")
        count = _whole(count * _whole(size))
    return count


def _op(record: int, entry: Entry) -> Op:
    ends = ENDS.search(entry["profiling_name"])
    texts = dict.fromkeys(
        str(entry[name]) for name in ("input_sizes", "output_sizes") if entry.get(name)
    )
    sizes = (text[1:-1] if len(text) < 60 else f"{text[1:60]}…" for text in texts)
    return Op(
        _seq(entry),
        _kind(entry),
        _whole(ends[3]) if ends else -1,
        record,
        _time(entry.get("time_created_ns")),
        " to ".join(sizes),
        _signature(entry),
        entry.get("state") == "started",
        _frame(entry.get("frames") or ()),
    )


def _time(value: Any) -> int:
    return _whole(value) if value and _whole(value) > LEAST_NS else 0


def _whole(value: Any) -> int:
    """The number. Raises ValueError where 64 bits do not hold it, and what `int` raises."""
    if not -MOST_IDS <= int(value) <= MOST_IDS:
        raise ValueError("a number out of all reason")
    return int(value)


def _frame(frames: Sequence[Entry]) -> str:
    """The line of the program that issued it: the innermost that is not PyTorch's own."""
    own = (f for f in frames if not INTERNAL.search(str(f.get("filename"))))
    frame = next(own, frames[0] if frames else None)
    return (
        ""
        if frame is None
        else f"{frame.get('filename')}:{frame.get('line')} ({frame.get('name')})"
    )
