"""What `environment.json` says of the program: its model, optimizers and loaders, as conditions of the recording."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from traceanalyzer.base.limits import limits
from traceanalyzer.ingest.side_files import is_number
from traceanalyzer.trace import Condition

SHOWN = 4
"""Number formats, optimizers and loaders that are named."""


def program_conditions(program: object) -> Iterator[Condition]:
    """The conditions; what is missing or malformed is left out."""
    if not isinstance(program, dict):
        return
    if isinstance(model := program.get("model"), dict):
        yield from _model(model)
    names = _texts(program.get("optimizers"))
    if names:
        yield Condition("optimizer", ", ".join(names))
    loaders = program.get("loaders")
    found = [one for one in loaders[:SHOWN] if isinstance(one, dict)] if isinstance(loaders, list) else []
    for i, loader in enumerate(found):
        yield from _loader(loader, "loader" if len(found) == 1 else f"loader {i}")


def _model(model: Mapping[str, Any]) -> Iterator[Condition]:
    if isinstance(name := model.get("name"), str):
        yield Condition("model", name[: limits().text])
    if is_number(count := model.get("parameters")) and count > 0:
        yield Condition("parameters", f"{count:,.0f}")
    if dtypes := _texts(model.get("dtypes")):
        yield Condition("type of the parameters", ", ".join(dtypes))
    if isinstance(training := model.get("training"), bool):
        yield Condition("mode of the model", "train" if training else "eval")


def _loader(loader: Mapping[str, Any], label: str) -> Iterator[Condition]:
    for key, name in (
        ("batch_size", "batch size"),
        ("num_workers", "num_workers"),
        ("prefetch_factor", "prefetch_factor"),
    ):
        if is_number(value := loader.get(key)) and value >= 0:
            yield Condition(f"{label} {name}", f"{value:g}")
    for name in ("pin_memory", "persistent_workers"):
        if isinstance(value := loader.get(name), bool):
            yield Condition(f"{label} {name}", "on" if value else "off")


def _texts(value: object) -> list[str]:
    listed = value[:SHOWN] if isinstance(value, list) else []
    return [one[: limits().text] for one in listed if isinstance(one, str) and one]
