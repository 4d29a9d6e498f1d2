"""What a run of the program does, seen from inside: its losses, gradient norms, outputs and
weights, what it is made of, and where its source makes that.

Nothing is read back from the device before the timed steps are over: values are kept as tensors."""

import functools
import importlib
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from traceanalyzer.collect.host import cuda
from traceanalyzer.collect.on_import import on_import

MOST_VALUES = 4096  # losses and norms kept of a run
MOST_OUTPUTS = 32  # calls of outermost modules whose outputs are kept as figures
MOST_TENSORS = 8  # of one output
COLLATING = ("torch", "transformers")  # they ask in which worker a batch is put together
HF_TRAINER = "transformers.trainer"
LIGHTNING = "lightning"
LOOPS = {
    HF_TRAINER: HF_TRAINER,
    "lightning.pytorch": LIGHTNING,
    "pytorch_lightning": LIGHTNING,
}
"""Libraries that run a training loop, by the beginning of their modules' names."""
ARGUMENTS = "library_arguments"  # the place where the program makes the library's arguments
TRAINING_ARGUMENTS = "transformers.training_args"
LIBRARIES = ("site-packages", "dist-packages", "lib/python", "traceanalyzer")


class Probe:
    """Patches of PyTorch's own classes, for the life of this process."""

    def __init__(self) -> None:
        self.losses: list[Any] = []
        self.norms: list[Any] = []
        self.outputs: list[list[Any]] = []
        self.places: dict[str, str] = {}
        self.libraries: dict[str, str] = {}  # by place, whose loop it is in
        self.counts: Counter[str] = Counter()
        self.loaders: list[dict[str, Any]] = []
        self.optimizers: list[dict[str, Any]] = []
        self.models: dict[int, Any] = {}
        self.keeps_values = True  # losses and norms; of steps that nobody compares they cost time
        self.autocast = False
        self.draws = False  # whether a model drew random numbers
        self._drawn_before: Any = None
        self.anomaly = False  # whether a backward pass looked for NaNs
        self.grad = False  # whether models were called with gradients on
        self._hook: Any = None

    def install(self) -> None:
        """See from now on."""
        import torch

        self._see_backward(torch)
        self._see_clipping(torch)
        self._see_loaders()
        self._see_optimizers(torch)
        on_import(TRAINING_ARGUMENTS, self._see_training_arguments)
        self._count(torch, "set_anomaly_enabled")
        self._count(torch.optim.Optimizer, "zero_grad")
        self._count(torch.cuda, "empty_cache")
        self._count(importlib.import_module("torch.utils.checkpoint"), "checkpoint")

    def expect_output(self, module: Any) -> None:
        """An outermost module with weights is about to be called."""
        import torch

        if id(module) not in self.models:
            self.models[id(module)] = module
            self._note_place("model")
            self.autocast = self.autocast or torch.is_autocast_enabled()
            self.grad = self.grad or torch.is_grad_enabled()
        self.forget_hook()
        if len(self.outputs) < MOST_OUTPUTS:
            self._drawn_before = None if self.draws else _state_of_generator(torch)
            # there during the call alone: a copy or a script made between calls does not see it
            self._hook = torch.nn.Module.register_forward_hook(module, self._keep_output)

    def forget_hook(self) -> None:
        """The call has ended."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _keep_output(self, module: Any, args: Any, output: Any) -> None:
        import torch

        if not torch.compiler.is_compiling():
            if self._drawn_before is not None:
                drawn = _state_of_generator(torch)
                self.draws = not torch.equal(drawn, self._drawn_before)
            self.outputs.append([_size_of(each) for each in _tensors(output)[:MOST_TENSORS]])

    def read_losses(self, counts: list[int]) -> list[float]:
        """The mean loss of each step; `counts` are the losses that there were after each."""
        values = [float(loss) if loss is not None else 0.0 for loss in self.losses]
        steps = []
        first = 0
        for last in counts:
            if last > first:
                steps.append(sum(values[first:last]) / (last - first))
            first = last
        return steps

    def read_norms(self) -> list[float]:
        """The gradient norms that were clipped, in order."""
        return [float(norm) for norm in self.norms]

    def read_outputs(self) -> list[list[float]]:
        """The mean size of each output of the first calls."""
        return [[float(size) for size in sizes] for sizes in self.outputs]

    def _see_backward(self, torch: Any) -> None:
        backward = torch.autograd.backward

        @functools.wraps(backward)
        def seen(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            self.anomaly = self.anomaly or torch.is_anomaly_enabled()
            self._note_loss(tensors)
            return backward(tensors, *args, **kwargs)

        torch.autograd.backward = seen

    def _note_loss(self, tensors: Any) -> None:
        self.counts["backward"] += 1
        self._note_place("backward")
        roots = [tensors] if hasattr(tensors, "detach") else list(tensors)
        if self.keeps_values and len(self.losses) < MOST_VALUES:
            scalars = [root.detach().float().sum() for root in roots]
            self.losses.append(sum(scalars[1:], scalars[0]) if scalars else None)

    def _see_clipping(self, torch: Any) -> None:
        utils = torch.nn.utils
        clip = utils.clip_grad_norm_

        @functools.wraps(clip)
        def seen(*args: Any, **kwargs: Any) -> Any:
            norm = clip(*args, **kwargs)
            self._note_place("clip")
            is_kept = self.keeps_values and len(self.norms) < MOST_VALUES
            if is_kept and hasattr(norm, "detach"):
                self.norms.append(norm.detach())
            return norm

        utils.clip_grad_norm_ = utils.clip_grad.clip_grad_norm_ = seen

    def _count(self, owner: Any, name: str, but_by: Sequence[str] = ()) -> None:
        """Count the calls of a function, but those by some packages, and note where the first one
        is."""
        import torch

        original = getattr(owner, name)

        @functools.wraps(original)
        def counted(*args: Any, **kwargs: Any) -> Any:
            # a graph would break at what is ours
            if not torch.compiler.is_compiling() and _caller_package() not in but_by:
                self.counts[name] += 1
                self._note_place(name)
            return original(*args, **kwargs)

        setattr(owner, name, counted)

    def _see_loaders(self) -> None:
        from torch.utils import data

        def noted(loader: Any) -> None:
            self._note_place("loader")
            held = vars(loader)
            names = ("num_workers", "pin_memory", "persistent_workers", "prefetch_factor")
            streams = isinstance(held.get("dataset"), data.IterableDataset)
            drop_last = getattr(held.get("batch_sampler"), "drop_last", held.get("drop_last"))
            seen = {
                "streams": streams,
                "batch_size": held.get("batch_size"),
                "drop_last": drop_last,
            }
            self.loaders.append({name: held.get(name) for name in names} | seen)

        _after(data.DataLoader, "__init__", noted)
        # a stream that asks which worker reads it shares itself among them
        self._count(data, "get_worker_info", but_by=COLLATING)

    def _see_training_arguments(self) -> None:
        """Note where the arguments of Hugging Face's trainer are made; subclasses of them end here."""
        arguments = sys.modules[TRAINING_ARGUMENTS].TrainingArguments
        _after(arguments, "__post_init__", lambda _: self._note_place(ARGUMENTS))

    def _see_optimizers(self, torch: Any) -> None:
        def noted(optimizer: Any) -> None:
            self._note_place("optimizer")
            group = optimizer.param_groups[0] if optimizer.param_groups else {}
            names = ("fused", "foreach", "capturable")
            settings = {name: group.get(name) for name in names if name in group}
            self.optimizers.append({"name": type(optimizer).__name__, "settings": settings})

        _after(torch.optim.Optimizer, "__init__", noted)

    def _note_place(self, what: str) -> None:
        """Keep file and line of the program's own code that is running, the innermost one, for what
        is made there first; and the library whose loop runs that, if any."""
        if what in self.places:
            return
        library = ""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not _is_programs(frame):
            library = library or library_of(frame.f_globals.get("__name__", ""))
            frame = frame.f_back
        name = Path(frame.f_code.co_filename).name if frame is not None else ""
        self.places[what] = f"{name}:{frame.f_lineno}" if frame is not None else ""
        self.libraries[what] = library


