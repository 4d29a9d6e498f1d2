"""What an idle device waits for, by name."""

import enum


class IdleCause(enum.IntEnum):
    """What an idle device was waiting for; in the order of the report's `idle_ms`."""

    LAUNCH = 0
    SYNC = 1
    INPUT = 2
    HOST = 3
    COMMUNICATION = 4
    PROFILER = 5
    OTHER = 6

    @property
    def label(self) -> str:
        """The cause's name in reports."""
        return self.name.lower()
