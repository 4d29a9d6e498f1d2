"""The examples of docs/integrations.md run as they stand, each in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.recorded import ROOT

PAGE = (ROOT / "docs/integrations.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"^## (.+?)$.*?^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
SETTINGS = {
    "PYTHONPATH": str(ROOT),
    "MLFLOW_ALLOW_FILE_STORE": "true",
    "WANDB_SILENT": "true",
    "HF_HUB_OFFLINE": "1",
}


@pytest.mark.parametrize("title", [title for title in EXAMPLES if title != "Notebooks"])
def test_an_example_runs(title: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("wandb")
    (tmp_path / "sample_traces").symlink_to(ROOT / "sample_traces")
    settings = os.environ | SETTINGS | {"MLFLOW_TRACKING_URI": (tmp_path / "runs").as_uri()}
    run = [sys.executable, "-c", EXAMPLES[title]]
    done = subprocess.run(
        run, cwd=tmp_path, env=settings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "no report of this run" not in done.stderr
    if "print(recorded.report)" in EXAMPLES[title]:
        assert done.stdout.splitlines()[-1].startswith("<Report: ")


def test_the_page_names_every_figure() -> None:
    from traceanalyzer.integrations.trackers import PREFIX

    assert f"prefix `{PREFIX}`" in PAGE
    assert set(EXAMPLES) == {
        "Hugging Face Trainer",
        "Lightning",
        "Weights & Biases, MLflow, TensorBoard",
        "Notebooks",
    }
