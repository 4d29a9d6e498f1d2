"""Letters that hide a word from who searches for it: encoded for addresses or HTML, invisible, or wide."""

import re
from urllib.parse import unquote

from traceanalyzer.base import regex

_INVISIBLE = dict.fromkeys(
    (0xAD, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2060, 0xFEFF, 0xFFFD), None
)
_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_PLAIN = str.maketrans(_INVISIBLE | _WIDE)
_WORD = regex(r"[^\s\"'<>]+")
_ENCODED = regex(r"%(?:2F|3D|3A|40|5C|20)", re.IGNORECASE)
_ESCAPED = regex(r"\\(?:u00|x)(2[0f]|3[ad]|40|5c)", re.IGNORECASE)
_ENTITY = regex(r"&#(?:x([0-9a-fA-F]{1,4})|(\d{1,5}));")


def undisguised(text: str) -> str:
    """The text in plain letters, as far as it had others in their place."""
    if _ENCODED.search(text):
        text = _WORD.sub(_decoded, text)
    if "\\" in text:
        text = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
    if "&#" in text:
        text = _ENTITY.sub(_letter, text)
    return text if text.isascii() else text.translate(_PLAIN)


def _decoded(word: re.Match[str]) -> str:
    return unquote(word[0], errors="replace") if _ENCODED.search(word[0]) else word[0]


def _letter(entity: re.Match[str]) -> str:
    code = int(entity[1], 16) if entity[1] else int(entity[2])
    return chr(code) if 0x20 < code < 0xD800 else entity[0]
