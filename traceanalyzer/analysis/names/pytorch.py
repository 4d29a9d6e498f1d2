"""Names that PyTorch itself gives: its ranges, operators, modules and kernels. Nothing else spells
them."""

import re
from typing import NamedTuple

from traceanalyzer.base import regex

PROFILER_STEP = regex(r"^ProfilerStep[#*]?\s*\d*$")
"""`torch.profiler.profile.step()`."""
OPTIMIZER_PREFIX = "Optimizer.step#"
"""The range around an optimizer's step; the optimizer's class follows."""
OPTIMIZER_STEP = regex(r"^Optimizer\.step#")
OPTIMIZER_NAMES = regex(r"^Optimizer\.(step|zero_grad)#")
"""Ranges around optimizers, which go through all parameters in Python before they launch anything:
a long stretch in one is the framework's, not the program's."""
MODULE_PREFIX = "nn.Module: "
"""Python frames that are calls of a module, where modules were recorded: `nn.Module: Linear_3`."""
AUTOGRAD_PREFIX = "autograd::engine::evaluate_function:"
"""The engine's range around each node; nodes that accumulate gradients carry no forward thread."""
LIBRARY_RANGE = regex(
    r"^(Optimizer\.|enumerate\(DataLoader\)|\w+Data(Parallel|_parallel)\.|FSDP::|## Call CompiledFxGraph|"
    r"Torch-Compiled Region|Pregraph bytecode|TorchDynamo Cache Lookup|AOTDispatcher Runtime)"
)
"""Ranges that are annotated unasked: they do not show that the program marks its phases."""
LIBRARY_MARK = regex(
    rf"{LIBRARY_RANGE.pattern}|{PROFILER_STEP.pattern}"
    r"|^(nccl|record_param_comms|nn\.Module: |autograd::|Torch-Compiled|FSDP|## Call|DDP)"
)
"""Annotations that no user wrote."""
ENGINE = regex(r"^autograd::engine::")
MULTI_TENSOR = regex(r"^aten::(_fused_|_foreach_|_amp_)")
UNSCALE = "aten::_amp_foreach_non_finite_check_and_unscale_"
"""A GradScaler divides the gradients by its scale, and looks for infinities: then it steps, or
leaves the step out."""
STEP_PREFIX = "ProfilerStep#"
BOOKKEEPING = frozenset(
    {
        "profiler::_record_function_enter",
        "profiler::_record_function_enter_new",
        "profiler::_record_function_exit",
        "aten::is_leaf",
        "aten::output_nr",
        "aten::_version",
    }
)
"""Operators of no interest to anyone, that `key_averages()` leaves out too; their time is their
parent's own."""
COPYING = regex(r"aten::(to|_to_copy|copy_|clone|cuda|lift_fresh|_?pin_memory)$")
"""Operators whose copies from the host are the program's. Others copy for themselves: FSDP's
`aten::_chunk_cat` the addresses of its tensors, a backward pass activations that were kept on the
host."""
FRAMEWORK = regex(
    r"\b(aten|torch|c10|at::native|at_cuda_detail|caffe2|autograd::engine|torchvision|fbgemm|inductor)::|\bat::|"
    r"^(ProfilerStep[#*]|Optimizer\.\w+#|enumerate\(DataLoader\)|nn\.Module: |record_param_comms|triton_\w*fused|"
    r"(?:Distributed|Fully)\w*Data\w*Parallel|FSDP::|Torch-Compiled Region|CompiledFxGraph|## Call CompiledFxGraph)"
)
"""Any of these names proves that PyTorch ran."""
TRAINING = regex(
    r"(?<!Register)(?<!RegisterPre)(?<!RegisterPost)(?<!register_)backward|autograd::engine|Optimizer\.step|"
    r"(?<![a-z])(multi_tensor_apply(?!.*\bCopy(?:Functor)?<)|fused_adam|adamw?|sgd|lamb(?!da)|adagrad)\w*|bwd|dgrad|wgrad",
    re.IGNORECASE,
)
"""A backward pass or an optimizer, as an operator, a range or a kernel. What only registers a hook
for one (FSDP's `RegisterPostBackwardFunction`) runs in the forward pass; C++ writes `lambda` into
the names of most kernels."""
LAYER_LIKE = regex(
    r"(^|[^a-z])(layers?|blocks?|modules?|identity|encoders?|decoders?|experts?|heads?|stages?|buckets?|h)"
    r"[\W_]*\d|\.\d+(\W|$)",
    re.IGNORECASE,
)
"""Numbered parts of a model: repetition within a step, not of steps."""
_RECORDED = regex(rf"^{MODULE_PREFIX}(?P<kind>.+?)(?:_\d+)?$", re.DOTALL)
"""`nn.Module: Linear_3`: PyTorch's profiler with stacks; the number is the instance's."""
_DESCRIBED = regex(r"^\{'Module': ?'(?P<path>[^']{1,300})'")
"""`{'Module': 'model.layers.0.mlp', ...}`: NVTX hooks on every module, as serving engines set
them."""
_DOTTED = regex(
    r"^(?:[A-Za-z_]\w{0,60}\.){0,12}(?:layers?|blocks?|h|stages?|experts|encoders?|decoders?)\.\d{1,5}(?:\.\w{1,60}){0,12}$"
)
"""`model.layers.0.self_attn`: annotations with the path of a module in the model."""
_NUMBER = regex(r"(?<=\.)\d+(?=\.|$)")


class ModuleName(NamedTuple):
    """The module that a range is a call of."""

    kind: (
        str  # its class, or its path with # for numbers: what is the same for all layers of a stack
    )
    instance: str


def module_of(name: str) -> ModuleName | None:
    """The module that a range of this name calls; None where it calls none."""
    recorded = _RECORDED.match(name)
    if recorded is not None:
        return ModuleName(recorded["kind"], name)
    described = _DESCRIBED.match(name)
    path = described["path"] if described is not None else name if _DOTTED.match(name) else None
    return None if path is None else ModuleName(numberless(path), path)


def numberless(path: str) -> str:
    """The path of a module with # for numbers: what is the same for all layers of a stack."""
    return _NUMBER.sub("#", path)
