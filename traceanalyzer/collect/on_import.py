"""Calls back when this process has imported a package."""

import importlib.util
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.machinery import ModuleSpec
from typing import Any


def on_import(package: str, after: Callable[[], None]) -> None:
    """Call `after` as soon as the package has been imported; what fails in it is not the
    program's."""
    sys.meta_path.insert(0, _Import(package, after))


class _Import:
    """A finder for `sys.meta_path` that lets the others find a package and runs `after` when it has
    been imported."""

    def __init__(self, package: str, after: Callable[[], None]) -> None:
        self._package = package
        self._after = after

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Find the package itself with the other finders; nothing else."""
        if name != self._package or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        # the loader keeps its type, so that resources and sources are still found through it
        execute = spec.loader.exec_module

        def execute_then_attach(module: Any) -> None:
            execute(module)
            with suppress(Exception):
                self._after()

        spec.loader.exec_module = execute_then_attach  # type: ignore[method-assign]
        return spec
