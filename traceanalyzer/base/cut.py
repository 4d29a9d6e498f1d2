"""Text that is too long, cut."""

from __future__ import annotations

ELLIPSIS = "…"


def cut(text: str, limit: int) -> str:
    """At most `limit` characters, the end left out."""
    return text if len(text) <= limit else text[: limit - 1] + ELLIPSIS
