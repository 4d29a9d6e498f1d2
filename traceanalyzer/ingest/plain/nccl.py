"""The lines that NCCL and RCCL print with NCCL_DEBUG=INFO: version, ways between ranks, channels,
settings, warnings. Those of all processes may stand in one text, between those of a program.

Lines of NCCL 2.4 to 2.28: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from traceanalyzer.base import ELLIPSIS, counted, dataclass, regex
from traceanalyzer.trace.nccl import GDR, P2P, SHM, SOCKET, NcclLog

_Match = re.Match[str]
_MARK = " NCCL "
_HEAD = regex(r"([\w.-]{1,100}):(\d{1,10}):\d{1,10} \[-?\d{1,4}\]")
"""Who writes: host, process, thread, GPU."""
_VERSION = regex(r"\b[NR]CCL version (\d[\w.+-]{0,40})")
_CONNECTION = regex(
    r"^Channel (\d{1,4})(?:/\d{1,4})? : (\d{1,7})\[\w{1,12}\] -> (\d{1,7})\[\w{1,12}\] "
    r"(?:\[(?:send|receive)\] )?via (.{1,200})$"
)
_COMMUNICATOR = regex(r"\bcomm 0x\w{1,20} rank (\d{1,7}) n[Rr]anks (\d{1,7})(?: nNodes (\d{1,6}))?")
_COLLECTIVES = regex(r"^(\d{1,4}) coll channels")
_RINGS = regex(r"^Channel \d{1,4}/(\d{1,4}) :\s{1,20}\d{1,7}\s{1,20}\d")
_NETWORK = regex(r"^Using network (.{1,60})$")
_SETTING = regex(r"^(NCCL_[A-Z0-9_]{1,60}) set (?:by environment )?to (.{1,100}?)\.?$")
_NO_IB = regex(
    r"^(?:NET/IB : No (?:IB )?device found\.?|Failed to open libibverbs\.so\S{0,10}"
    r"|.{0,80}libibverbs.{0,40}not found.{0,40})$"
)
_NO_P2P = regex(
    r"^(?:P2P is disabled between [^.]{1,80}|Could not enable P2P between .{1,80}"
    r"|.{0,60}peer access.{0,60}not supported.{0,60})"
)
_NO_GDR = regex(r"^.{0,40}GPU Direct RDMA Disabled.{0,100}$")
_NVLS = regex(r"^NVLS multicast support is (not )?available|([1-9]\d{0,3}) nvls channels")
_DECIDING = frozenset(
    f"NCCL_{name}"
    for name in (
        *("IB_DISABLE", "IB_HCA", "NET", "NET_PLUGIN", "NET_GDR_LEVEL", "NET_GDR_READ"),
        *("P2P_DISABLE", "P2P_LEVEL", "SHM_DISABLE", "SOCKET_IFNAME", "ALGO", "PROTO"),
        *("MAX_NCHANNELS", "MIN_NCHANNELS", "MAX_CTAS", "MIN_CTAS", "NVLS_ENABLE", "BUFFSIZE"),
    )
)
"""Settings that decide ways, algorithms and channels."""
LONGEST_WARNING = 160
LONGEST_IN_SENTENCE = 100  # characters of a warning
MOST_WARNINGS = 20  # unlike ones: a job that goes on failing writes thousands
_NUMBERS = regex(r"0x[0-9a-f]+|\d+(?:\.\d+){3}(?:<\d+>)?|\d{4,}")
"""What differs between warnings that are alike: addresses, hosts, sizes."""
_WAYS = {
    P2P: "by P2P",
    SHM: "through host memory (SHM)",
    SOCKET: "over TCP sockets (NET/Socket)",
}
_NOT_SAID = "It does not say how ranks are connected."


@dataclass(frozen=True)
class _Line:
    """A line of NCCL's."""

    host: str
    process: str
    is_warning: bool
    text: str


def has_nccl_lines(text: str) -> bool:
    """Whether a text has lines of NCCL's."""
    return next(_lines(text), None) is not None


def nccl_log(text: str) -> NcclLog | None:
    """What NCCL's lines say; None where a text has none."""
    lines = list(_lines(text))
    if not lines:
        return None
    texts = [line.text for line in lines if not line.is_warning]
    ranks, nodes = _size(texts)
    hosts = {line.host for line in lines}
    return NcclLog(
        version=_first(_VERSION.findall(text)),
        ranks=ranks,
        nodes=nodes or (len(hosts) if ranks else None),
        processes=len({(line.host, line.process) for line in lines}),
        channels=_channels(texts),
        network=_first(match[1].strip() for match in _matches(_NETWORK, texts)),
        connections=_connections(lines),
        settings=_settings(texts),
        without_ib=_quoted(_NO_IB, lines),
        without_p2p=_quoted(_NO_P2P, lines),
        without_gdr=_quoted(_NO_GDR, lines),
        nvls=_nvls(texts),
        warnings=_warnings(lines),
    )


def nccl_sentence(log: NcclLog) -> str:
    """How the ranks are connected, in a sentence, and the first warning."""
    known = ": ".join(filter(None, (_job(log), _ways(log))))
    sentence = f"{known[:1].upper()}{known[1:]}." if known else _NOT_SAID
    return f"{sentence}{_first_warning(log)}"


