"""The GPU that is asked for, by a name as people write it."""

from traceanalyzer.replay.unmade.question import QuestionError
from traceanalyzer.trace.hardware import GIGA, Hardware, HardwareTable

SHOWN = 6
"""Names that an error lists."""


def gpu_named(name: str, table: HardwareTable) -> Hardware:
    """The GPU of the table that a name means: its own, one that recordings have, or the beginning
    of one (`H200`; of several the first, which is the largest of its kind). Raises
    QuestionError."""
    wanted = name.strip().casefold()
    for gpu in table.gpus:
        if gpu.name.casefold() == wanted:
            return gpu
        if any(pattern.fullmatch(name.strip()) for pattern in gpu.match):
            return gpu
    words = wanted.split()
    for gpu in table.gpus:
        known = gpu.name.casefold().split()
        if words and words == [one for one in known if one in words] and words[0] in known:
            return gpu
    names = [gpu.name for gpu in table.gpus]
    beginning = wanted[:2]
    near = [one for one in names if beginning and beginning in one.casefold()]
    listed = ", ".join((near or names)[:SHOWN])
    raise QuestionError(
        f"--gpu {name}: no such GPU in the table; there are {listed}, ... "
        "(--hardware adds your own)"
    )


def memory_bytes(gpu: Hardware) -> float | None:
    """The memory that it is sold with, the largest; None where that is not known."""
    return max(gpu.memory_gb) * GIGA if gpu.memory_gb else None
