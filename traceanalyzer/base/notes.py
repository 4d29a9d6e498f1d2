"""Notes on a recording."""


class Aside(str):
    """A note that changes nothing one would do: it stands in the whole report, not on the first screen."""
