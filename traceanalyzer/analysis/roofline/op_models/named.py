"""Models by the names of their operators."""

from collections.abc import Callable, Mapping
from typing import Concatenate, ParamSpec, TypeVar

from traceanalyzer.analysis.roofline.op_models import engines
from traceanalyzer.analysis.roofline.op_models.call import Call, Model, Work

P = ParamSpec("P")
T = TypeVar("T")


def aten(
    names: str,
    model: Callable[Concatenate[Call, P], Work],
    *given: P.args,
    **by: P.kwargs,
) -> dict[str, Model]:
    """The model with these parameters by the operators' names, PyTorch's where they name no
    library."""
    return {
        name if "::" in name else f"aten::{name}": lambda call: model(call, *given, **by)
        for name in names.split()
    }


def per_entry(
    table: Mapping[str, T],
    model: Callable[[Call, T], Work],
) -> dict[str, Model]:
    """The model of all names of the table, with what the table has for each."""
    models: dict[str, Model] = {}
    for names, given in table.items():
        models |= aten(names, model, given)
    return models


def served(names: str) -> str:
    """Engines have operators of one name and kind each for themselves."""
    return " ".join(f"{engine}::{name}" for engine in engines.ENGINES for name in names.split())
