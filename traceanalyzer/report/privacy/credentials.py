"""Passwords, keys and tokens in text: by maintained rules, by what stands before, and by forms."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from traceanalyzer.base import regex
from traceanalyzer.report.privacy.named_values import without_named_values
from traceanalyzer.report.privacy.tokens import without_tokens

HIDDEN = "<secret>"
_SCHEME = regex(r"\b(Bearer|Basic|Digest|Negotiate)\s++(?!<)[\w.~+/-]{6,}+=*+", re.IGNORECASE)
_LOGIN = regex(r"(?<![\w.%+-])[\w.%+-]{1,64}+:(?!:)[^\s/@]{1,64}+(?:@[^\s/@]{1,64}+)?@(?=\w)")
"""NAME:PASSWORD@HOST; the password may hold an @."""
_OPTION = regex(
    r"(?<![^\s\"'`(\[])((?:-u|--user|--proxy-user)[ =])\S{1,64}?:\S{1,256}+"
    r"|(?<![\w-])(curl\s(?:[^\n]{0,120}?\s)?-\w{0,4}u)[^\s:-]{1,64}:\S{1,256}+"
    r"|(?<![\w-])(openssl\s(?:[^\n]{0,120}?\s)?-(?:k|K|passin|passout)\s)(?![-<])\S{1,256}+"
    r"|(?<![\w-])(echo\s(?:-\w\s)?)(?![-<])[^\s|]{1,256}+"
    r"(?=\s?\|\s?(?:sudo\s(?:-\w\s){0,3}-\w{0,3}S|(?:sudo\s)?(?:chpasswd|passwd|kinit|su|docker\slogin|podman\slogin)\b))"
    r"|(?<![\w-])((?:az|racadm|useradd|usermod)\s(?:[^\n]{0,120}?\s)?-p\s)(?![-<])\S{1,256}+"
    r"|(?<![\w-])(https?\s(?:[^\n]{0,120}?\s)?-a\s)(?![-<])\S{1,256}+"
    r"|(?<![\w-])(mosquitto_\w{3,4}\s(?:[^\n]{0,120}?\s)?-P\s)(?![-<])\S{1,256}+"
    r"|(?<![\w-])(snmp\w{2,10}\s(?:[^\n]{0,120}?\s)?-c\s)(?![-<])\S{1,64}+"
    r"|(?<![\w-])(rabbitmqctl\s(?:add_user|change_password)\s\S{1,64}\s)(?![-<])\S{1,256}+"
    r"|(?<![\w-])(poetry\sconfig\s(?:pypi-token|http-basic)\.\S{1,64}\s(?:\S{1,64}\s)?)(?![-<])\S{1,256}+"
    r"|(?<![\w-])((?:mysql\w{0,20}|mariadb\w{0,20}|sshpass|docker\slogin)\s(?:[^\n]{0,120}?\s)?-p\s?)(?!<)\S{1,256}+"
    r"|(?<![\w-])((?:un)?zip\s(?:[^\n]{0,120}?\s)?-P\s?)(?!<)\S{1,256}+"
    r"|(?<![\w-])(htpasswd\s+-\w{0,8}b\w{0,8}\s+\S{1,256}\s+\S{1,64}\s+)(?!<)\S{1,256}+"
    r"|(?<![\w-])((?:7za?|rar)\s(?:[^\n]{0,120}?\s)?-p)(?![\s<])\S{1,256}+"
    r"|(?<![\w-])((?:redis-cli|redis-benchmark)\s(?:[^\n]{0,120}?\s)?-a\s?)(?!<)\S{1,256}+"
    r"|(?<![\w-])((?:ldap\w{2,10}|ipmitool)\s(?:[^\n]{0,120}?\s)?-[wP]\s?)(?!<)\S{1,256}+"
    r"|(?<![\w-])((?:mongo\w{0,10}|sqlcmd|isql|cqlsh|lftp)\s(?:[^\n]{0,120}?\s)?-[pP]\s?)(?!<)\S{1,256}+"
    r"|(?<![\w-])((?:smbclient|rpcclient|net\srpc)\s(?:[^\n]{0,120}?\s)?-U\s?[^\s%]{1,64}%)(?!<)\S{1,256}+"
    r"|(?i:(?<![\w-])(net\suse\s(?:[^\n]{0,120}?\s)?/user:\S{1,64}\s))(?![/<])\S{1,256}+"
    r"|(?i:(?<![\w-])(sqlplus\s(?:-\w\s){0,3}[\w.-]{1,64}/|jdbc:oracle:\w{2,6}:[\w.-]{1,64}/))(?!<)[^\s@]{1,256}+(?=@)"
    r"|(?<![\w-])(wandb\slogin\s(?:--[\w=-]{1,40}\s){0,4})(?![-<])\S{8,256}+"
    r"|(?<![^\s\"`(])(requirepass\s|masterauth\s)(?!<)\S{1,256}+|(?<![^\s\"`(])(AUTH\s(?:\w{1,32}\s)?)(?!<)(?=\S*\d)\S{6,256}+"
    r"|(?i:(?<![\w-])(snmp\s?community[ :=]{1,3}|community\sstring[ :=]{1,3}))(?!<)\S{1,64}+"
    r"|(?<![\w-])(pass:)(?!<)[^\s:]{3,256}+"
)
"""What programs take a password by whose option does not say so."""
_PASSWORD_FILE = regex(
    r"(?<![^\s\"'`(\[])((?:\*|[\w.-]{1,64}):(?:\*|\d{2,5}):[\w*-]{1,64}:[\w.*-]{1,64}:)(?![\s<])\S{1,256}+"
)
"""A line of PostgreSQL's password file: HOST:PORT:DATABASE:USER:PASSWORD."""
_CALLS = regex(
    r"((?:\bauth\s?=\s?|\b\w{0,30}(?:Auth|Credentials?)\s?)\((?:\s?[\"'][^\"'\n]{1,64}[\"']\s?,){1,3}\s?[\"'])[^\"'\n]{1,256}"
    r"|(\blogin\(\s?(?:\w{1,20}\s?=\s?)?[\"'])[^\"'\n]{6,256}"
)
"""Calls of a program whose last text, or whose only one, is a password."""
_PAIRS = regex(
    r"\b(Digest|OAuth|Hawk|MAC|Signature|GoogleLogin)\s{1,3}"
    r"(?:\w{1,40}=\\{0,3}\"[^\"\n\\]{0,1024}\\{0,3}\"[,\s]{0,3}){1,30}"
)
"""A header of authorization in pairs."""
_HASHED = regex(
    r"\$(?:[1567y]|2[abxy]|apr1|argon2\w{0,2}|pbkdf2[\w-]{0,20}|scrypt)\$[^\s\"':;<]{8,512}"
    r"|(?<=:)[0-9a-fA-F]{32}:[0-9a-fA-F]{32}(?=:)"
)
"""Passwords as systems keep them: crypt's forms, LM and NT hashes."""
LEFT_OUT = {"IPPublicDetector", "JwtTokenDetector", "NpmDetector", "OpenAIDetector"}
"""Hosts have aliases of their own; the others take the square of a text, and `tokens.py` has those."""


def without_credentials(text: str) -> str:
    """The text with each of them replaced."""
    text = without_tokens(text, HIDDEN)
    text = _HASHED.sub(HIDDEN, _PAIRS.sub(rf"\1 {HIDDEN}", text))
    text = _SCHEME.sub(rf"\1 {HIDDEN}", text)
    text = _CALLS.sub(_without_value, _OPTION.sub(_without_value, text))
    text = _PASSWORD_FILE.sub(rf"\1{HIDDEN}", text)
    text = _LOGIN.sub(f"{HIDDEN}@", text)
    text = without_named_values(text, HIDDEN)
    for rule in maintained_rules():
        text = rule.sub(_bounded, text)
    return text


def _without_value(option: re.Match[str]) -> str:
    name = next(filter(None, option.groups()))
    return name + HIDDEN


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
