"""What the program trains or runs, as far as its objects are in sight: model, optimizer, loaders.

They are looked up among the objects that Python's garbage collector knows, once, before the
recorded steps: no hook stays behind, and nothing of the program is called."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

WRAPPERS = frozenset(
    ("OptimizedModule", "DistributedDataParallel", "DataParallel", "FullyShardedDataParallel")
)
"""Modules around the model, by the names of their classes."""
MOST_LOADERS = 4
MOST_PARTS = 8  # of a batch that are looked at for a tensor


def describe_program(objects: Iterable[Any]) -> dict[str, Any] | None:
    """The largest model among a process's objects, its optimizers and loaders; None without
    PyTorch, or if that fails."""
    if "torch" not in sys.modules:
        return None
    import torch

    # a program's objects may do anything when they are looked at; the recording matters more
    with suppress(Exception), torch._C.DisableTorchFunction():
        return _describe(objects)
    return None


def _describe(objects: Iterable[Any]) -> dict[str, Any]:
    import torch
    from torch.utils.data import DataLoader

    kinds = torch.nn.Module, torch.optim.Optimizer, DataLoader
    seen = [one for one in objects if issubclass(type(one), kinds)]
    modules, optimizers, loaders = (
        [one for one in seen if issubclass(type(one), kind)] for kind in kinds
    )
    names = []
    for optimizer in optimizers:  # its class and how it is implemented, where it says so
        groups = vars(optimizer).get("param_groups")
        settings = groups[0] if groups else {}
        how = next(
            (f" ({name})" for name in ("fused", "foreach", "capturable") if settings.get(name)), ""
        )
        names.append(type(optimizer).__name__ + how)
    known = list(map(_loader, loaders[:MOST_LOADERS]))
    return {"model": _model(modules), "optimizers": sorted(set(names)), "loaders": known}


def _model(modules: list[Any]) -> dict[str, Any] | None:
    """The module with most parameters, among those that are part of no other."""
    children = [vars(module).get("_modules", {}).values() for module in modules]
    inner = {id(child) for each in children for child in each}
    outermost = [module for module in modules if id(module) not in inner]
    counted = [(module, _parameters_by_type(module)) for module in outermost]
    models = [(module, parameters) for module, parameters in counted if parameters]
    if not models:
        return None
    model, parameters = max(models, key=lambda pair: pair[1].total())
    return {
        "name": _name(model),
        "parameters": parameters.total(),
        "dtypes": [dtype for dtype, _ in parameters.most_common()],
        "training": vars(model).get("training") is not False,
    }


def _parameters_by_type(module: Any) -> Counter[str]:
    """How many numbers of each type the module's parameters hold."""
    import torch

    result = Counter[str]()
    for parameter in _parameters(module):
        dtype = torch.Tensor.dtype.__get__(parameter)
        result[str(dtype).removeprefix("torch.")] += torch.Tensor.numel(parameter)
    return result


def _parameters(module: Any) -> Iterator[Any]:
    """The module's parameters, each once, read from where PyTorch keeps them: a method of the
    module's own may do anything."""
    seen = set()
    waiting = [module]
    while waiting:
        held = vars(waiting.pop())
        parameters = held.get("_parameters", {}).values()
        modules = held.get("_modules", {}).values()
        for item in (*parameters, *modules):
            if item is None or id(item) in seen:
                continue
            seen.add(id(item))
            if "_modules" in getattr(item, "__dict__", {}):
                waiting.append(item)
            else:
                yield item


def _name(module: Any) -> str:
    """The class of the model, with those of what is wrapped around it."""
    name = type(module).__name__
    children = [child for child in vars(module).get("_modules", {}).values() if child is not None]
    return f"{name}({_name(children[0])})" if name in WRAPPERS and len(children) == 1 else name


def _loader(loader: Any) -> dict[str, Any]:
    held = vars(loader)
    batch_size = held.get("batch_size")
    return {
        "batch_size": batch_size if isinstance(batch_size, int) else None,
        "num_workers": held.get("num_workers"),
        "pin_memory": bool(held.get("pin_memory")),
        "persistent_workers": bool(held.get("persistent_workers")),
        "prefetch_factor": held.get("prefetch_factor"),
    }


def describe_loader(objects: Iterable[Any]) -> dict[str, Any] | None:
    """Batch size of the loader that is being iterated, found among a process's objects; None
    without PyTorch, or where unclear."""
    dataloader = sys.modules.get("torch.utils.data.dataloader")
    if dataloader is None:
        return None
    # by `type`: `isinstance` asks the object, and a lazy one would wake up
    sizes = {
        seen_batch_size(one)
        for one in objects
        if issubclass(type(one), dataloader._BaseDataLoaderIter)
    }
    size = sizes.pop() if len(sizes) == 1 else None
    return None if size is None else {"batch_size": size}


def seen_batch_size(iterator: Any) -> int | None:
    """Samples of a full batch of a DataLoader's iterator; None where the dataset makes batches
    itself."""
    sampler = getattr(iterator, "__dict__", {}).get("_index_sampler")
    size = getattr(sampler, "__dict__", {}).get("batch_size")
    return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None


def samples_in(iterator: Any, batch: Any) -> int | None:
    """Samples of this batch: the loader's batch size, or its first tensor's length if less; None
    where unknown."""
    import torch

    size = seen_batch_size(iterator)
    with torch._C.DisableTorchFunction():
        length = _length(batch)
    return size if size is None or length is None else min(size, length)


def _length(batch: Any, depth: int = 2) -> int | None:
    """Length of the first tensor or array in it. Of other types nothing is asked: it may be lazy."""
    kind = type(batch)
    if issubclass(kind, _array_types()):
        return len(batch) if batch.ndim else None
    parts: Iterable[Any] = ()
    if issubclass(kind, dict):
        parts = dict.values(batch)
    elif issubclass(kind, list | tuple):
        parts = list.__iter__(batch) if issubclass(kind, list) else tuple.__iter__(batch)
    if not depth:
        return None
    found = (_length(part, depth - 1) for part in islice(parts, MOST_PARTS))
    return next((length for length in found if length is not None), None)


def _array_types() -> tuple[type, ...]:
    places = (("torch", "Tensor"), ("numpy", "ndarray"))
    found = (getattr(sys.modules.get(module), name, None) for module, name in places)
    return tuple(kind for kind in found if kind is not None)
