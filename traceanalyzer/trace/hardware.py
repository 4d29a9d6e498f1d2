"""What known GPUs can do at most: the table of `hardware.toml`, and which of its entries a recorded
device is."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, reduce
from itertools import chain
from operator import or_
from pathlib import Path
from typing import Any

from traceanalyzer.base import UnreadableInputError, dataclass, regex
from traceanalyzer.base.files import read_whole
from traceanalyzer.trace import Device, OccupancyLimit

PRECISIONS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8")
TERA = 1e12
GIGA = 1e9
MEBI = 1 << 20
KIBI = 1 << 10
REGISTERS_PER_SM = 65_536
"""32-bit registers of an SM, the same for every NVIDIA GPU since Kepler (CUDA C++ programming
guide)."""
WARP = 32  # threads that run together; of a smaller block the rest of them do nothing
ISSUED_PER_CYCLE = 4 * 32
"""Each of the four schedulers of an SM starts one instruction of 32 threads a cycle, since Volta
(CUDA C++ programming guide, "multiprocessor" of each compute capability)."""
MEMORY_RANGE = (0.85, 1.12)
"""Recorded over nominal memory: makers' gigabytes are sometimes 2**30 bytes (7 % more), and ECC,
the driver and MIG's bookkeeping keep up to a tenth. Sizes of different products and MIG slices lie
further apart."""
SAME_SPEED = 0.03  # makers round the bandwidth that clock and width of the memory's bus give
MOST = 1e15  # what no figure of a GPU comes near to
_ONE_GPU = regex(r"^\[\[gpu\]\]$", re.MULTILINE)
_MAKER = regex(r"^(?:NVIDIA|AMD|Tesla|Graphics Device)\s+", re.IGNORECASE)
_NUMBERS = (
    "sms",
    "bandwidth_gbs",
    "cache_mb",
    "link_gbs",
    "host_gbs",
    "threads_per_sm",
    "shared_kb_per_sm",
    "fp32_lanes_per_sm",
)
_KEYS = frozenset(
    {*_NUMBERS, "name", "match", "match_with_sms", "source", "memory_gb", "tensor", "vector"}
)
_INVALID = (
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    re.error,
)
"""What a file of another form makes of the parser; text that is no TOML, or not UTF-8, is a
ValueError."""


@dataclass(frozen=True)
class Hardware:
    """The limits of one GPU, dense; None where its maker does not publish them. Rates are per
    second."""

    name: str
    source: str  # the datasheet the figures are from
    match: tuple[re.Pattern[str], ...]
    memory_gb: tuple[float, ...]  # sizes of memory that it is sold with
    bandwidth: float  # device memory, bytes/s
    tensor: Mapping[str, float]  # FLOP/s on tensor cores by precision
    vector: Mapping[str, float]  # FLOP/s on the ordinary cores by precision
    sms: int | None = None
    cache_bytes: int | None = None  # last cache before the device memory
    link: float | None = None  # to other GPUs, all links together, each direction, bytes/s
    host: float | None = None  # to the host, each direction, bytes/s
    threads_per_sm: int | None = None
    blocks_per_sm: int | None = None
    shared_per_sm: int | None = None  # bytes of shared memory of an SM
    fp32_lanes_per_sm: int | None = None  # multiply-adds in fp32 that an SM starts in a cycle
    match_with_sms: tuple[re.Pattern[str], ...] = ()
    """Names that it shares with other products: the number of SMs must be recorded and be its
    own."""
    stated: bool = False
    """Whether the figures are those that the recording states of its own GPU, and not a
    datasheet's."""

    def describes(self, device: Device) -> bool:
        """Whether a recorded device is this GPU: by name, and nothing else that was recorded speaks
        against it (a MIG slice has the name of the whole GPU, but fewer SMs and less memory)."""
        name = _MAKER.sub("", _MAKER.sub("", device.called))
        same = device.sm_count == self.sms
        named = any(
            pattern.fullmatch(name)
            for pattern in (*self.match, *(self.match_with_sms if same else ()))
        )
        return named and (same or not device.sm_count or not self.sms) and self.fits(device)

    def fits(self, device: Device) -> bool:
        """Whether a device's memory, where it is recorded, has a size that this GPU is sold
        with."""
        low, high = MEMORY_RANGE
        size = (device.memory_bytes or 0) / GIGA
        return not size or any(
            low * nominal <= size <= high * nominal for nominal in self.memory_gb
        )

    def matrix_peak(self, precision: str) -> float | None:
        """FLOP/s that a matrix product in this precision can reach: on tensor cores where they do
        it, else on the ordinary ones; None where neither is known."""
        return self.tensor.get(precision) or self.vector.get(precision)

    @property
    def issue_rate(self) -> float | None:
        """Instructions that it starts a second, those of each thread counted, at the clock of its
        fp32 peak."""
        if self.fp32_lanes_per_sm is None or "fp32" not in self.vector:
            return None
        return self.vector["fp32"] / 2 / self.fp32_lanes_per_sm * ISSUED_PER_CYCLE

    def resident_blocks(self, threads: int, registers: int, shared_bytes: int) -> int | None:
        """Blocks of this shape that one SM holds at a time (0: none fit); None where the limits are
        not known.

        The least of what its threads, blocks, registers and shared memory allow (CUDA C++ best
        practices guide, occupancy)."""
        return min(
            (blocks for blocks, _ in self._block_limits(threads, registers, shared_bytes)),
            default=None,
        )

    def occupancy_limits(self, threads: int, registers: int, shared_bytes: int) -> OccupancyLimit:
        """What keeps more blocks of this shape from an SM; none (0) where the limits are not
        known."""
        limits = self._block_limits(threads, registers, shared_bytes)
        least = min((blocks for blocks, _ in limits), default=0)
        return reduce(or_, (what for blocks, what in limits if blocks == least), OccupancyLimit(0))

    def _block_limits(
        self, threads: int, registers: int, shared_bytes: int
    ) -> list[tuple[int, OccupancyLimit]]:
        """How many blocks of this shape each resource of an SM allows."""
        if self.threads_per_sm is None or threads <= 0:
            return []
        warps = -(-threads // WARP)
        limits = [(self.threads_per_sm // WARP // warps, OccupancyLimit.WARPS)]
        if self.blocks_per_sm is not None:
            limits.append((self.blocks_per_sm, OccupancyLimit.BLOCKS))
        if registers > 0:
            limits.append((REGISTERS_PER_SM // (registers * threads), OccupancyLimit.REGISTERS))
        if shared_bytes > 0 and self.shared_per_sm is not None:
            limits.append((self.shared_per_sm // shared_bytes, OccupancyLimit.SHARED_MEMORY))
        return limits


@dataclass(frozen=True)
class HardwareTable:
    """Known GPUs, a user's before the built-in ones (read on first use); the first that describes a
    device counts."""

    own: tuple[Hardware, ...] = ()

    @classmethod
    def load(cls, extra: Path | None = None) -> "HardwareTable":
        """The built-in table, preceded by a user's file of the same form (UnreadableInputError if
        it is not valid)."""
        if extra is None:
            return cls()
        try:
            entries = tomllib.loads(read_whole(extra).decode()).get("gpu", [])
            added = tuple(map(_hardware, entries))
        except OSError as error:
            what = (error.strerror or str(error)).lower()
            raise UnreadableInputError(
                f"{extra}: the hardware table cannot be opened ({what})"
            ) from error
        except _INVALID as error:
            raise UnreadableInputError(f"{extra}: not a valid hardware table: {error}") from error
        return cls(added)

    @property
    def gpus(self) -> tuple[Hardware, ...]:
        """All of them."""
        return (*self.own, *_builtin())

    def find(self, device: Device | None) -> Hardware | None:
        """The GPU that a recorded device is, never the nearest one. One that the table does not
        have is what the recording states of it; None where it states nothing. SMs that the table
        lacks are those that were recorded."""
        if device is None:
            return None
        known = chain(self.own, _builtin())
        found = next((gpu for gpu in known if gpu.describes(device)), None)
        found = found or self._by_size(device)
        if found is None:
            return stated_limits(device)
        blocks = device.blocks_per_sm or _of_generation(device).get("blocks_per_sm")
        return replace(found, sms=found.sms or device.sm_count, blocks_per_sm=blocks)

    def _by_size(self, device: Device) -> Hardware | None:
        """The GPU with as many SMs, and as much or as fast memory, as a device without a name; of
        several whose known bandwidth and bf16 rate are the same the first, else None."""
        speed = device.bandwidth
        sms = device.sm_count
        if device.called or not sms or not (device.memory_bytes or speed):
            return None
        alike = [
            gpu for gpu in self.gpus if not speed or abs(speed / gpu.bandwidth - 1) <= SAME_SPEED
        ]
        fitting = [gpu for gpu in alike if gpu.sms == sms and gpu.fits(device)]
        rates = {(gpu.bandwidth, gpu.tensor.get("bf16")) for gpu in fitting}
        is_one = len(fitting) == 1 or (bool(speed) and len(rates) == 1)
        return fitting[0] if is_one else None


def stated_limits(device: Device) -> Hardware | None:
    """What a recording states of its GPU: bandwidth of its memory, and from clock and SMs its fp32
    peak; None where it states no bandwidth. Of tensor cores recordings say nothing."""
    if not device.bandwidth:
        return None
    of_generation = _of_generation(device)
    lanes, threads, shared, blocks = (
        of_generation.get(f"{n}_per_sm") for n in ("fp32_lanes", "threads", "shared_kb", "blocks")
    )
    rates: dict[str, float] = {}
    if lanes and device.sm_count and device.clock_hz:
        rates["fp32"] = 2.0 * lanes * device.sm_count * device.clock_hz
    return Hardware(
        name=device.name or "GPU",
        source="the recording itself",
        match=(),
        memory_gb=(),
        bandwidth=device.bandwidth,
        tensor={},
        vector=rates,
        sms=device.sm_count,
        threads_per_sm=threads,
        blocks_per_sm=device.blocks_per_sm or blocks,
        shared_per_sm=None if shared is None else shared * KIBI,
        fp32_lanes_per_sm=lanes if rates else None,
        stated=True,
    )


def _of_generation(device: Device) -> dict[str, int]:
    """What all GPUs of a device's compute capability have an SM; empty where that is not known."""
    capability = "{}.{}".format(*device.compute_capability or (0, 0))
    return _generations().get(capability, {})


@cache
def _generations() -> dict[str, dict[str, int]]:
    return tomllib.loads(_texts()[0])["generation"]


def _builtin() -> Iterator[Hardware]:
    """The GPUs of the table, each read when it is come to: most recordings are of one of the
    first."""
    return map(_gpu, range(1, len(_texts())))


@cache
def _gpu(number: int) -> Hardware:
    return _hardware(tomllib.loads(_texts()[number]))


@cache
def _texts() -> list[str]:
    """The table's text before its first GPU, and that of each GPU."""
    table = Path(__file__).with_name("hardware.toml").read_text(encoding="utf-8")
    return _ONE_GPU.split(table)


def _check(entry: dict[str, Any]) -> None:
    unknown = entry.keys() - _KEYS
    if unknown:
        raise ValueError(f"{entry.get('name')}: unknown key {', '.join(sorted(unknown))}")
    for key in _NUMBERS:
        if key in entry and not 0 < entry[key] <= MOST:
            raise ValueError(f"{entry.get('name')}: {key} is not above 0, or above {MOST:g}")


def _hardware(entry: dict[str, Any]) -> Hardware:
    """One entry of a file. Raises KeyError, TypeError or ValueError where it makes no sense."""
    _check(entry)
    cache = entry.get("cache_mb")
    shared = entry.get("shared_kb_per_sm")
    link = entry.get("link_gbs")
    host = entry.get("host_gbs")
    sizes = entry.get("memory_gb", [])
    return Hardware(
        name=entry["name"],
        source=entry["source"],
        match=tuple(re.compile(pattern, re.IGNORECASE) for pattern in entry["match"]),
        memory_gb=tuple(float(size) for size in (sizes if isinstance(sizes, list) else [sizes])),
        bandwidth=entry["bandwidth_gbs"] * GIGA,
        tensor=_peaks(entry["name"], entry.get("tensor", {})),
        vector=_peaks(entry["name"], entry["vector"]),
        sms=entry.get("sms"),
        cache_bytes=None if cache is None else int(cache * MEBI),
        link=None if link is None else link * GIGA,
        host=None if host is None else host * GIGA,
        threads_per_sm=entry.get("threads_per_sm"),
        shared_per_sm=None if shared is None else int(shared * KIBI),
        fp32_lanes_per_sm=entry.get("fp32_lanes_per_sm"),
        match_with_sms=tuple(
            re.compile(pattern, re.IGNORECASE) for pattern in entry.get("match_with_sms", [])
        ),
    )


def _peaks(name: str, rates: dict[str, float]) -> dict[str, float]:
    unknown = rates.keys() - set(PRECISIONS)
    if unknown:
        raise ValueError(
            f"{name}: unknown precision {', '.join(sorted(unknown))}; known: "
            f"{', '.join(PRECISIONS)}"
        )
    if any(rate > MOST for rate in rates.values()):
        raise ValueError(f"{name}: a peak is above {MOST:g} TFLOP/s")
    return {precision: rate * TERA for precision, rate in rates.items()}
