"""How recordings name the calls of a model's modules."""

import re
from typing import NamedTuple

from traceanalyzer.analysis.names.pytorch import MODULE_PREFIX

_RECORDED = re.compile(rf"^{MODULE_PREFIX}(?P<kind>.+?)(?:_\d+)?$", re.DOTALL)
"""`nn.Module: Linear_3`: PyTorch's profiler with stacks; the number is the instance's."""
_DESCRIBED = re.compile(r"^\{'Module': ?'(?P<path>[^']{1,300})'")
"""`{'Module': 'model.layers.0.mlp', ...}`: NVTX hooks on every module, as serving engines set them."""
_DOTTED = re.compile(
    r"^(?:[A-Za-z_]\w{0,60}\.){0,12}(?:layers?|blocks?|h|stages?|experts|encoders?|decoders?)\.\d{1,5}(?:\.\w{1,60}){0,12}$"
)
"""`model.layers.0.self_attn`: annotations with the path of a module in the model."""
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")


class ModuleName(NamedTuple):
    """The module that a range is a call of."""

    kind: str
    """Its class, or its path with # for numbers: what is the same for all layers of a stack."""
    instance: str


def module_of(name: str) -> ModuleName | None:
    """The module that a range of this name calls; None where it calls none."""
    recorded = _RECORDED.match(name)
    if recorded is not None:
        return ModuleName(recorded["kind"], name)
    described = _DESCRIBED.match(name)
    path = described["path"] if described is not None else name if _DOTTED.match(name) else None
    return None if path is None else ModuleName(_NUMBER.sub("#", path), path)
