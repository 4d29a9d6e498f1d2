"""Guards in plain words: what failed, which value changed, and the line of code that ends it."""

import re

from traceanalyzer.base import dataclass

_CACHE_ENTRY = re.compile(r"^(?:!?\d+/)*\d+/\d+: *")
_COMMENT = re.compile(r"(?<!\s)(?:\s{2,}+# .*|\s++# \S.*$)")
_WHERE = re.compile(r"# *\S*?([\w./\\-]+\.py:\d+)(?: in |\s*$)")
_STACK = re.compile(r'File "([^"]+)", line (\d+)')
_EXPECTED = re.compile(r"^(?P<what>.*?)[.;,:]?\s*[Ee]xpected (?P<old>.+?), actual (?P<new>.+?)\s*$")
_EQUALS = re.compile(r"^(?P<what>.+?) (?:==|!=|is|is not) (?P<old>.+)$")
_SIZE = re.compile(r"tensor '(?P<name>.+)' size mismatch at index (?P<dim>\d+)")
_LOCAL = re.compile(r"^L\['(\w+)'\](.*)$")


@dataclass(frozen=True)
class Guard:
    """A guard that failed: its text without the value, the value it had and the one it met ("" where not said)."""

    text: str
    old: str
    new: str
    location: str


def read_guard(reason: str) -> Guard:
    """A guard from what dynamo says of a recompilation: `0/1: tensor 'x' size mismatch at index 0. expected 4, ...`."""
    said = _CACHE_ENTRY.sub("", reason.strip())
    stack, where = _STACK.findall(said), _WHERE.search(said)
    location = f"{stack[-1][0]}:{stack[-1][1]}" if stack else where[1] if where else ""
    text = _COMMENT.sub("", said.splitlines()[0] if said else "").strip()
    if compared := _EXPECTED.match(text):
        return Guard(compared["what"].strip(), compared["old"], compared["new"], location)
    equals = None if text.startswith(("len(", "___check")) else _EQUALS.match(text)
    return Guard(text, equals["old"] if equals else "", "", location)


def key_of(guard: Guard) -> str:
    """What guards have in common that differ in the value alone."""
    equals = _EQUALS.match(guard.text)
    return equals["what"] if equals and guard.old and not guard.new else guard.text


def remedy_of(guard: Guard) -> str:
    """The change of the program that keeps this guard from failing."""
    text = guard.text
    if size := _SIZE.search(text):
        return (
            f"torch._dynamo.mark_dynamic({_variable(size['name'])}, {size['dim']}) before the call, or "
            "torch.compile(..., dynamic=True); or pad to a few fixed sizes"
        )
    if known := next((remedy for pattern, remedy in _REMEDIES if pattern.search(text)), ""):
        return known
    equals = _EQUALS.match(text)
    if equals and re.fullmatch(r"-?\d+", equals["old"]):
        return (
            f"{_variable(equals['what'])} is a number that changes: pass it as a tensor, or use "
            "torch.compile(..., dynamic=True) (for an attribute of a module: "
            "torch._dynamo.config.allow_unspec_int_on_nn_module = True)"
        )
    if equals and re.fullmatch(r"-?[\d.]+(?:e[+-]?\d+)?|-?inf|nan", equals["old"]):
        return f"{_variable(equals['what'])} is a number that changes: pass it as a tensor"
    return "keep what the guard checks the same from call to call, or take it out of the compiled function"


def _variable(name: str) -> str:
    return _LOCAL.sub(r"\1\2", name)


_REMEDIES = (
    (re.compile(r"___stack\d+\)?(?:\.item\(\))? =="),
     "a value read from the GPU (.item(), .tolist()) steers the program: keep it a tensor, or set "
     "torch._dynamo.config.capture_scalar_outputs = True"),
    (re.compile(r"stride mismatch"), "call .contiguous() on the input, so that its strides do not change"),
    (re.compile(r"dtype mismatch"), "give the input the same dtype at every call (one .to(dtype) before it)"),
    (re.compile(r"device mismatch|device index"), "give the input on the same device at every call"),
    (re.compile(r"requires_grad"),
     "call it with requires_grad the same each time, or compile training and evaluation apart"),
    (re.compile(r"rank mismatch|ndim|number of dimensions"),
     "give the input the same number of dimensions at every call"),
    (re.compile(r"dispatch key"), "call it under the same modes each time (inference_mode, autocast, subclasses)"),
    (re.compile(r"(?i)grad_mode|GLOBAL_STATE|grad mode|is_grad_enabled|torch_function|autocast|deterministic"),
     "call it in the same mode each time (no_grad, autocast, deterministic): one graph is compiled for each mode"),
    (re.compile(r"\.training|'training'"),
     "train() and eval() each need a graph: one recompilation is normal; do not switch inside the step"),
    (re.compile(r"(?i)___check_obj_id|id_match|ID_MATCH|___check_function|___check_weakref"),
     "the same object must come in each time: create functions, lambdas and modules once, outside the loop"),
    (re.compile(r"(?i)___check_type_id|type_id|TYPE_MATCH|check_type"),
     "pass the argument as the same type at every call"),
    (re.compile(r"(?i)\blen\(|LENGTH|DICT_KEYS|dict.*keys|___dict_contains|__len__"),
     "keep the length of lists and the keys of dictionaries the same, or pass tensors instead"),
    (re.compile(r"\['(?:lr|weight_decay|step|betas|momentum|eps)'\]"),
     "make the optimizer's setting a tensor (lr=torch.tensor(...)), so that changing it needs no new code"),
    (re.compile(r"size mismatch|\.size\(\)|shape\["),
     "torch._dynamo.mark_dynamic on the dimension that changes, or torch.compile(..., dynamic=True)"),
)  # fmt: skip
