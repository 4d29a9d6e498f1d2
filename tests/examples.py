"""How often a property is tried: as often as the profile says (tests/conftest.py), or so many times
more or less."""

from __future__ import annotations

from hypothesis import settings


def tried(times: float) -> settings:
    """`@tried(3)`: three times as many examples as usual."""
    return settings(max_examples=max(round(times * settings.default.max_examples), 1))
