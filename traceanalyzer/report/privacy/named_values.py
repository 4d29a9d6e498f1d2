"""Secrets whose names say that they are: `password=...`, `--api-key ...`, `"token": "..."`."""

import re

from traceanalyzer.base import regex

_WORD = regex(
    r"(?P<strong>pass[ _-]?(?:word|wd|phrase|code)|pwd|secret|credential|creds|jwt|connection[ _-]?string"
    r"|passwor[td]|kennwort|mot[ _]de[ _]passe|contrase[nñ]a|senha|parol[ae]|(?<![a-z])clave"
    r"|wachtwoord|heslo|has[lł]o|[sş]ifre|l[oö]senord|salasana|adgangskode|jelsz[oó]|(?<![a-z])mdp|p4ssword|(?:bind|root|admin|user|ldap)pw(?![a-z])"
    r"|access[ _-]?code|seed[ _-]?phrase|mnemonic|client-(?:key|certificate)-data|certificate-authority-data"
    r"|пароль|密码|密碼|パスワード|비밀번호)"
    r"|(?P<line>authorization|cookie)"
    r"|(?P<weak>token|key|pass|auth|pat|session(?:[ _-]?id)?|sessid|sid|signature|sig|sas|pin|otp"
    r"|(?<![a-z])(?:pw|psk)(?![a-z]))",
    re.IGNORECASE,
)
"""The words that names of secrets have: of the weak ones it depends on what stands before and
after."""
_KEYS = regex(
    r"(?:api|access|account|app|application|auth|client|consumer|crypt|deploy|encryption|gpg|hmac|"
    r"host|license|licence|master|pgp|private|rsa|sas|secret|security|server|service|session|"
    r"shared|signing|ssh|ssl|storage|subscription|tls|wandb|aws|azure|gcp|s3|github|gitlab|"
    r"openai|anthropic|functions|hf|huggingface|ngc|datadog|comet|neptune)\Z"
)
"""What a key is secret of."""
_NO_TOKENS = regex(
    r"(?:accepted|bos|by|cls|decode|draft|each|end|eos|every|fill|first|generated|image|input|kv|"
    r"last|mask|max|min|new|next|num|of|one|output|pad|per|prefill|prompt|sep|sentinel|single|"
    r"special|start|stop|time|unk)\Z"
)
"""What stands before `token` where text is meant."""
_PASSES = regex(
    r"(?:admin|auth|db|email|ftp|git|http|imap|jdbc|ldap|login|mail|my|mysql|pg|proxy|redis|root|"
    r"rpc|smtp|ssh|store|sudo|svn|user|vnc)\Z"
)
"""What stands before `pass` where a password is meant; others are passes over something."""
_ALWAYS_SECRET = {"pw", "psk"}
_PHRASES = {
    "auth": r"(?=\S*\d)\S{6,}",
    "pin": r"\d{4,8}",
    "otp": r"\d{4,8}",
    "session": r"(?=\S*\d)(?=\S*[A-Za-z])[A-Za-z0-9%+/=]{16,}",
    **dict.fromkeys(("sessionid", "sessid", "sid"), r"(?=\S*\d)[\w%.+/=:-]{8,}"),
    **dict.fromkeys(("sig", "signature", "sas"), r"(?=\S*\d)[\w%.+/=&-]{16,}"),
}
"""What values of weak words look like where nothing before the word tells."""
_HARMLESS = regex(
    r"[-+]?\d{1,4}%?|[-+]?\d*\.\d+(?:e[-+]?\d+)?|true|false|none|null|yes|no|on|off", re.IGNORECASE
)
"""Counts and flags."""
_LONGEST_NAME = 60
_REST = regex(rf"[\w-]{{0,{_LONGEST_NAME}}}+")
_BEFORE = regex(r"([\w-]{0,60})([ ])?\Z")
_QUOTE = r"""\\{0,3}["']"""
_OPENING = rf"[\[({{]\s{{0,3}}(?:{_QUOTE}\w{{1,20}}{_QUOTE}\s{{0,3}}:\s{{0,3}})?(?={_QUOTE})"
_SIGN = regex(
    rf"""(?:\\{{0,3}}["'`])?\]?[ \t]{{0,3}}(?:(?:is|was)[ \t]?)?(?:=>|:=|->|==?|:(?!:))[ \t]{{0,3}}
      (?:{_OPENING}|[bBfFrRuU]{{1,2}}(?=["']))?
    | \((?={_QUOTE})
    | >(?=[^<>\n]{{1,4096}}</)
    | {_QUOTE}\s{{0,3}},\s{{0,3}}{_QUOTE}value{_QUOTE}\s{{0,3}}:\s{{0,3}}
    | {_QUOTE}\s{{0,3}}\{{\s{{0,3}}default\s{{0,3}}=\s{{0,3}}
    | (?:{_QUOTE})?\s{{1,3}}value=(?={_QUOTE})
    | (?:{_QUOTE})?[ ]{{0,3}}(?:\r?\n|\\{{1,2}}n)[ \t]{{0,24}}value:[ \t]{{0,3}}""",
    re.VERBOSE,
)
"""Between name and value, the letters before a Python string included."""
_LISTED = regex(r"\\{0,3}[\"']\s{0,3},\s{0,3}(?=\\{0,3}[\"'])")
_NEXT_LINE = regex(
    r"[\"']?[ \t]{0,3}[:=][ \t]{0,8}(?:[|>][+-]?[ \t]{0,8})?(?:\r?\n|\\{1,2}n)[ \t]{0,24}(?=\S)"
)
"""Between the name and a value that stands below it."""
_BRACKETS = {")": "(", "]": "[", "}": "{"}
_BLANK = regex(r"[ \t](?:(?:is|was)[ \t])?")
_VALUE = regex(
    r"""(?P<quote>["]{3}|[']{3}|\\{0,3}["'`])(?P<quoted>(?:\\.|(?!(?P=quote))[^\n]){1,4096}+)
    | (?P<bare>(?!<secret>)
        (?:\$\([^)\n]{1,256}\)
        |(?:[^\s,;&"'`<]|<(?!/)|[,;&](?!\s|\Z|[\w.-]{1,60}+\s?[=:])){1,4096}+))""",
    re.VERBOSE,
)
_LINE = regex(
    r"\\{0,3}[\"'`]?(?P<quoted>[^\n\"'`\\]{1,4096}+)"
)  # a header's value has blanks and signs


