"""Passwords, keys and tokens in text: by maintained rules, by what stands before, and by forms.

Forms, for services that the rules lack and for tokens that are cut short or set in other text, as
those who give them out document them: GitHub "About authentication" (ghp_, gho_, ghu_, ghs_, ghr_,
github_pat_), AWS IAM identifiers (AKIA, ASIA), Hugging Face (hf_), OpenAI and Anthropic (sk-),
Slack (xox*-), Google (AIza, ya29.), GitLab (glpat-), npm_, PyPI (pypi-), NVIDIA (nvapi-), Stripe
(sk_live_), SendGrid (SG.), Databricks (dapi), JSON Web Tokens (RFC 7519), PEM (RFC 7468)."""

import re
from collections.abc import Callable, Mapping
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
_LOGIN = re.compile(r"(?<![\w.%+-])[\w.%+-]{1,64}+:(?!:)[^\s/@]{1,64}+(?:@[^\s/@]{1,64}+)?@(?=\w)")
"""NAME:PASSWORD@HOST; the password may hold an @."""
_OPTION = re.compile(
    r"(?<!\S)((?:-u|--user|--proxy-user)[ =])\S{1,64}?:\S{1,256}+"
    r"|(?<![\w-])((?:mysql\w{0,20}|mariadb\w{0,20}|sshpass|docker\slogin)\s(?:[^\n]{0,120}?\s)?-p\s?)(?!<)\S{1,256}+"
)
"""What programs take a password by whose option does not say so."""

_WORD = re.compile(
    r"(?P<strong>pass[ _-]?(?:word|wd|phrase|code)|pwd|secret|credential|creds|jwt|connection[ _-]?string)"
    r"|(?P<line>authorization|cookie)"
    r"|(?P<weak>token|key|pass|auth|pat|session[ _-]?id|sessid|sid|signature|sig|sas|pin|otp)",
    re.IGNORECASE,
)
"""The words that names of secrets have: of the weak ones it depends on what stands before and
after."""
_KEYS = re.compile(
    r"(?:api|access|account|app|application|auth|client|consumer|crypt|deploy|encryption|gpg|hmac|"
    r"host|license|licence|master|pgp|private|rsa|sas|secret|security|server|service|session|"
    r"shared|signing|ssh|ssl|storage|subscription|tls|wandb|aws|azure|gcp|s3|github|gitlab|"
    r"openai|anthropic|hf|huggingface|ngc|datadog|comet|neptune)\Z"
)
"""What a key is secret of."""
_NO_TOKENS = re.compile(
    r"(?:accepted|bos|by|cls|decode|draft|each|end|eos|every|fill|first|generated|image|input|kv|"
    r"last|mask|max|min|new|next|num|of|one|output|pad|per|prefill|prompt|sep|sentinel|single|"
    r"special|start|stop|time|unk)\Z"
)
"""What stands before `token` where text is meant."""
_PASSES = re.compile(
    r"(?:admin|auth|db|email|ftp|git|http|imap|jdbc|ldap|login|mail|my|mysql|pg|proxy|redis|root|"
    r"rpc|smtp|ssh|store|sudo|svn|user|vnc)\Z"
)
"""What stands before `pass` where a password is meant; others are passes over something."""
_PHRASES = {
    "auth": r"(?=\S*\d)\S{6,}",
    "pin": r"\d{4,8}",
    "otp": r"\d{4,8}",
    **dict.fromkeys(("sessionid", "sessid", "sid"), r"(?=\S*\d)[\w%.+/=-]{8,}"),
    **dict.fromkeys(("sig", "signature", "sas"), r"(?=\S*\d)[\w%.+/=&-]{16,}"),
}
"""What values of weak words look like where nothing before the word tells."""
_HARMLESS = re.compile(
    r"[-+]?\d{1,4}%?|[-+]?\d*\.\d+(?:e[-+]?\d+)?|true|false|none|null|yes|no|on|off", re.IGNORECASE
)
"""Counts and flags."""
_LONGEST_NAME = 60
_REST = re.compile(rf"[\w-]{{0,{_LONGEST_NAME}}}+")
_BEFORE = re.compile(r"([\w-]{0,60})([ ])?\Z")
_SIGN = re.compile(
    r"""\\{0,3}["'`]?[ \t]{0,3}(?:=>|:=|->|==?|:(?!:))[ \t]{0,3}
    | >(?=[^<>\n]{1,4096}</) | \\{0,3}["']\s{0,3},\s{0,3}\\{0,3}["']value\\{0,3}["']\s{0,3}:\s{0,3}""",
    re.VERBOSE,
)
"""Between name and value."""
_LISTED = re.compile(r"\\{0,3}[\"']\s{0,3},\s{0,3}(?=\\{0,3}[\"'])")
_BLANK = re.compile(r"[ \t](?:(?:is|was)[ \t])?")
_VALUE = re.compile(
    r"""(?P<quote>\\{0,3}["'`])(?P<quoted>(?:\\.|(?!(?P=quote))[^\n]){1,4096}+)
    | (?P<bare>(?!<secret>)(?:[^\s,;&"'`<]|<(?!/)|[,;&](?!\s|\Z|[\w.-]{1,60}+\s?[=:])){1,4096}+)""",
    re.VERBOSE,
)
_LINE = re.compile(
    r"\\{0,3}[\"'`]?(?P<quoted>[^\n\"'`\\]{1,4096}+)"
)  # a header's value has blanks and signs


