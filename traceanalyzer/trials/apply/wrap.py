"""Wraps constructors and methods of PyTorch's classes."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from traceanalyzer.collect.steps.outer_calls import OuterCalls
from traceanalyzer.trials.seen.probe import has_parameters


def change_arguments(owner: Any, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Let `change` alter the arguments of every call of a method or function, by name: those that
    the program gives by position, too."""
    original = getattr(owner, name)
    parameters = inspect.signature(original).parameters.values()
    places = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD][1:]

    @functools.wraps(original)
    def changed(this: Any, *args: Any, **kwargs: Any) -> Any:
        named = dict(zip(places, args, strict=False)) | kwargs
        change(named)
        return original(this, *args[len(places) :], **named)

    setattr(owner, name, changed)


def before_first_call(prepare: Callable[[Any], None]) -> None:
    """Let `prepare` see each outermost module with weights, when it is first called."""
    seen = set()

    def entered(module: Any) -> None:
        if id(module) not in seen and has_parameters(module):
            seen.add(id(module))
            prepare(module)

    OuterCalls(entered, lambda call, module: None, raise_error).install()


def raise_error(error: Exception) -> None:
    """What fails in a switch fails the run: it would be another trial without it."""
    raise error
