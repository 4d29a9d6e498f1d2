"""Wraps constructors and methods of PyTorch's classes."""

import functools
from collections.abc import Callable
from typing import Any

from traceanalyzer.collect.steps.outer_calls import OuterCalls
from traceanalyzer.trials.probe import has_parameters


def change_arguments(owner: Any, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Let `change` alter the keyword arguments of every call of a method or function. Arguments
    that the program gives by position are left to it."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def changed(*args: Any, **kwargs: Any) -> Any:
        change(kwargs)
        return original(*args, **kwargs)

    setattr(owner, name, changed)


def before_first_call(prepare: Callable[[Any], None]) -> None:
    """Let `prepare` see each outermost module with weights, when it is first called."""
    seen = set()

    def entered(module: Any) -> None:
        if id(module) not in seen and has_parameters(module):
            seen.add(id(module))
            prepare(module)

    def failed(error: Exception) -> None:
        raise error

    OuterCalls(entered, lambda call, module: None, failed).install()
