"""The questions of agents."""
