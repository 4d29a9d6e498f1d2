"""Lists of tensors in the shapes of PyTorch's ranges: written one by one, read as lists."""

from __future__ import annotations

import pytest

from traceanalyzer.ingest.nsys.shape_lists import grouped


@pytest.mark.parametrize(
    ("operator", "sizes", "lists"),
    [
        ("aten::cat", "[[2, 3], [2, 4], []]", "[[[2,3],[2,4]],[]]"),
        ("aten::stack", "[[8], [8], [8], []]", "[[[8],[8],[8]],[]]"),
        ("aten::_foreach_add_", "[[], [], []]", "[[[],[]],[]]"),  # step counts and a number
        ("aten::_foreach_add_", "[[2], [3], [2], [3], []]", "[[[2],[3]],[[2],[3]],[]]"),
        ("aten::_foreach_mul_", "[[2], [2], []]", "[[[2],[2]],[]]"),  # by one number
        ("aten::_foreach_mul_", "[[2], [2]]", "[[[2]],[[2]]]"),
        ("aten::_foreach_addcdiv_", "[[2], [2], [2], []]", "[[[2]],[[2]],[[2]],[]]"),
        ("aten::_fused_adamw_", "[[2], [2], [2], [2], [], []]", "[[[2]],[[2]],[[2]],[[2]],[],[]]"),
        ("aten::mm", "[[2, 3], [3, 4]]", "[[2, 3], [3, 4]]"),
        ("aten::cat", "[[2", "[[2"),
    ],
)
def test_lists_of_tensors(operator: str, sizes: str, lists: str) -> None:
    assert grouped(operator, sizes) == lists
