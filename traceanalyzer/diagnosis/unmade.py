"""What a prediction of a run that was never made starts from: measurements of the recorded one."""

from collections.abc import Sequence

from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.diagnosis.measurements import Measurements, nothing_to_replay
from traceanalyzer.diagnosis.part_of_run import Selection
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.replay.unmade.answer import Known, Unmade, predicted
from traceanalyzer.replay.unmade.memory import levels_of
from traceanalyzer.replay.unmade.question import Question
from traceanalyzer.trace import Run


def known_of(m: Measurements) -> Known:
    """The replay, memory and use of the GPU of a recording. Raises EmptyRecordingError where it
    cannot be replayed."""
    if m.replay is None:
        raise nothing_to_replay(m)
    used = m.utilisation
    program = m.program
    worked = m.throughput
    return Known(
        replay=m.replay,
        levels=levels_of(m.timed, m.memory),
        mfu=None if used is None or m.mfu_is_least else used.mfu,
        samples=None if worked is None else worked.samples,
        micro_steps=1.0 if program is None or not program.micro_steps else program.micro_steps,
    )


def unmade(
    run: Run,
    questions: Sequence[Question],
    selection: Selection | None = None,
    knowledge: Knowledge | None = None,
    *,
    price: float | None = None,
) -> list[Unmade]:
    """The step of a rank (the critical one unless one is asked for) under each of several settings.
    Raises EmptyRecordingError where there is nothing to replay, QuestionError where the recording
    does not tell what is asked."""
    known = known_of(measured(run, selection, knowledge).critical)
    return [predicted(known, question, price) for question in questions]
