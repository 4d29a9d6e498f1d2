"""What NCCL says of itself with NCCL_DEBUG=INFO: how the ranks of a job are connected, and what it
warns of."""

from collections.abc import Mapping
from dataclasses import field

from traceanalyzer.base import counted, dataclass

SOCKET = "NET/Socket"
P2P = "P2P"
SHM = "SHM"
GDR = "GDRDMA"  # at the end of a network's name where it reads and writes the GPU's memory itself


@dataclass(frozen=True)
class NcclLog:
    """The lines of all processes of a log together. None: not said."""

    version: str | None = None
    ranks: int | None = None  # of the largest communicator
    nodes: int | None = None
    processes: int = 0  # that wrote lines
    channels: int | None = None  # for collectives
    network: str | None = None  # between nodes, as NCCL calls it: IB, Socket, AWS Libfabric
    connections: Mapping[str, int] = field(default_factory=dict)
    """How many connections between two ranks, each channel's its own, go which way: `P2P`, `SHM`,
    `NET/Socket`, `NET/IB`, `NET/IB/GDRDMA`."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Variables of the environment that decide ways and channels, as they were set."""
    without_ib: str | None = None  # why InfiniBand is not used, in NCCL's words
    without_p2p: str | None = None  # why GPUs do not read each other's memory, likewise
    without_gdr: str | None = None  # why the network does not read GPU memory, likewise
    nvls: bool | None = None  # whether NVLink's multicast adds up in the switch
    warnings: Mapping[str, int] = field(default_factory=dict)  # texts of WARN lines, how often each

    @property
    def over_network(self) -> dict[str, int]:
        """The connections through a network."""
        return {way: n for way, n in self.connections.items() if way.startswith("NET/")}

    @property
    def ranks_on_nodes(self) -> str:
        """The size of the job; empty where it is not said."""
        if not self.ranks:
            return ""
        return f"{counted(self.ranks, 'rank')} on {counted(self.nodes or 1, 'node')}"
