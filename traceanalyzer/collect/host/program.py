"""What the program trains or runs, as far as its objects are in sight: model, optimizer, loaders.

They are looked up among the objects that Python's garbage collector knows, once, before the
recorded steps: no hook stays behind, and nothing of the program is called."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
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
    try:
        return _describe(objects)
    except (
        Exception
    ):  # a program's objects may do anything when they are looked at; the recording matters more
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
        settings = optimizer.param_groups[0] if optimizer.param_groups else {}
        how = next(
            (f" ({name})" for name in ("fused", "foreach", "capturable") if settings.get(name)), ""
        )
        names.append(type(optimizer).__name__ + how)
    known = list(map(_loader, loaders[:MOST_LOADERS]))
    return {"model": _model(modules), "optimizers": sorted(set(names)), "loaders": known}


def _model(modules: list[Any]) -> dict[str, Any] | None:
    """The module with most parameters, among those that are part of no other."""
    children = [vars(one).get("_modules", {}).values() for one in modules]
    inner = {id(child) for each in children for child in each}
    found = Counter[str]()
    model = None
    for module in modules:
        parameters = Counter[str]()  # how many of each type
        for parameter in _parameters(module) if id(module) not in inner else ():
            parameters[str(parameter.dtype).removeprefix("torch.")] += parameter.numel()
        if parameters and (model is None or parameters.total() > found.total()):
            found = parameters
            model = module
    if model is None:
        return None
    dtypes = [dtype for dtype, _ in found.most_common()]
    return {
        "name": _name(model),
        "parameters": found.total(),
        "dtypes": dtypes,
        "training": vars(model).get("training") is not False,
    }


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
    size = getattr(getattr(iterator, "_index_sampler", None), "batch_size", None)
    return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None


def samples_in(iterator: Any, batch: Any) -> int | None:
    """Samples of this batch: the loader's batch size, or its first tensor's length if less; None
    where unknown."""
    size = seen_batch_size(iterator)
    length = _length(batch)
    return size if size is None or length is None else min(size, length)


def _length(batch: Any, depth: int = 2) -> int | None:
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    parts = (
        list(batch.values())
        if isinstance(batch, dict)
        else batch
        if isinstance(batch, list | tuple)
        else ()
    )
    found = (_length(part, depth - 1) for part in parts[:MOST_PARTS]) if depth else iter(())
    return next((length for length in found if length is not None), None)
