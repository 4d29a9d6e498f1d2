"""Tokens of some twenty services by the rules of `detect-secrets`, which its maintainers keep up to date.

Only its regular expressions are asked. Nothing is checked with a service, and nothing leaves the machine.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

LEFT_OUT = frozenset(("IPPublicDetector", "JwtTokenDetector", "NpmDetector", "OpenAIDetector"))
"""Hosts have aliases of their own; the others take the square of a text, and `credentials.py` has those."""


@cache
def maintained_rules() -> tuple[re.Pattern[str], ...]:
    """The forms of tokens; rules on a name before the value and on entropy are not among them."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    found: Mapping[str, Any] = get_mapping_from_secret_type_to_class()
    plugins = {plugin.__name__: plugin for plugin in found.values()}
    return tuple(
        rule for name in sorted(plugins.keys() - LEFT_OUT) for rule in getattr(plugins[name], "denylist", None) or ()
    )
