"""Aliases for the names that the owner of a report does not want to publish: equal names, equal
aliases."""

import re
from collections.abc import Sequence

WITHIN = " > "  # between the parts of an operator path
CUT_LEAST = 6  # characters that a shortened name has at least in common with the name


class Aliases:
    """Names that match one of the patterns, in the order they were met. Whole names are replaced,
    not matches."""

    def __init__(self, patterns: Sequence[re.Pattern[str]]) -> None:
        self._patterns = patterns
        self._aliases: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._known: re.Pattern[str] | None = None

    def learn_kernel(self, name: str, full_name: str) -> None:
        """Give a kernel one alias for both of its names."""
        if self._hidden(name) or self._hidden(full_name):
            self._aliases.setdefault(full_name, self._alias(name, "kernel"))

    def in_name(self, text: str) -> str:
        """A field that is a name or an operator path."""
        if not self._hidden(text):
            return text
        parts = [self._alias(part) if self._hidden(part) else part for part in text.split(WITHIN)]
        return WITHIN.join(parts) if WITHIN.join(parts) != text else self._alias(text)

    def in_sentence(self, text: str) -> str:
        """A text with names among other words: known names, and whatever word around a match of a
        pattern."""
        if not self._hidden(text) and not any(name in text for name in self._aliases):
            return text
        if self._known is None:
            longest_first = sorted(self._aliases, key=len, reverse=True)
            self._known = re.compile(
                "|".join(f"({re.escape(n)})" for n in longest_first) or r"(?!)"
            )
        text = self._uncut(text)
        done = []
        position = 0
        for match in self._known.finditer(text):
            done += [self._words(text[position : match.start()]), self._aliases[match[0]]]
            position = match.end()
        return "".join([*done, self._words(text[position:])])

    def _words(self, text: str) -> str:
        """The text with an alias for each match of a pattern, extended to the blanks around it."""
        for pattern in self._patterns:
            done = []
            position = 0
            for match in pattern.finditer(text):
                if match.start() < position or not match[0]:
                    continue
                start = max(text.rfind(" ", 0, match.start()) + 1, position)
                end = text.find(" ", match.end())
                word = text[start : end if end >= 0 else None]
                bare = word.rstrip(".,;:")
                done += [text[position:start], self._alias(bare), word[len(bare) :]]
                position = start + len(word)
            text = "".join([*done, text[position:]])
        return text

    def _uncut(self, text: str) -> str:
        """The text with known names in full where it has them with their ends cut off."""
        for cut in reversed(list(re.finditer(r"…|\.\.\.", text))):
            before = text[: cut.start()]
            for name in self._aliases:
                start = before.rfind(name[:CUT_LEAST])
                if start >= 0 and name.startswith(before[start:]):
                    text = before[:start] + name + text[cut.end() :]
                    break
        return text

    def _hidden(self, text: str) -> bool:
        return any(pattern.search(text) for pattern in self._patterns)

    def _alias(self, name: str, kind: str = "name") -> str:
        if name in self._aliases.values():
            return name
        if name not in self._aliases:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._aliases[name] = f"{kind}-{self._counts[kind]}"
        return self._aliases[name]