def library_of(module: str) -> str:
    """The library that runs a loop and has this module, empty for others."""
    return next((name for start, name in LOOPS.items() if module.startswith(start)), "")


def _is_programs(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return not name.startswith("<") and not any(part in name for part in LIBRARIES)


def _caller_package() -> str:
    """The package that called the function that asks."""
    name: str = sys._getframe(2).f_globals.get("__name__", "")
    return name.partition(".")[0]


def _after(owner: Any, name: str, noted: Callable[[Any], None]) -> None:
    """Let `noted` see each object after a method of its class."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def done(this: Any, *args: Any, **kwargs: Any) -> None:
        original(this, *args, **kwargs)
        noted(this)

    setattr(owner, name, done)


def has_parameters(module: Any) -> bool:
    """Whether a module, or one inside it, has weights: a loss is a module, too."""
    held = vars(module)
    if any(one is not None for one in held.get("_parameters", {}).values()):
        return True
    return any(
        has_parameters(child) for child in held.get("_modules", {}).values() if child is not None
    )


def _state_of_generator(torch: Any) -> Any:
    """Where the random numbers of the device are, as a tensor of the host."""
    if cuda.in_use() and not torch.cuda.is_current_stream_capturing():
        return torch.cuda.get_rng_state()
    return torch.get_rng_state()


def _tensors(value: Any, depth: int = 3) -> list[Any]:
    """The floating-point tensors in what a module returned."""
    if hasattr(value, "is_floating_point"):
        return [value] if value.is_floating_point() else []
    if depth == 0:
        return []
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [one for part in value for one in _tensors(part, depth - 1)]
    return []


def _size_of(tensor: Any) -> Any:
    """Mean size of a tensor's values, as a tensor: it is read after the timed steps."""
    return tensor.detach().float().abs().mean()
