"""The dumps of real gloo hangs, which several tests read."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.recorded import ROOT

PACKED = ROOT / "tests" / "data" / "hangs" / "hangs.tar.gz"


@pytest.fixture(scope="package")
def hangs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dumps, a folder a hang."""
    folder = tmp_path_factory.mktemp("hangs")
    with tarfile.open(PACKED) as packed:
        packed.extractall(folder, filter="data")
    return folder
