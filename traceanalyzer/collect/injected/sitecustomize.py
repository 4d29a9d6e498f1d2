"""Put in front of Python's search path by `traceanalyzer collect`; Python imports it at start-up.

Must never fail and cost nothing: it runs in every Python process of the recorded command."""

import contextlib
import importlib
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(os.path.dirname(_HERE))


def _run_the_one_we_hide() -> None:
    """Import the environment's own sitecustomize, which Python would have found without us."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError:
        if ours is not None:
            sys.modules["sitecustomize"] = ours


def _make_importable() -> None:
    """Let another interpreter than the one that runs `traceanalyzer` import the package."""
    if importlib.util.find_spec("traceanalyzer") is not None:
        return
    spec = importlib.util.spec_from_file_location(
        "traceanalyzer",
        os.path.join(_PACKAGE, "__init__.py"),
        submodule_search_locations=[_PACKAGE],
    )
    if spec is not None and spec.loader is not None:
        package = importlib.util.module_from_spec(spec)
        sys.modules["traceanalyzer"] = package
        spec.loader.exec_module(package)


_run_the_one_we_hide()
with contextlib.suppress(Exception):
    _make_importable()
    _module = os.environ.get("TRACEANALYZER_ATTACH", "traceanalyzer.collect.attach")
    importlib.import_module(_module).attach_on_import()
