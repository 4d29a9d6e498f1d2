"""`python -m tests.licences`: a line for each package that `pip install traceanalyzer` brings here,
with its licence. Fails at one that is not known to be fine for a program of Apache-2.0."""

from __future__ import annotations

import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution

FINE = re.compile(
    r"\b(MIT|BSD|0BSD|Apache|PSF|Python Software Foundation|ISC|MPL|Mozilla Public|Unlicense|HPND|CC0|Zlib|"
    r"Public Domain)\b",
    re.IGNORECASE,
)
STRICT = re.compile(
    r"\b(A?GPL|LGPL|GNU|SSPL|BUSL|Business Source|Commons Clause|proprietary)\b", re.IGNORECASE
)
REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)[^;]*(?:;(.*))?")


def installed(name: str, found: dict[str, Distribution]) -> dict[str, Distribution]:
    """A package and all that it needs, as far as it is installed."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in found:
        return found
    try:
        found[key] = distribution(name)
    except PackageNotFoundError:  # of another system, or an extra that is not installed
        return found
    for requirement in found[key].requires or ():
        needed, marker = REQUIREMENT.match(requirement).groups()  # type: ignore[union-attr]
        if "extra" not in (marker or "") or (key == "traceanalyzer" and "mcp" in (marker or "")):
            installed(needed, found)
    return found


def licence(of: Distribution) -> str:
    """What the package says of its licence."""
    about = of.metadata
    classified = [
        text.rpartition("::")[2].strip()
        for text in about.get_all("Classifier") or ()
        if "License" in text
    ]
    said = (
        about.get("License-Expression")
        or ", ".join(classified)
        or (about.get("License") or "").strip().split("\n")[0]
    )
    return said or "?"


def main() -> int:
    """List them; whether one is not known to be fine."""
    bad = 0
    for name, one in sorted(installed("traceanalyzer", {}).items()):
        said = licence(one)
        fine = FINE.search(said) is not None and (STRICT.search(said) is None or " OR " in said)
        bad += not fine
        sys.stdout.write(
            f"{name}=={one.version}: {said}{'' if fine else '   <-- not known to be fine'}\n"
        )
    return bad


if __name__ == "__main__":
    sys.exit(main())
