"""Names of C++ functions as linkers see them (`_ZN5aiter10add_kernelIfLi4EEEvPf`), made legible.

The name with its template arguments is read, as the Itanium C++ ABI (section 5.1) writes it;
parameters are left out, and so is what a back reference stands for. Of a name that was cut, or has
a form not known here, what was read is kept.
"""

import re

from traceanalyzer.base import regex

PREFIX = "_Z"
_LETTERS = {
    "v": "void",
    "b": "bool",
    "c": "char",
    "a": "signed char",
    "h": "unsigned char",
    "s": "short",
    "t": "unsigned short",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "x": "long long",
    "y": "unsigned long long",
    "f": "float",
    "d": "double",
    "e": "long double",
    "w": "wchar_t",
    "n": "__int128",
    "o": "unsigned __int128",
    "z": "...",
}
_WIDE = {"DF16_": "_Float16", "DF16b": "__bf16", "Dh": "half", "Dn": "nullptr_t"}
_NUMBER = regex(r"\d+")
_BACK = regex(r"S(?:[0-9A-Z]{0,8}_|[absiod])|T[0-9]{0,8}_")
_D = regex(r"D(?:F\d+[_b]|v\d+_|.)")
_ARRAY = regex(r"A\d*_")
_BOOLS = {"b0": "false", "b1": "true"}
_VALUE = regex(r"(n?)([0-9a-f]{0,64}+)E")


def demangled(name: str) -> str:
    """The legible name; the same where it is not mangled."""
    if not name.startswith(PREFIX):
        return name
    reader = _Reader(name)
    try:
        reader.function()
    except (IndexError, ValueError, RecursionError):
        reader.out.append("...")
    text = "".join(reader.out)
    return text if text.strip(".") else name


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = len(PREFIX)
        self.out: list[str] = []

    def function(self) -> None:
        """A function's name, which begins with its result's type where that is known."""
        self.name()
        is_template = bool(self.out) and self.out[-1] == ">"
        if is_template and self.text.startswith("v", self.at):
            self.out.insert(0, "void ")

    def name(self) -> None:
        if self.passed("N"):
            self.nested()
            return
        if self.passed("Z"):  # something local to a function
            self.name()
            raise ValueError
        if self.passed("St"):
            self.out.append("std::")
        self.passed("L")
        self.identifier()
        self.arguments()

    def nested(self) -> None:
        begun = len(self.out)
        while self.text[self.at] in "rVKRO":
            self.at += 1
        while not self.closed():
            if self.arguments():
                continue
            if len(self.out) > begun:
                self.out.append("::")
            if self.passed("St"):
                self.out.append("std")
            elif self.text[self.at] in "ST":
                self.skip(_BACK)
                del self.out[begun:]
            else:
                self.passed("L")
                self.identifier()

    def identifier(self) -> None:
        length = int(self.skip(_NUMBER)[0])
        word = self.text[self.at : self.at + length]
        self.at += length
        self.out.append("(anonymous namespace)" if word.startswith("_GLOBAL__N_") else word)
        if len(word) < length:
            raise IndexError

    def arguments(self) -> bool:
        """Template arguments, if there are any."""
        found = self.passed("I")
        if found:
            self.listed("<", ">")
        return found

    def listed(self, opening: str, closing: str) -> None:
        self.out.append(opening)
        begun = len(self.out)
        while not self.closed():
            if len(self.out) > begun and self.out[-1] != ", ":
                self.out.append(", ")
            if self.passed("J"):
                self.listed("", "")
            elif self.passed("L"):
                self.literal()
            else:
                self.type()
        if len(self.out) > begun and self.out[-1] == ", ":
            self.out.pop()
        self.out.append(closing)

    def literal(self) -> None:
        if self.passed(PREFIX):
            self.name()
            while not self.closed():
                self.muted()
            return
        kind = self.text[self.at]
        self.muted()
        sign, digits = self.skip(_VALUE).groups()
        self.out.append(_BOOLS.get(kind + digits, f"-{digits}" if sign else digits))

    def type(self) -> None:
        letter = self.text[self.at]
        if letter in "PROKV":
            self.at += 1
            self.type()
        elif letter in _LETTERS:
            self.at += 1
            self.out.append(_LETTERS[letter])
        elif letter == "D":
            word = self.skip(_D)[0]
            self.out.append(_WIDE.get(word, word))
        elif letter == "A":
            self.skip(_ARRAY)
            self.type()
        elif letter == "F":
            self.at += 1
            while not self.closed():
                self.muted()
            self.out.append("function")
        elif letter in "ST" and not self.text.startswith("St", self.at):
            self.skip(_BACK)
            self.arguments()
        else:
            self.name()

    def muted(self) -> None:
        """A type that is not written."""
        kept = self.out
        self.out = []
        self.type()
        self.out = kept

    def closed(self) -> bool:
        if self.at >= len(self.text):
            raise IndexError
        return self.passed("E")

    def passed(self, word: str) -> bool:
        """Whether this comes next; it is passed over."""
        found = self.text.startswith(word, self.at)
        self.at += len(word) * found
        return found

    def skip(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise ValueError
        self.at = match.end()
        return match
