"""Findings on what NCCL says of itself: ways between ranks that are slower than others, settings that
take a faster one away, warnings. What a change gains, the log does not tell."""

from collections.abc import Iterator, Mapping

from traceanalyzer.diagnosis.draft import Draft, Proposal, finding
from traceanalyzer.diagnosis.finding import Evidence
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.pages import said
from traceanalyzer.trace import Bool
from traceanalyzer.trace.nccl import GDR, P2P, SHM, SOCKET, NcclLog

FINDINGS = ("nccl-socket", "nccl-no-gpudirect", "nccl-no-p2p", "nccl-few-channels")
"""Findings with advice, which is given although no part of a step is measured."""
MOSTLY = 0.5
"""Share of the connections of a kind from which a slower way is a finding: a few pairs of GPUs may have
no better one, and count where every ring has such a pair."""
FEW_CHANNELS = 4
"""A limit on channels from here down: a node with NVLink uses 12 to 32, one with PCIe 2 to 4."""
LIMITS = ("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS")
OFF = ("1", "true", "yes", "on")
NARROW_LEVELS = ("0", "1", "LOC", "NVL", "PIX", "PXB")
"""Levels of NCCL_P2P_LEVEL that leave out GPUs under other host bridges or sockets."""
SHOWN = 5  # warnings
BASIS = "the log does not time anything: nccl-tests before and after do"


def nccl_socket(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Data goes over TCP sockets."""
    log = m.trace.nccl
    if log is None or not _uses_sockets(log):
        return
    evidence = [
        Evidence("over sockets", _of_all(log, SOCKET) or "network Socket", "", log.ranks_on_nodes),
        *_why(log.settings, "NCCL_IB_DISABLE", "NCCL_NET", "NCCL_SOCKET_IFNAME"),
        *_quoted("InfiniBand", log.without_ib),
    ]
    off = "NCCL_IB_DISABLE" if _is_set(log.settings, "NCCL_IB_DISABLE") else ""
    if log.settings.get("NCCL_NET", "").lower() == "socket":
        off = off or "NCCL_NET"
    is_missing = "libibverbs" in (log.without_ib or "")
    which = "disabled" if off else "library" if is_missing else "words"
    change = _change("nccl-socket", which, off)
    yield finding("nccl-socket", "none", None, evidence, [change])


def nccl_no_gpudirect(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """The network does not read the GPUs' memory itself."""
    log = m.trace.nccl
    if log is None:
        return
    ways = {way: n for way, n in log.over_network.items() if way != SOCKET}
    without = sum(n for way, n in ways.items() if not way.endswith(GDR))
    if not without or without < MOSTLY * sum(ways.values()):
        return
    evidence = [
        Evidence(
            "without GPUDirect RDMA",
            f"{without:,} of {sum(ways.values()):,} connections",
            "",
            log.ranks_on_nodes,
        ),
        *_why(log.settings, "NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ"),
        *_quoted("GPUDirect", log.without_gdr),
    ]
    change = _change("nccl-no-gpudirect")
    yield finding("nccl-no-gpudirect", "none", None, evidence, [change])


def nccl_no_p2p(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """GPUs of a node exchange data through host memory."""
    log = m.trace.nccl
    if log is None:
        return
    through_host = log.connections.get(SHM, 0)
    within = through_host + log.connections.get(P2P, 0)
    in_every_ring = 0 < (log.channels or 0) <= through_host
    if not through_host or (through_host < MOSTLY * within and not in_every_ring):
        return
    evidence = [
        Evidence(
            "through host memory",
            f"{through_host:,} of {within:,} connections",
            "",
            log.ranks_on_nodes,
        ),
        *_rings(log, through_host),
        *_why(log.settings, "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"),
        *_quoted("P2P", log.without_p2p),
    ]
    off = [name for name in ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL") if _takes_p2p(log, name)]
    which = "disabled" if off else "words"
    change = _change("nccl-no-p2p", which, " and ".join(off))
    yield finding("nccl-no-p2p", "none", None, evidence, [change])


def nccl_few_channels(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """A setting keeps collectives to a few channels."""
    log = m.trace.nccl
    if log is None:
        return
    limits = {name: log.settings[name] for name in LIMITS if name in log.settings}
    few = {
        name for name, value in limits.items() if value.isdecimal() and int(value) <= FEW_CHANNELS
    }
    if not few:
        return
    used = "" if log.channels is None else f"{log.channels} are used"
    evidence = [Evidence("set", f"{name}={limits[name]}", "", used) for name in sorted(few)]
    change = _change("nccl-few-channels")
    yield finding("nccl-few-channels", "none", None, evidence, [change])


def nccl_warnings(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """What NCCL warns of."""
    log = m.trace.nccl
    if log is None or not log.warnings:
        return
    often = sorted(log.warnings.items(), key=lambda one: -one[1])[:SHOWN]
    evidence = [
        Evidence("warning", text, "", "once" if times == 1 else f"{times:,} times")
        for text, times in often
    ]
    yield finding("nccl-warnings", "none", None, evidence)


def _change(id_: str, which: str = "words", names: str = "") -> Proposal:
    """`which` words of a finding's page, and the settings that they are on."""
    return Proposal(said(id_, which, names=names), BASIS, bound=True)


def _rings(log: NcclLog, through_host: int) -> list[Evidence]:
    """As many connections as channels: each ring goes at the rate of its slowest one."""
    channels = log.channels or 0
    if not 0 < channels <= through_host:
        return []
    return [Evidence("channels", channels, "", "at least one such connection for each ring")]


def _takes_p2p(log: NcclLog, name: str) -> bool:
    """Whether a setting keeps GPUs from reading each other's memory; a level does so below the
    distance that GPUs of a node have."""
    value = log.settings.get(name, "")
    return (
        value.upper() in NARROW_LEVELS if name == "NCCL_P2P_LEVEL" else _is_set(log.settings, name)
    )


def _uses_sockets(log: NcclLog) -> bool:
    """Whether data goes over sockets: of one node nothing does, where GPUs reach each other. The lines
    of one rank may have no connection between nodes, and still name the network."""
    if log.over_network:
        return SOCKET in log.connections
    return log.network == "Socket" and (log.nodes or 1) > 1


def _of_all(log: NcclLog, way: str) -> str:
    of_network = sum(log.over_network.values())
    count = log.connections.get(way, 0)
    return f"{count:,} of {of_network:,} connections between nodes" if count else ""


def _is_set(settings: Mapping[str, str], name: str) -> bool:
    return settings.get(name, "").lower() in OFF


def _why(settings: Mapping[str, str], *names: str) -> list[Evidence]:
    """The settings that are set, of those named."""
    found = [(name, settings[name]) for name in names if name in settings]
    return [Evidence("set", f"{name}={value}", "", "in the environment") for name, value in found]


def _quoted(what: str, text: str | None) -> list[Evidence]:
    return [Evidence(what, text, "", "as NCCL says")] if text else []
