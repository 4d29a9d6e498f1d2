"""Predictions that are kept: beside the model of a recording (`predicted`), and as a report leaves them
for `whatif` (`left`)."""
