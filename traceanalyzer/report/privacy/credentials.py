"""Passwords, keys and tokens in text: by maintained rules, by what stands before, and by forms.

Forms, for services that the rules lack and for tokens that are cut short or set in other text, as those who give them
out document them: GitHub "About authentication" (ghp_, gho_, ghu_, ghs_, ghr_, github_pat_), AWS IAM identifiers
(AKIA, ASIA), Hugging Face (hf_), OpenAI and Anthropic (sk-), Slack (xox*-), Google (AIza, ya29.), GitLab (glpat-),
npm_, PyPI (pypi-), NVIDIA (nvapi-), Stripe (sk_live_), SendGrid (SG.), Databricks (dapi), JSON Web Tokens (RFC 7519),
PEM (RFC 7468).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

HIDDEN = "<secret>"

_FORMS = re.compile(
    r"""(?<![A-Za-z0-9])(?:
      gh[pousr]_[A-Za-z0-9]{16,}+ | github_pat_\w{20,}+
    | (?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA|ABIA|ACCA)[A-Z0-9]{12,}+
    | hf_[A-Za-z0-9]{16,}+ | api_org_[A-Za-z0-9]{16,}+
    | sk-[A-Za-z0-9_-]{16,}+ | [sr]k_(?:live|test)_[A-Za-z0-9]{10,}+
    | xox[abeoprs]-[A-Za-z0-9-]{10,}+ | xapp-[A-Za-z0-9-]{10,}+
    | AIza[\w-]{30,}+ | ya29\.[\w-]{20,}+
    | gl(?:pat|dt|rt|ptt)-[\w-]{16,}+ | npm_[A-Za-z0-9]{30,}+ | pypi-[\w-]{16,}+
    | nvapi-[\w-]{16,}+ | dapi[0-9a-f]{32}+ | SG\.[\w-]{16,}+\.[\w-]{16,}+
    | eyJ[\w-]{8,}+\.eyJ[\w-]{4,}+(?:\.[\w-]*+)?
    )
    | -----BEGIN\ [A-Z ]{0,30}PRIVATE\ KEY-----[^-]*+(?:-----END\ [A-Z ]{0,30}PRIVATE\ KEY-----)?
    """,
    re.VERBOSE,
)
_SCHEME = re.compile(r"\b(Bearer|Basic|Digest|Negotiate)\s++(?!<)[\w.~+/-]{6,}+=*+", re.IGNORECASE)
_NAMES = (
    r"(?:[\w-]{0,60}?(?:passw(?:or)?d|passphrase|passwd|pwd|secret|credentials?|authorization|cookie)[\w-]{0,40}+"
    r"|[\w-]{0,60}?(?:api|access|account|auth|encryption|private|signing|ssh|storage|wandb|aws)[_-]?(?:key|token)(?:[_-]id)?"
    r"|(?:[A-Z0-9]{1,30}_){1,6}(?:KEY|TOKEN|TOKENS|PAT|AUTH)|(?:[a-z0-9]{1,30}-){0,4}token)"
)
_NAMED = re.compile(
    rf"(?<![\w-])((?:--?)?{_NAMES}[\"']?(?:\s{{0,3}}[=:]\s{{0,3}}|(?<=\w)\s(?=\S)))(?!<)(\"[^\"\n]*+\"|'[^'\n]*+'|[^\s,;\"']++)"
)
_BOUNDS = frozenset(" \t\n\"'=:,")
_ASKED = re.compile(r"--?[\w-]+[\"']?\s\Z")
"""A blank is between name and value only where the name is an option."""


def without_credentials(text: str) -> str:
    """The text with each of them replaced."""
    text = _FORMS.sub(HIDDEN, text)
    text = _SCHEME.sub(rf"\1 {HIDDEN}", text)
    text = _NAMED.sub(_hidden, text)
    for rule in maintained_rules():
        text = rule.sub(_bounded, text)
    return text


def _bounded(match: re.Match[str]) -> str:
    """A rule may take the blank or sign before and after the token with it."""
    first, last = match[0][0], match[0][-1]
    return (first if first in _BOUNDS else "") + HIDDEN + (last if last in _BOUNDS and len(match[0]) > 1 else "")


def _hidden(match: re.Match[str]) -> str:
    before = match[1]
    return before + HIDDEN if "=" in before or ":" in before or _ASKED.search(before) else match[0]


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
