"""What may be read with a recording, by its name: small files and folders in the same folder. What is
kept of a recording depends on them."""

import re
from collections.abc import Iterable
from pathlib import Path

from traceanalyzer.base import regex

ENVIRONMENT = "environment.json"
LIGHT = "light"
UNPROFILED = "unprofiled"
NVML = "nvml"
MEMORY = "memory"
"""The first words of names such as `nvml.rank0.jsonl`."""
COMPILED = "compile"  # the folder of the logs of torch.compile
CAPTURES = "capture_traces"  # a folder of captures beside a recording
_CAPTURE_NAME = regex(r"(?:^|[^a-z])capture(?![a-z])", re.IGNORECASE)


def have_compile_logs(recordings: Iterable[str]) -> bool:
    """Whether a capture of these recordings has logs of torch.compile. Most have none, and what
    reads them is large."""
    return any((Path(recording).parent / COMPILED).is_dir() for recording in recordings)


def may_be_beside(name: str) -> bool:
    """Whether a file of that name may be read with a recording in the same folder."""
    return name == ENVIRONMENT or name.startswith(
        tuple(f"{stem}." for stem in (LIGHT, UNPROFILED, NVML, MEMORY))
    )


def named_like_a_capture(name: str) -> bool:
    """Whether a file of that name may be read as the capture of a recording near it."""
    return _CAPTURE_NAME.search(name) is not None
