from __future__ import annotations

from pathlib import Path

from benchmarks.paired import Pair, checked_out, line


def test_the_ratio_is_of_pairs() -> None:
    pairs = [Pair(2.0, 4.0), Pair(3.0, 3.0), Pair(9.0, 12.0)]
    assert line("x.json", 155_000_000, pairs).split() == [
        "x.json",
        "155",
        "3.00",
        "4.00",
        "0.75",
        "0.50",
        "to",
        "1.00",
    ]


def test_a_commit_is_laid_out_in_a_folder() -> None:
    with checked_out("HEAD") as tree:
        assert (tree / "traceanalyzer" / "__main__.py").is_file()
    assert not tree.exists()
    assert isinstance(tree, Path)
