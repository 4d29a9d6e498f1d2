"""Takes the calls of a named function for the steps (`--step-on REGEX`).

The function is looked for with Python's profiling hook, which slows every call, until it is first
called. From then on only its own calls cost anything: its code is replaced by one that calls the
original, so that every reference to the function, wherever it was imported to, is counted."""

import gc
import re
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any

ORIGINAL = "__traceanalyzer_original_{}__"
ENDED = "__traceanalyzer_ended_{}__"


class FunctionCalls:
    """Ends of the calls of the first function called whose `module.qualified.name` the pattern is
    found in."""

    def __init__(
        self, pattern: str, on_step: Callable[[], None], on_enter: Callable[[], None] = lambda: None
    ) -> None:
        self._pattern = re.compile(pattern)
        self._on_step = on_step
        self._on_enter = on_enter
        self._seen: dict[int, CodeType] = {}
        self._replaced: list[tuple[FunctionType, CodeType]] = []
        self.unit = f"call of a function that matches {pattern}"  # what ends a step

    def install(self) -> None:
        """Watch calls until the function turns up."""
        if sys.getprofile() is not None or threading.getprofile() is not None:
            raise RuntimeError(
                "--step-on needs Python's profiling hook (sys.setprofile), which the script uses"
            )
        sys.setprofile(self._watch)
        threading.setprofile(self._watch)

    def remove(self) -> None:
        """Stop watching, and give the function its code back."""
        self._stop_watching()
        for function, code in self._replaced:
            function.__code__ = code
        self._replaced.clear()

    rest = remove

    def _stop_watching(self) -> None:
        # a profiler that the script has begun since is its own
        if sys.getprofile() == self._watch:
            sys.setprofile(None)
        if threading.getprofile() == self._watch:
            threading.setprofile(None)
        self._seen.clear()

    def _watch(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or id(frame.f_code) in self._seen:
            return
        # by id, because a code object's hash covers all of its content; kept, because ids are
        # reused
        self._seen[id(frame.f_code)] = frame.f_code
        name = f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_qualname}"
        if self._pattern.search(name):
            self._stop_watching()
            self.unit = f"call of {name}"
            self._replace(frame.f_code)
            self._on_enter()

    def _replace(self, code: CodeType) -> None:
        for function in gc.get_referrers(code):
            if isinstance(function, FunctionType) and function.__code__ is code:
                function.__code__ = _counting(function, self._on_step)
                self._replaced.append((function, code))


def _template(*args: Any, **kwargs: Any) -> Any:
    try:
        return _original(*args, **kwargs)  # type: ignore[name-defined] # noqa: F821
    finally:
        _ended()  # type: ignore[name-defined] # noqa: F821


def _counting(function: FunctionType, ended: Callable[[], None]) -> CodeType:
    """Code that calls the function as it was, then `ended`. Both are reached by names of their own
    in its module."""
    original = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    original.__kwdefaults__ = function.__kwdefaults__
    names = {"_original": ORIGINAL.format(id(original)), "_ended": ENDED.format(id(original))}
    function.__globals__.update({names["_original"]: original, names["_ended"]: ended})
    code = _template.__code__
    return code.replace(
        co_names=tuple(names[name] for name in code.co_names),
        # a function takes only code with as many free variables as it has
        co_freevars=function.__code__.co_freevars,
        co_name=function.__name__,
        co_qualname=function.__qualname__,
    )
