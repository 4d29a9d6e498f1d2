"""A frozen network that works in each step of a training."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import ADD, program, step_us, within
from tests.replay.changes.test_called_again import CALL_US, LAYER_US, call
from tests.replay.changes.test_unread_gradients import gradient, update
from traceanalyzer.diagnosis.remedies.advice import advise
from traceanalyzer.diagnosis.remedies.kernels import no_recompute
from traceanalyzer.diagnosis.remedies.remedy import words
from traceanalyzer.replay.changes.computed_ahead import without_frozen_calls
from traceanalyzer.replay.recorded import make_tape

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.diagnosis.measurements import Measurements

WEIGHT = "[512, 512]"


def trained(p: Program, frozen: str, averages: bool) -> None:
    call(p, frozen, learns=False)
    call(p, "Unet_0", learns=True)
    gradient(p, WEIGHT, LAYER_US)
    update(p, f"[[{WEIGHT}], [{WEIGHT}]]")
    if averages:
        within(p.spend(1), "aten::_foreach_lerp_", lambda p: p.spend(5).launch(ADD, 5))


def learned(frozen: str = "Encoder_0", *, averages: bool = False) -> Measurements:
    return program(partial(trained, frozen=frozen, averages=averages))


def test_what_a_frozen_network_makes_is_made_ahead() -> None:
    m = learned()
    assert step_us(m, "no_recompute") == pytest.approx(CALL_US + LAYER_US, rel=0.05)
    assert no_recompute.offer(m).action == words("no_recompute", "ahead")
    (advice,) = [one for one in advise(m) if one.remedy.id == "no_recompute"]
    assert advice.prediction.high_ms == pytest.approx(m.step.step_ms)  # items may differ


@pytest.mark.parametrize(
    "m", [learned("Unet_0"), learned(averages=True)], ids=["it learns", "it follows what learns"]
)
def test_what_changes_from_step_to_step_stays(m: Measurements) -> None:
    tape = make_tape(m.rated)
    assert tape is not None
    assert without_frozen_calls(tape) is None
