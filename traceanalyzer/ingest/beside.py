"""Names of what may lie beside a recording in a capture folder, and is read with it."""

from __future__ import annotations

ENVIRONMENT = "environment.json"
LIGHT, UNPROFILED, NVML, MEMORY = "light", "unprofiled", "nvml", "memory"
"""The first words of names such as `nvml.rank0.jsonl`."""
COMPILED = "compile"
"""The folder of the logs of torch.compile."""


def may_be_beside(name: str) -> bool:
    """Whether a file of that name may be read with a recording in the same folder."""
    return name == ENVIRONMENT or name.startswith(tuple(f"{stem}." for stem in (LIGHT, UNPROFILED, NVML, MEMORY)))
