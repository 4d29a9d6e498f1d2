"""The hash of a long input is made one time, and of the file as it is."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.ingest.cache import hashes, identity
from traceanalyzer.ingest.cache.hashes import sha256_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def long_file(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(hashes, "LEAST_BYTES", 100)
    file = tmp_path / "input.json"
    file.write_bytes(b"a" * 200)
    return file


def refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("it was made again"))


def of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_hash_is_made_one_time(long_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sha256_of(long_file) == of(b"a" * 200)
    refuse(monkeypatch)
    assert sha256_of(long_file) == of(b"a" * 200)


def test_a_file_that_was_changed_has_another(long_file: Path) -> None:
    sha256_of(long_file)
    long_file.write_bytes(b"b" * 200)
    assert sha256_of(long_file) == of(b"b" * 200)


def test_none_is_kept_of_a_file_that_was_just_written(
    long_file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "SETTLED_S", 3600.0)
    assert sha256_of(long_file) == of(b"a" * 200)
    assert not list(cache.glob("*"))


def test_none_is_kept_of_a_short_file(long_file: Path, cache: Path) -> None:
    long_file.write_bytes(b"a")
    assert sha256_of(long_file) == of(b"a")
    assert not list(cache.glob("*"))
