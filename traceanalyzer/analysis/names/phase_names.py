"""What the names of phases mean: whether one is the forward pass, the backward pass, the optimizer,
and so on."""

import enum
import re

from traceanalyzer.base import regex

INPUT_NAMES = regex(
    r"^(?!.*(fsdp|fully_?sharded|param|weight)).*"
    r"(data_?load|dataset|load_?batch|(next|get|fetch|read)_?batch|prefetch|\b(input|data)\b|batch_?(load|fetch|wait))",
    re.IGNORECASE,
)
"""Annotations of such names count as loading of input; PyTorch names its own
`enumerate(DataLoader)#...`. What sharded training prefetches is parameters:
`FSDP::backward_prefetch for transformer.h.0`."""
_WORD = regex(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_RECOMPUTED = frozenset(
    ("activation", "activations", "function", "wrapper", "recompute", "segment")
)
"""Words that tell activation checkpointing from saving a checkpoint."""


class Role(enum.IntEnum):
    """What a phase of a step is for."""

    NONE = 0
    FORWARD = 1
    BACKWARD = 2
    OPTIMIZER = 3
    DATA = 4
    LOGGING = 5
    CHECKPOINT = 6

    @property
    def label(self) -> str:
        """Its name in reports."""
        return self.name.lower()


_WORDS = {
    Role.FORWARD: {"forward", "fwd"},
    Role.BACKWARD: {"backward", "bwd", "backprop"},
    Role.OPTIMIZER: {"optimizer", "optimiser", "optim"},
    Role.CHECKPOINT: {"checkpoint", "checkpointing", "ckpt"},
    Role.LOGGING: {"log", "logs", "logging", "logger", "wandb", "tensorboard"},
}


def role_of(name: str) -> Role:
    """The role that an annotation's name says; NONE where it says none, or several
    (`forward-backward`)."""
    words = {word.lower() for word in _WORD.findall(name)}
    found = [role for role, known in _WORDS.items() if words & known]
    if Role.CHECKPOINT in found and words & _RECOMPUTED:
        found.remove(Role.CHECKPOINT)
    if not found and INPUT_NAMES.search(name):
        return Role.DATA
    return found[0] if len(found) == 1 else Role.NONE
