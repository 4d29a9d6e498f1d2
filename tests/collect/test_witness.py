"""Who got a signal: `collect` alone, or its whole group."""

from __future__ import annotations

import os
import signal

from traceanalyzer.collect.witness import call_witness

ASKED = (signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP)


def in_a_group_of_its_own(work):
    """Run in a process with a witness; its exit status."""
    child = os.fork()
    if not child:
        status = 99
        try:
            os.setpgid(0, 0)
            for number in ASKED:
                signal.signal(number, lambda number, frame: None)
            witness = call_witness(set(ASKED))
            status = work(witness)
            witness.dismiss()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_signals_that_a_group_gets_at_once_are_each_told():
    """Slurm and `timeout` send several in a row."""

    def work(witness):
        for number in ASKED:
            os.killpg(0, number)
        return sum(witness.got(number) for number in ASKED)

    assert in_a_group_of_its_own(work) == len(ASKED)


def test_one_that_was_told_is_not_told_again():
    def work(witness):
        os.killpg(0, signal.SIGUSR1)
        first = witness.got(signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR1)
        return 7 if first and not witness.got(signal.SIGUSR1) else 8

    assert in_a_group_of_its_own(work) == 7
