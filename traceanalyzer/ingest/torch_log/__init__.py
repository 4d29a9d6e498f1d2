"""The structured log of torch.compile (`TORCH_TRACE`): what was compiled, how long it took, and
what went wrong."""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from traceanalyzer.base import EmptyRecordingError, TraceAnalyzerError, UnreadableInputError, regex
from traceanalyzer.ingest.cache.beside import COMPILED
from traceanalyzer.ingest.stream import cannot_open, head_of, open_stream
from traceanalyzer.ingest.torch_log.fold import WANTED, CompileLogFold
from traceanalyzer.ingest.torch_log.records import Record, lines, records
from traceanalyzer.trace import Trace
from traceanalyzer.trace.compile_log import CompileLog, Counts, NotFused

MAX_PAIRS = 100_000  # pairs kept of a log
MAX_NODES = 200_000  # nodes of one graph whose operators are kept
MAX_REASON = 200
MAX_LINE = 100_000
"""Characters of a line that are looked at; a node that is fused of hundreds has some 50,000."""
MARK = b"[__fusion]"
_LINE = regex(
    r" (?P<thread>\d{1,18}) \S+\] (?:\[(?P<id>!?[\d/]+)(?:_\d+)?\] )?\[__fusion\] *(?P<said>.*)"
)
_NODE = regex(
    r"SchedulerNode\(name=\\?'(?P<name>\w+)\\?'\)(?P<about>.{0,4000}?)(?=SchedulerNode\(name=|$)"
)
_ORIGINS = regex(r"origins=(?:OrderedSet\(\[|\{)([^\]}]{0,2000})")
_PAIR = regex(r"cannot fuse (?P<first>\w+) with (?P<second>\w+): (?P<reason>.+)")
_ROUND = regex(
    r"completed fusion round .*fused (?P<before>\d{1,18}) nodes into (?P<after>\d{1,18}) nodes"
)
RECORD_IN_HEAD = regex(
    rb"^(?:\[[^\]\n]{1,64}\]: ?)?[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d{3,6} +\d+ *[^\]\n]{0,1000}?:\d+\] ?\{",
    re.MULTILINE,
)
"""A line that only a structured log has."""
MAX_FILES = 4096  # files read of a folder
_RANK = regex(r"rank[_.-]?(\d{1,9})")
_RANK_OF_PREFIX = regex(r"(\d{1,9})")


def recognise(head: bytes, path: Path) -> bool:
    """Whether the file begins as such a log does. `head`: its first bytes, decompressed."""
    return RECORD_IN_HEAD.search(head) is not None


