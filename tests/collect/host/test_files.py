"""What is written of a capture, and that it never ends the program."""

from __future__ import annotations

import os
import resource
import signal

import pytest

from traceanalyzer.collect.host.files import too_large_is_an_error, write_json


def ends_as(work):
    """How a process ends that may write files of 100 bytes and wants the signal for more."""
    child = os.fork()
    if not child:
        status = 99
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
            status = work()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_file_of_ours_beyond_the_limit_on_files_does_not_end_the_program(tmp_path):
    def work():
        with pytest.raises(OSError, match="large"):
            write_json(tmp_path / "a.json", ["x" * 1000])
        return 7 if signal.SIGXFSZ not in signal.pthread_sigmask(signal.SIG_BLOCK, []) else 8

    assert ends_as(work) == 7


def test_a_file_of_the_programs_own_does(tmp_path):
    def work():
        write_json(tmp_path / "a.json", ["x"])
        os.write(os.open(tmp_path / "own", os.O_CREAT | os.O_WRONLY), b"x" * 100)
        os.write(os.open(tmp_path / "own", os.O_APPEND | os.O_WRONLY), b"x")
        return 7

    assert ends_as(work) == -signal.SIGXFSZ


def test_a_signal_that_the_program_holds_back_stays_held_back():
    def work():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGXFSZ])
        os.kill(os.getpid(), signal.SIGXFSZ)
        with too_large_is_an_error():
            pass
        return 7 if signal.SIGXFSZ in signal.sigpending() else 8

    assert ends_as(work) == 7
