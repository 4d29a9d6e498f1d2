"""Patterns that are compiled when they are used, against those of the standard library."""

from __future__ import annotations

import pickle
import re

import pytest

from traceanalyzer.base import patterns, regex


def test_it_is_compiled_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    compile_now = re.compile
    monkeypatch.setattr(patterns.re, "compile", lambda *a: compiled.append(a) or compile_now(*a))
    pattern = regex(r"k(\d)", re.IGNORECASE)
    assert compiled == []
    assert [pattern.sub("x", text) for text in ("K1", "k2")] == ["x", "x"]
    assert compiled == [(r"k(\d)", re.IGNORECASE)]


def test_it_has_what_a_pattern_has() -> None:
    ours = regex(rb"(?P<a>k)(\d)?")
    theirs = re.compile(rb"(?P<a>k)(\d)?")
    assert ours.findall(b"k1 k") == theirs.findall(b"k1 k")
    assert (ours.pattern, ours.flags, ours.groups) == (theirs.pattern, theirs.flags, theirs.groups)
    assert dict(ours.groupindex) == dict(theirs.groupindex)
    assert repr(ours) == repr(theirs)
    assert not hasattr(ours, "other")


def test_those_of_one_text_are_equal() -> None:
    assert {regex("a"): 1}[regex("a")] == 1
    assert regex("a") != regex("a", re.IGNORECASE)
    assert pickle.loads(pickle.dumps(regex("a"))) == regex("a")  # noqa: S301 our own bytes
