"""How to install what a part of the program needs beside its own packages."""

from pathlib import Path

from traceanalyzer.base.patterns import regex

DISTRIBUTION = "gpu-traceanalyzer"
"""What the package index calls the program; one called `traceanalyzer` there is somebody else's."""
_CLONE = Path(__file__).parents[2] / "pyproject.toml"
_REQUIREMENT = regex(r"""\A([^;\s]+)\s*;.*\bextra\s*==\s*["']([\w-]+)["']""")


def how_to_install(extra: str) -> str:
    """The command that installs what an extra needs. It names the packages, so that it is right
    whether the program came from a clone, a wheel or the package index."""
    packages = _packages(extra)
    if packages:
        return f"pip install {' '.join(map(repr, packages))}"
    if _CLONE.is_file():  # run without being installed
        return f"pip install -e '.[{extra}]' in the clone"
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def _packages(extra: str) -> list[str]:
    from importlib import metadata  # it loads the mail parser: a tenth of every command's start

    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []
    matches = filter(None, map(_REQUIREMENT.match, lines))
    return [match[1] for match in matches if match[2] == extra]
