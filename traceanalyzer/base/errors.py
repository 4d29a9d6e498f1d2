"""What can go wrong for a user. Each message is one line: what is wrong, where, what to do."""


class TraceAnalyzerError(Exception):
    """The input cannot be analysed; the command line turns it into one line and exit status 1."""


class UnreadableInputError(TraceAnalyzerError):
    """The file is missing, empty, of no known kind, or too damaged to hold a single event."""


class OutsideError(TraceAnalyzerError):
    """The file lies outside the folders that may be read."""


class EmptyRecordingError(TraceAnalyzerError):
    """The file is a recording, but holds nothing that the question can be answered from."""


class SeveralRunsError(TraceAnalyzerError):
    """The recordings are not ranks of one run: an answer would be for one of them, and look as if
    it were for all."""


class RefusedSnapshotError(UnreadableInputError):
    """The file is no memory snapshot that can be read safely: a pickle that does more than state
    plain values."""
