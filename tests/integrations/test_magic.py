"""The magic in a real IPython shell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.recorded import ROOT
from traceanalyzer.comparison.notebook import NotebookReport

torch = pytest.importorskip("torch")
pytest.importorskip("wandb")
testing = pytest.importorskip("IPython.testing.globalipapp")


@pytest.fixture(scope="module")
def shell() -> Iterator[Any]:
    shell = testing.start_ipython()
    shell.run_line_magic("load_ext", "traceanalyzer")
    yield shell
    shell.run_line_magic("unload_ext", "traceanalyzer")


def test_a_recording_is_shown(shell: Any) -> None:
    report = shell.run_line_magic("traceanalyzer", str(ROOT / "sample_traces/sync_bound"))
    assert isinstance(report, NotebookReport)
    assert report.summary.bottleneck == "sync"


def test_a_mistake_is_one_line(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell.run_line_magic("traceanalyzer", "nowhere.json") is None
    assert capsys.readouterr().out.startswith("traceanalyzer: nowhere.json")


def test_a_cell_is_recorded(shell: Any) -> None:
    report = shell.run_cell_magic(
        "traceanalyzer", "", "import torch\ny = torch.ones(64, 64) @ torch.ones(64, 64)"
    )
    assert isinstance(report, NotebookReport)
    assert any(row.name == "aten::mm" for row in report.tables["ops"])
    assert shell.user_ns["y"][0, 0] == 64  # the cell ran in the notebook's own names


def test_a_cell_with_an_unknown_option_does_not_run(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shell.run_cell_magic("traceanalyzer", "--stack", "z = 1") is None
    assert "takes --stacks and --memory, not stack" in capsys.readouterr().out
    assert "z" not in shell.user_ns
