"""Answers for programs that ask one question at a time: short, with units and origins, names quoted
as data."""
