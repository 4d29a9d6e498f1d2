"""The hook that waits for an outermost call leaves no sign of having been away."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.nn.modules.module import _global_forward_pre_hooks as hooks  # noqa: E402

from traceanalyzer.collect.steps.outer_calls import OuterCalls  # noqa: E402


def test_a_compiled_function_meets_the_same_hook_on_every_call():
    def ignore(*_):
        pass

    calls = OuterCalls(ignore, ignore, ignore)
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    calls.install()
    before = dict(hooks)
    model(torch.ones(1, 2))  # takes the hook away while it runs, and puts it back
    after = dict(hooks)
    calls.remove()

    assert before == after
    assert len(before) == 1
    assert all(before[key] is after[key] for key in before)
    assert not hooks