def read(path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
    """A `Trace` with nothing in it but the log of each process. Raises EmptyRecordingError."""
    return [Trace(str(path), "torch_log", [], compile_logs=tuple(read_logs(path, progress)))]


def read_fusion(lines: Iterable[bytes]) -> list[NotFused]:
    """The pairs that inductor left apart, graph by graph, and why, from the text that
    TORCH_LOGS=+fusion writes. Rounds of fusion follow each other for each graph; the pairs of a
    round in which nothing was fused any more are those that were left apart."""
    threads: dict[str, _Graph] = {}
    found: list[NotFused] = []
    for line in lines:
        text = _LINE.search(line[:MAX_LINE].decode("utf-8", "replace")) if MARK in line else None
        if text is None:
            continue
        thread = text["thread"]
        message = text["said"]
        if message.startswith("===== attempting fusion (1/") or thread not in threads:
            found += threads[thread].left if thread in threads else []
            threads[thread] = _Graph(text["id"] or "")
        threads[thread].take(message)
    found += [pair for graph in threads.values() for pair in graph.left]
    return found[:MAX_PAIRS]


class _Graph:
    def __init__(self, compile_id: str) -> None:
        self.compile_id = compile_id
        self.left: list[NotFused] = []
        self._round: list[NotFused] = []
        self._operators: dict[str, str] = {}

    def take(self, line: str) -> None:
        """Note a line."""
        pair = _PAIR.match(line)
        fused = _ROUND.match(line)
        if pair is not None:
            if len(self._round) < MAX_PAIRS:
                first, second = map(self._with_operators, (pair["first"], pair["second"]))
                self._round.append(
                    NotFused(self.compile_id, first, second, pair["reason"][:MAX_REASON])
                )
        elif line.startswith("fuse_nodes_once"):
            self._round = []
        elif line.startswith("found 0 possible") or (
            fused is not None and fused["before"] == fused["after"]
        ):
            self.left = self._round
        elif "SchedulerNode(name=" in line and len(self._operators) < MAX_NODES:
            for node in _NODE.finditer(line):
                self._operators.setdefault(
                    node["name"], next(iter(_ORIGINS.findall(node["about"])), "")
                )

    def _with_operators(self, name: str) -> str:
        """A node, with the operators that it computes: `op7_op8 (amax, exp)`."""
        each = [
            self._operators.get(f"op{part}", "") for part in name.removeprefix("op").split("_op")
        ]
        operators = dict.fromkeys(
            one.strip() for text in each for one in text.split(",") if one.strip()
        )
        return f"{name} ({', '.join(operators)})" if operators else name


def read_logs(path: Path, progress: Callable[[float], None] | None = None) -> list[CompileLog]:
    """What each process compiled, of a log or of a folder of them, ordered by rank. Raises
    UnreadableInputError (no such file, no log), EmptyRecordingError (nothing in it can be read)."""
    found = [log for file in _log_files(path) for log in _read(file, progress)]
    if not found:
        raise EmptyRecordingError(
            f"{path}: no record of torch.compile in it; set TORCH_TRACE to a folder and run again"
        )
    found = _with_fusion(found, path) if path.is_dir() else found
    return sorted(found, key=lambda log: (log.rank is None, log.rank or 0, log.path))


def _with_fusion(logs: list[CompileLog], folder: Path) -> list[CompileLog]:
    """The logs with what text beside them says of fusion: of the rank in its file's name, or of the
    only one."""
    ranks = {log.rank for log in logs}
    for file in sorted(folder.iterdir())[:MAX_FILES]:
        if not _passes(file, lambda path: MARK in head_of(path)):
            continue
        rank = _rank_in(file.name)
        if rank is None and len(ranks) > 1:
            continue
        accepted = ranks if rank is None else {rank, None}
        with open_stream(file) as stream:
            pairs = read_fusion(lines(stream, Counts()))
        logs = [_with_pairs(log, pairs) if log.rank in accepted else log for log in logs]
    return logs


def _with_pairs(log: CompileLog, pairs: Iterable[NotFused]) -> CompileLog:
    return replace(log, not_fused=(*(log.not_fused or ()), *pairs))


def _passes(file: Path, is_it: Callable[[Path], bool]) -> bool:
    try:
        return file.is_file() and is_it(file)
    except UnreadableInputError:
        return False


def _rank_in(text: str, pattern: re.Pattern[str] = _RANK) -> int | None:
    named = pattern.search(text)
    return int(named[1]) if named else None


def logs_beside(recordings: Iterable[str]) -> list[CompileLog]:
    """The logs in the capture that recordings are of, the first folder of them that can be read;
    none without one."""
    for folder in dict.fromkeys(Path(recording).parent / COMPILED for recording in recordings):
        if folder.is_dir():
            try:
                return read_logs(folder)
            except TraceAnalyzerError:
                continue
    return []


def _log_files(path: Path) -> list[Path]:
    """The logs in a folder, or the log itself. Raises UnreadableInputError."""
    if not path.is_dir():
        if not is_log(path):
            raise UnreadableInputError(
                f"{path}: not a structured log of torch.compile; give what "
                "TORCH_TRACE=FOLDER wrote, or its folder"
            )
        return [path]
    try:
        inside = [file for file in sorted(path.iterdir()) if _passes(file, is_log)][:MAX_FILES]
    except OSError as error:
        raise cannot_open(path, error) from error
    of_capture = path / COMPILED
    if not inside and of_capture.is_dir():
        return _log_files(of_capture)
    if not inside:
        raise UnreadableInputError(
            f"{path}: no log of torch.compile in this folder; set TORCH_TRACE to it and run again"
        )
    return inside


def holds_logs(path: Path) -> bool:
    """Whether it is a structured log of torch.compile, or a folder with one right in it. Raises
    UnreadableInputError where it cannot be opened."""
    if not path.is_dir():
        return is_log(path)
    try:
        return any(_passes(file, is_log) for file in path.iterdir())
    except OSError as error:
        raise cannot_open(path, error) from error


def is_log(path: Path) -> bool:
    """Whether a file is a structured log of torch.compile. Raises UnreadableInputError where it
    cannot be opened."""
    with open_stream(path) as stream:
        return recognise(stream.read(), path)


_Process = tuple[str, int | None]  # the prefix of its lines, and its rank


class _Processes:
    """The processes that write into one file, told apart by their lines' prefix and by the rank
    that records carry. Before the process group is made there is no rank: the record belongs to
    what its thread belongs to later or, where there is one process, to that."""

    def __init__(self, path: str, rank: int | None) -> None:
        """`rank` is what the file's name says."""
        self.folds: dict[_Process, CompileLogFold] = {}
        self._path = path
        self._rank = rank
        self._of_thread: dict[tuple[str, int], _Process] = {}

    def of(self, record: Record) -> CompileLogFold:
        """The process that a record is of."""
        rank = record.envelope.get("rank")
        thread = (record.prefix, record.thread)
        if isinstance(rank, int):
            self._name(record.prefix, rank)
            self._of_thread[thread] = (record.prefix, rank)
        known = [process for process in self.folds if process[0] == record.prefix]
        default = known[0] if len(known) == 1 else (record.prefix, None)
        process = self._of_thread.get(thread, default)
        return self.folds.get(process) or self._begun(*process)

    def _name(self, prefix: str, rank: int) -> None:
        """Give records without a rank to the first process of their prefix that has one."""
        named: _Process = (prefix, rank)
        unnamed: _Process = (prefix, None)
        if named not in self.folds and unnamed in self.folds:
            self.folds[named] = self.folds.pop(unnamed)
            for thread, process in self._of_thread.items():
                if process == unnamed:
                    self._of_thread[thread] = named

    def _begun(self, prefix: str, rank: int | None) -> CompileLogFold:
        stated = _rank_in(prefix, _RANK_OF_PREFIX) if prefix else self._rank
        return self.folds.setdefault(
            (prefix, rank), CompileLogFold(self._path, stated if rank is None else rank)
        )


def _read(path: Path, progress: Callable[[float], None] | None) -> list[CompileLog]:
    """The processes of a file: one, or one for each rank that writes into it."""
    processes = _Processes(str(path), _rank_in(path.name))
    counts = Counts()
    with open_stream(path, progress) as stream:
        for record in records(lines(stream, counts), WANTED, counts):
            processes.of(record).take(record, counts)
        damage = stream.damage
    logs = [fold.result(counts) for fold in processes.folds.values()]
    if damage and logs:
        logs[0] = replace(logs[0], notes=(*logs[0].notes, (f"{damage[0].upper()}{damage[1:]}.")))
    return logs
