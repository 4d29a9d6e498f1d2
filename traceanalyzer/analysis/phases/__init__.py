"""Phases of a step: which there are, what they are for, and what belongs to each."""
