"""GPUs at one moment, or a line a moment, as tools show them to people: the table of `nvidia-smi`,
`nvidia-smi -q`, gpustat, `rocm-smi`, tegrastats."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from traceanalyzer.base import dataclass, regex

_N = r"(\d{1,9}(?:\.\d{1,6})?)"
_SMI = regex(
    rf"^\|(?:(?>[^|\n]*?{_N}W\s*/)[^|\n]*+|[^|\n]*+)\|\s*{_N}MiB\s*/\s*{_N}MiB\s*\|\s*{_N}%",
    re.MULTILINE,
)
_SMI_NAME = regex(r"^\|\s*(\d{1,3})\s+\S[^|\n]*\|\s*[0-9A-F]{4,8}:[0-9A-F]{2}:", re.MULTILINE)
_Q_GPU = regex(r"^GPU ([0-9A-Fa-f]{8}:[0-9A-Fa-f:.]{4,10})\s*$", re.MULTILINE)
_Q_BUSY = regex(rf"^[^\S\n]++(?:Gpu|GPU)\s+: {_N} %", re.MULTILINE)
_Q_USED = regex(rf"\A(?>.*?FB Memory Usage).*?Used\s+: {_N} MiB", re.DOTALL)
_Q_CLOCK = regex(rf"\A(?>.*?^    Clocks[^\S\n]*+$).*?SM\s+: {_N} MHz", re.DOTALL | re.MULTILINE)
_Q_POWER = regex(rf"(?:Average |Instantaneous )?Power Draw\s+: {_N} W")
_GPUSTAT = regex(
    rf"^\[(\d{{1,3}})\] [^|\n]{{3,80}}\|(?>[^|\n]*?{_N} %)[^|\n]*+\|\s*{_N}\s*/\s*{_N} MB",
    re.MULTILINE,
)
_ROCM_HEAD = regex(r"ROCm System Management Interface|GPU%\s*$", re.MULTILINE)
_ROCM = regex(rf"^(\d{{1,3}})\s(?>.*?{_N}W)(?>.*?{_N}Mhz).*\s{_N}%\s*$", re.MULTILINE)
_TEGRA = regex(rf"\bGR3D_FREQ {_N}%")


@dataclass(frozen=True)
class Sample:
    """One value of one GPU: `busy` in percent, `power_w`, `memory_mib`, `clock_mhz`."""

    gpu: str
    what: str
    value: float


def _of_table(text: str) -> Iterator[Sample]:
    """The table that `nvidia-smi` shows, also several of them."""
    if "NVIDIA-SMI" not in text and "GPU-Util" not in text:
        return
    names = list(_SMI_NAME.finditer(text))
    starts = [name.start() for name in names]
    for row in _SMI.finditer(text):
        above = bisect_left(starts, row.start())
        gpu = names[above - 1][1] if above else "0"
        power, used, _, busy = row.groups()
        yield Sample(gpu, "busy", float(busy))
        yield Sample(gpu, "memory_mib", float(used))
        if power:
            yield Sample(gpu, "power_w", float(power))


def _of_query(text: str) -> Iterator[Sample]:
    """`nvidia-smi -q`: a section a GPU."""
    if "NVSMI LOG" not in text:
        return
    starts = [match.start() for match in _Q_GPU.finditer(text)]
    sections = [text[start:end] for start, end in pairwise((*starts, len(text)))]
    for number, section in enumerate(sections):
        for what, pattern in (
            ("busy", _Q_BUSY),
            ("memory_mib", _Q_USED),
            ("clock_mhz", _Q_CLOCK),
            ("power_w", _Q_POWER),
        ):
            found = pattern.search(section)
            if found is not None:
                yield Sample(str(number), what, float(found[1]))


def _of_gpustat(text: str) -> Iterator[Sample]:
    for gpu, busy, used, _ in _GPUSTAT.findall(text):
        yield Sample(gpu, "busy", float(busy))
        yield Sample(gpu, "memory_mib", float(used))


def _of_rocm(text: str) -> Iterator[Sample]:
    if not _ROCM_HEAD.search(text):
        return
    for gpu, power, clock, busy in _ROCM.findall(text):
        yield Sample(gpu, "busy", float(busy))
        yield Sample(gpu, "power_w", float(power))
        yield Sample(gpu, "clock_mhz", float(clock))


def _of_tegrastats(text: str) -> Iterator[Sample]:
    for busy in _TEGRA.findall(text):
        yield Sample("0", "busy", float(busy))


def snapshot_samples(text: str) -> list[Sample]:
    """What the first form that the text has says of its GPUs; empty where it has none."""
    for samples in (_of_table, _of_query, _of_gpustat, _of_rocm, _of_tegrastats):
        found = list(samples(text))
        if found:
            return found
    return []
