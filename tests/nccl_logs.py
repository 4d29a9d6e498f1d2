"""Logs of NCCL as jobs write them: other versions, networks and machines, a line as NCCL's sources and
public bug reports have it."""

from collections.abc import Iterator

SOCKETS = """\
node01:51632:51632 [0] NCCL INFO Bootstrap : Using eth0:10.0.12.4<0>
node01:51632:51632 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation
NCCL version 2.18.3+cuda12.1
node01:51632:51703 [0] NCCL INFO Failed to open libibverbs.so[.1]
node01:51632:51703 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.12.4<0>
node01:51632:51703 [0] NCCL INFO Using network Socket
node02:40121:40190 [0] NCCL INFO Using network Socket
node01:51632:51703 [0] NCCL INFO comm 0x55b2ac3dbd40 rank 0 nranks 2 cudaDev 0 busId 17000 commId 0x9d1e - Init START
node02:40121:40190 [0] NCCL INFO comm 0x5620f86e0310 rank 1 nranks 2 cudaDev 0 busId 17000 commId 0x9d1e - Init START
node01:51632:51703 [0] NCCL INFO Channel 00/02 :    0   1
node01:51632:51703 [0] NCCL INFO Channel 00/0 : 1[17000] -> 0[17000] [receive] via NET/Socket/0
node01:51632:51703 [0] NCCL INFO Channel 01/0 : 1[17000] -> 0[17000] [receive] via NET/Socket/0
node01:51632:51703 [0] NCCL INFO Channel 00/0 : 0[17000] -> 1[17000] [send] via NET/Socket/0
node02:40121:40190 [0] NCCL INFO Channel 00/0 : 0[17000] -> 1[17000] [receive] via NET/Socket/0
node01:51632:51703 [0] NCCL INFO 2 coll channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer
node01:51632:51703 [0] NCCL INFO comm 0x55b2ac3dbd40 rank 0 nranks 2 cudaDev 0 busId 17000 - Init COMPLETE
"""
"""Two nodes in containers without InfiniBand's library."""

WORKSTATION = """\
ws:2210:2210 [0] NCCL INFO Bootstrap : Using [0]enp5s0:192.168.1.20<0>
ws:2210:2210 [0] NCCL INFO NET/IB : No device found.
ws:2210:2210 [0] NCCL INFO Using network Socket
NCCL version 2.10.3+cuda11.3
ws:2210:2260 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.
ws:2210:2260 [0] NCCL INFO Channel 00/02 :    0   1
ws:2210:2260 [0] NCCL INFO Channel 01/02 :    0   1
ws:2210:2260 [0] NCCL INFO Channel 00 : 0[1000] -> 1[24000] via direct shared memory
ws:2210:2260 [0] NCCL INFO Channel 01 : 0[1000] -> 1[24000] via direct shared memory
ws:2211:2261 [1] NCCL INFO Channel 00 : 1[24000] -> 0[1000] via direct shared memory
ws:2211:2261 [1] NCCL INFO Channel 01 : 1[24000] -> 0[1000] via direct shared memory
ws:2210:2260 [0] NCCL INFO comm 0x7f1b28008fb0 rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE
ws:2211:2261 [1] NCCL INFO comm 0x7f72c4008fb0 rank 1 nranks 2 cudaDev 1 busId 24000 - Init COMPLETE
"""
"""Two GPUs of one machine, P2P off by the environment; an older version."""

EFA = """\
ip-10-0-1-7:88:88 [0] NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)
ip-10-0-1-7:88:120 [0] NCCL INFO Using network AWS Libfabric
NCCL version 2.19.4+cuda12.2
ip-10-0-1-7:88:120 [0] NCCL INFO comm 0x9e rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 101c0 commId 0x4 - Init START
ip-10-0-1-7:88:120 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/AWS Libfabric/0/GDRDMA
ip-10-0-1-7:88:120 [0] NCCL INFO Channel 00/0 : 0[0] -> 7[7] via P2P/IPC/read
ip-10-0-1-7:88:120 [0] NCCL INFO 8 coll channels, 0 nvls channels, 8 p2p channels, 1 p2p channels per peer
"""
"""The log of one of sixteen ranks: all as it should be."""


def _two_nodes() -> Iterator[str]:
    for rank in range(16):
        host = "gpu-a" if rank < 8 else "gpu-b"
        head = f"{host}:{9000 + rank}:{9100 + rank} [{rank % 8}] NCCL INFO "
        if not rank:
            yield "NCCL version 2.21.5+cuda12.4"
        yield head + "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB ib0:10.1.0.1<0>"
        yield head + "Using network IB"
        yield (
            head + f"comm 0x5581a rank {rank} nRanks 16 nNodes 2 localRanks 8 localRank {rank % 8}"
        )
        yield head + "NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)"
        yield head + "GPU Direct RDMA Disabled for GPU 0 / HCA 0 (distance 7 > 4)"
        follower = (rank + 1) % 16
        is_near = rank // 8 == follower // 8
        way = "via P2P/CUMEM/read" if is_near else "[send] via NET/IB/0(0)"
        for channel in range(4):
            yield (
                head
                + f"Channel {channel:02d}/0 : {rank}[{rank % 8}] -> {follower}[{follower % 8}] {way}"
            )
        yield head + "16 coll channels, 16 collnet channels, 16 nvls channels, 16 p2p channels"
    for port in (45678, 45679):
        yield (
            f"[2024-09-02 10:11:12] gpu-a:9000:9300 [0] transport/net_ib.cc:1832 NCCL WARN NET/IB: Got "
            f"completion from peer 10.1.0.2<{port}> with status=12 opcode=32765 len=0 vendor err 129 (Recv)"
        )


INFINIBAND = "\n".join(_two_nodes()) + "\n"
"""All sixteen ranks of two nodes in one log; the network goes through host memory, and fails."""
