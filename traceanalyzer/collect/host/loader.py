"""How many samples the program's DataLoader gives, as far as that can be seen without touching the program."""

import sys
from collections.abc import Iterable
from typing import Any

MOST_PARTS = 8
"""Of a batch that are looked at for a tensor."""


def describe(objects: Iterable[Any]) -> dict[str, Any] | None:
    """Among all objects of the process: the batch size of the loader that is being iterated; None without PyTorch, and
    where several differ or none is in sight."""
    dataloader = sys.modules.get("torch.utils.data.dataloader")
    if dataloader is None:
        return None
    # by `type`: `isinstance` asks the object, and a lazy one would wake up
    sizes = {batch_size(one) for one in objects if issubclass(type(one), dataloader._BaseDataLoaderIter)}
    size = sizes.pop() if len(sizes) == 1 else None
    return None if size is None else {"batch_size": size}


def batch_size(iterator: Any) -> int | None:
    """Samples of a full batch of a DataLoader's iterator; None where the dataset makes batches itself."""
    size = getattr(getattr(iterator, "_index_sampler", None), "batch_size", None)
    return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None


def samples_in(iterator: Any, batch: Any) -> int | None:
    """Samples of this batch: the loader's batch size, less where the first tensor of the batch (the last one of an
    epoch) is shorter; None where the loader has none."""
    size, length = batch_size(iterator), _length(batch)
    return size if size is None or length is None else min(size, length)


def _length(batch: Any, depth: int = 2) -> int | None:
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    parts = list(batch.values()) if isinstance(batch, dict) else batch if isinstance(batch, list | tuple) else ()
    found = (_length(part, depth - 1) for part in parts[:MOST_PARTS]) if depth else iter(())
    return next((length for length in found if length is not None), None)
