"""Remarks on what we do are left unsaid, and the program's own warnings are not said again."""

from __future__ import annotations

import warnings

from traceanalyzer.collect.host.remarks import leave_unsaid


def test_what_the_program_is_warned_of_once_is_not_repeated():
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for _ in range(3):
            leave_unsaid("A remark on hooks")
            warnings.warn("the program's own", stacklevel=1)
            warnings.warn("a remark on hooks: twelve", stacklevel=1)
    assert [str(one.message) for one in shown] == ["the program's own"]
