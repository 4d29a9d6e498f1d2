"""The slowdown of a pipelined job from a log of its operations."""
