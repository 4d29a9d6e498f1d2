"""Figures of a report that other rooms ask for, without any words."""
