"""Switches of DataLoaders and of copies to the device."""

import functools
from typing import Any

from traceanalyzer.trials.apply.wrap import change_arguments


def _loader() -> Any:
    from torch.utils.data import DataLoader

    return DataLoader


def workers(value: Any) -> None:
    """Batches are loaded by processes of their own."""

    def change(kwargs: dict[str, Any]) -> None:
        if not kwargs.get("num_workers"):
            kwargs["num_workers"] = int(value)
            kwargs.setdefault("persistent_workers", True)

    change_arguments(_loader(), "__init__", change)


def more_workers(value: Any) -> None:
    """A loader that has workers gets more of them."""

    def change(kwargs: dict[str, Any]) -> None:
        if kwargs.get("num_workers"):
            kwargs["num_workers"] = max(int(value), kwargs["num_workers"])

    change_arguments(_loader(), "__init__", change)


def persistent_workers(_: Any) -> None:
    """Workers live on after an epoch."""

    def change(kwargs: dict[str, Any]) -> None:
        if kwargs.get("num_workers"):
            kwargs["persistent_workers"] = True

    change_arguments(_loader(), "__init__", change)


def prefetch(value: Any) -> None:
    """Each worker has more batches ready."""

    def change(kwargs: dict[str, Any]) -> None:
        if kwargs.get("num_workers"):
            kwargs["prefetch_factor"] = max(int(value), kwargs.get("prefetch_factor") or 0)

    change_arguments(_loader(), "__init__", change)


def pin_memory(_: Any) -> None:
    """Batches come in pinned memory, and are copied without waiting."""

    def change(kwargs: dict[str, Any]) -> None:
        kwargs["pin_memory"] = True

    change_arguments(_loader(), "__init__", change)
    non_blocking(True)


def non_blocking(_: Any) -> None:
    """The host does not wait for copies from pinned memory to the device."""
    import torch

    for name in ("to", "cuda"):
        _without_waiting(torch.Tensor, name)


def _without_waiting(owner: Any, name: str) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def copied(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        # back to the host the program would read what has not come yet
        if tensor.device.type == "cpu" and tensor.is_pinned():
            kwargs.setdefault("non_blocking", True)
        return original(tensor, *args, **kwargs)

    setattr(owner, name, copied)