def without_named_values(text: str, hidden: str) -> str:
    """The text with `hidden` in place of each value whose name says that it is secret."""
    done = []
    at = 0
    for word in _WORD.finditer(text):
        found = _value_after(text, word, at) if word.start() >= at else None
        if found:
            start, end = found
            done += [text[at:start], hidden]
            at = end
    return "".join([*done, text[at:]])


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
    forms = [_SIGN, _BLANK]
    if option or word["strong"]:
        forms = [_NEXT_LINE, _SIGN, _LISTED, _BLANK] if word["strong"] else [_SIGN, _LISTED, _BLANK]
    between = next(filter(None, (form.match(text, at) for form in forms)), None)
    value = between and (_LINE if word["line"] else _VALUE).match(text, between.end())
    if between is None or not value:
        return None
    span = value.span("quoted") if value["quoted"] else _without_closing(text, *value.span("bare"))
    return (
        span
        if _is_meant(
            before, word, rest[0], text[slice(*span)], signed=between.re.pattern != _BLANK.pattern
        )
        else None
    )


def _without_closing(text: str, start: int, end: int) -> tuple[int, int]:
    """A bare value without the end of its sentence, and without the brackets at its end that were
    opened before it: `(sid=...).`"""
    while end > start + 1:
        last = text[end - 1]
        opening = _BRACKETS.get(last)
        closes = opening and text.count(opening, start, end) < text.count(last, start, end)
        if not closes and last != ".":
            break
        end -= 1
    return start, end


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
        option or _stands_alone(name, value, strong=not word["weak"] or _names_a_key(first, word))
    )


def _names_a_key(before: str, word: re.Match[str]) -> bool:
    """Whether the words are `apikey`, `api-key` or `api_key`: no sentence has them of another
    thing."""
    return word[0].lower() == "key" and before.rstrip("_-").lower().endswith("api")


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
    if kind == "token":
        is_variable = word.isupper() and before.endswith(" ")  # behind a sentence's word
        is_of_text = _NO_TOKENS.search(stem) is not None and not is_variable
        return after.lower() != "s" and not is_of_text
    if kind == "key":
        return _KEYS.search(stem) is not None or (word == "KEY" and not stem)
    if kind == "pass":
        is_password = not stem or _PASSES.search(stem) is not None
        return is_password or (before.endswith(" ") and word.isupper())
    return kind in _ALWAYS_SECRET or _is_phrase(before, word, kind, value)


def _is_phrase(before: str, word: str, kind: str, value: str) -> bool:
    """Whether the word begins where it stands, and the value looks like one of its kind."""
    begins = (
        kind.startswith("sess")
        or not before[-1:].isalpha()
        or (word[0].isupper() and before[-1].islower())
    )
    return begins and kind in _PHRASES and re.fullmatch(_PHRASES[kind], value) is not None