def _job(log: NcclLog) -> str:
    """Ranks, nodes and channels."""
    channels = counted(log.channels, "channel") if log.channels else ""
    return ", ".join(filter(None, (log.ranks_on_nodes, channels)))


def _ways(log: NcclLog) -> str:
    """How many connections go which way; without any the network."""
    if not log.connections:
        return f"network {log.network}" if log.network else ""
    (way, count), *others = log.connections.items()
    parts = [f"{counted(count, 'connection')} {_over(way)}"]
    parts += [f"{count:,} {_over(way)}" for way, count in others]
    if log.network and not log.over_network and (log.nodes or 1) > 1:
        parts.append(f"network {log.network} between nodes")
    return ", ".join(parts)


def _over(way: str) -> str:
    """How a connection goes, in words."""
    if way in _WAYS or not way.startswith("NET/"):
        return _WAYS.get(way, f"by {way}")
    network = way.removesuffix(f"/{GDR}")
    return f"over {network} with{'' if network != way else 'out'} GPUDirect RDMA"


def _first_warning(log: NcclLog) -> str:
    if not log.warnings:
        return ""
    text = next(iter(log.warnings))
    short = text[:LONGEST_IN_SENTENCE].rstrip(" .")
    if len(text) > LONGEST_IN_SENTENCE:
        short += ELLIPSIS
    more = len(log.warnings) - 1
    others = f" (and {counted(more, 'other warning')})" if more else ""
    return f" NCCL warns: {short}{others}."


def _lines(text: str) -> Iterator[_Line]:
    for line in text.splitlines():
        before, mark, rest = line.partition(_MARK)
        kind, _, message = rest.partition(" ")
        if not mark or kind not in ("INFO", "WARN"):
            continue
        head = _HEAD.search(before)
        if head is not None:
            host, process = head.groups()
            yield _Line(host, process, kind == "WARN", message.strip())


def _matches(pattern: re.Pattern[str], texts: Iterable[str]) -> list[_Match]:
    return list(filter(None, map(pattern.search, texts)))


def _first(found: Iterable[str]) -> str | None:
    return next(iter(found), None)


def _quoted(pattern: re.Pattern[str], lines: Sequence[_Line]) -> str | None:
    """What the first line says that has the pattern."""
    return _first(match[0] for match in _matches(pattern, (line.text for line in lines)))


def _size(texts: Sequence[str]) -> tuple[int | None, int | None]:
    """Ranks of the largest communicator, and its nodes."""
    found = _matches(_COMMUNICATOR, texts)
    if not found:
        return None, None
    most = max(int(match[2]) for match in found)
    largest = [match for match in found if int(match[2]) == most]
    nodes = [int(match[3]) for match in largest if match[3]]
    return most, max(nodes, default=None)


def _channels(texts: Sequence[str]) -> int | None:
    """Channels of collectives: as it counts them, else as it numbers its rings."""
    for pattern in (_COLLECTIVES, _RINGS):
        counts = [int(match[1]) for match in _matches(pattern, texts)]
        if counts:
            return max(counts)
    return None


def _connections(lines: Sequence[_Line]) -> dict[str, int]:
    """Connections by way, most first. Within a node the rank that sends writes one, over a network
    both ends may."""
    ways: dict[tuple[str, ...], str] = {}
    for line in lines:
        found = _CONNECTION.search(line.text)
        if found is not None and not line.is_warning:
            way = _way(found[4])
            writer = () if way.startswith("NET/") else (line.host, line.process)
            ways[*writer, *found.group(1, 2, 3)] = way
    return dict(Counter(ways.values()).most_common())


def _way(written: str) -> str:
    """`NET/IB/GDRDMA` of `NET/IB/0(6)/GDRDMA(PCI)`, `P2P` of `P2P/IPC/read`."""
    if written.startswith("NET/"):
        network = written.split("/")[1]
        return f"NET/{network}/{GDR}" if GDR in written else f"NET/{network}"
    if written.startswith(SHM) or "shared memory" in written:
        return SHM
    return written.partition("/")[0].partition(" ")[0]


def _settings(texts: Sequence[str]) -> dict[str, str]:
    found = (match.groups() for match in _matches(_SETTING, texts))
    return {name: value for name, value in found if name in _DECIDING}


def _nvls(texts: Sequence[str]) -> bool | None:
    found = _matches(_NVLS, texts)
    return any(match[2] or match[1] is None for match in found) if found else None


def _warnings(lines: Sequence[_Line]) -> dict[str, int]:
    """Warnings, how often each; those that differ by an address or a size are one."""
    shown: dict[str, str] = {}
    times = Counter[str]()
    for line in lines:
        alike = _NUMBERS.sub("#", line.text)
        if not line.is_warning or (alike not in shown and len(shown) >= MOST_WARNINGS):
            continue
        shown.setdefault(alike, line.text[:LONGEST_WARNING])
        times[alike] += 1
    return {shown[alike]: count for alike, count in times.items()}
