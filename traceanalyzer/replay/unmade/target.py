"""The GPU that is asked for, by a name as people write it."""

from traceanalyzer.replay.unmade.question import QuestionError
from traceanalyzer.trace.hardware import GIGA, Hardware, HardwareTable

SHOWN = 6
"""Names that an error lists."""


def gpu_named(name: str, table: HardwareTable) -> Hardware:
    """The GPU of the table that a name means: its own, one that recordings have, or the beginning
    of one (`H200`; of several the first, which is the largest of its kind). Raises
    QuestionError."""
    recorded = name.strip()
    wanted = recorded.casefold()
    words = wanted.split()
    for gpu in table.gpus:
        if gpu.name.casefold() == wanted or any(p.fullmatch(recorded) for p in gpu.match):
            return gpu
    for gpu in table.gpus:
        if words and words == [word for word in gpu.name.casefold().split() if word in words]:
            return gpu
    raise QuestionError(
        f"--gpu {name}: no such GPU in the table; there are {_near(wanted, table)}, ... "
        "(--hardware adds your own)"
    )


def _near(wanted: str, table: HardwareTable) -> str:
    """Names of GPUs that have the first letters in common with what was wanted, else any."""
    names = [gpu.name for gpu in table.gpus]
    beginning = wanted[:2]
    near = [name for name in names if beginning and beginning in name.casefold()]
    return ", ".join((near or names)[:SHOWN])


def memory_bytes(gpu: Hardware) -> float | None:
    """The memory that it is sold with, the largest; None where that is not known."""
    return max(gpu.memory_gb) * GIGA if gpu.memory_gb else None