LEFT_OUT = {"IPPublicDetector", "JwtTokenDetector", "NpmDetector", "OpenAIDetector"}
"""Hosts have aliases of their own; the others take the square of a text, and `credentials.py` has
those."""


def without_credentials(text: str) -> str:
    """The text with each of them replaced."""
    text = _SCHEME.sub(rf"\1 {HIDDEN}", _FORMS.sub(HIDDEN, text))
    text = _OPTION.sub(lambda match: (match[1] or match[2]) + HIDDEN, text)
    text = _LOGIN.sub(f"{HIDDEN}@", text)
    done = []  # the values whose names say that they are secret
    at = 0
    for word in _WORD.finditer(text):
        if word.start() >= at and (found := _value_after(text, word, at)):
            done += [text[at : found[0]], HIDDEN]
            at = found[1]
    text = "".join([*done, text[at:]])
    for rule in maintained_rules():
        text = rule.sub(_bounded, text)
    return text


def _bounded(match: re.Match[str]) -> str:
    """A rule may take the blank or sign before and after the token with it."""
    first = match[0][0]
    last = match[0][-1]
    bounds = " \t\n\"'=:,"
    return (
        (first if first in bounds else "")
        + HIDDEN
        + (last if last in bounds and len(match[0]) > 1 else "")
    )


def _value_after(
    text: str,
    word: re.Match[str],
    least: int,
) -> tuple[int, int] | None:
    """Where the secret value of a name with this word lies; None where there is none."""
    rest = next(_REST.finditer(text, word.end()))
    before = next(
        _BEFORE.finditer(
            text,
            max(least, word.start() - _LONGEST_NAME),
            word.start(),
        )
    )
    option = before[1].startswith("-")
    at = rest.end()
    forms = (_SIGN, _LISTED, _BLANK) if option or word["strong"] else (_SIGN, _BLANK)
    between = next(filter(None, (form.match(text, at) for form in forms)), None)
    value = between and (_LINE if word["line"] else _VALUE).match(text, between.end())
    if between is None or not value:
        return None
    span = value.span("quoted" if value["quoted"] else "bare")
    return (
        span
        if _is_meant(
            before,
            word,
            rest[0],
            text[slice(*span)],
            signed=between.re is not _BLANK,
        )
        else None
    )


def _is_meant(
    before: re.Match[str], word: re.Match[str], rest: str, value: str, *, signed: bool
) -> bool:
    if word["weak"] and not _is_secret(before[0], word[0], rest, value):
        return False
    if signed:
        return True
    first = "" if before[2] else before[1]
    name = first + word[0] + rest
    option = before[1].startswith("-")
    return not value.startswith("-") and (
        option or _stands_alone(name, value, strong=not word["weak"])
    )


def _stands_alone(name: str, value: str, *, strong: bool) -> bool:
    """Whether a value after a blank is one: words follow names in any sentence."""
    if strong:
        return name.isupper() or re.search(r"[\d!?@#$%^&*+=]", value) is not None
    return re.fullmatch(r"(?=\D*\d)(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9+/=.-]{12,}", value) is not None


def _is_secret(before: str, word: str, after: str, value: str) -> bool:
    """Whether a name with a weak word is that of a secret: `before` and `after` are the rest of
    it."""
    kind = re.sub("[ _-]", "", word.lower())
    if after.lower().strip("_-") not in ("", "id", "s", "1", "2"):
        return False
    if _HARMLESS.fullmatch(value) and kind not in ("pin", "otp"):
        return False
    stem = before.rstrip("_- ").lower()
    if stem and (before + word).isupper() and "_" in before:
        return True
    return _SECRET_BY_KIND.get(kind, _is_phrase)(before, stem, word, after, value)


def _is_pass(before: str, stem: str, word: str, *_: str) -> bool:
    return not stem or _PASSES.search(stem) is not None or (before.endswith(" ") and word.isupper())


def _is_phrase(before: str, _: str, word: str, __: str, value: str) -> bool:
    """Whether the word begins where it stands, and the value looks like one of its kind."""
    kind = re.sub("[ _-]", "", word.lower())
    begins = (
        kind.startswith("sess")
        or not before[-1:].isalpha()
        or (word[0].isupper() and before[-1].islower())
    )
    return begins and kind in _PHRASES and re.fullmatch(_PHRASES[kind], value) is not None


_SECRET_BY_KIND: dict[str, Callable[[str, str, str, str, str], bool]] = {
    "token": lambda _, stem, __, after, ___: (
        after.lower() != "s" and _NO_TOKENS.search(stem) is None
    ),
    "key": lambda _, stem, *__: _KEYS.search(stem) is not None,
    "pass": _is_pass,
}
"""Whether a weak word is of a secret, by what stands before and after it: before, its stem, word,
after, value."""


@cache
def maintained_rules() -> tuple[re.Pattern[str], ...]:
    """The forms of tokens; rules on a name before the value and on entropy are not among them."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    found: Mapping[str, Any] = get_mapping_from_secret_type_to_class()
    plugins = {plugin.__name__: plugin for plugin in found.values()}
    return tuple(
        rule
        for name in sorted(plugins.keys() - LEFT_OUT)
        for rule in getattr(plugins[name], "denylist", None) or ()
    )
