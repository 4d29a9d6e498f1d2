"""Runs that were never made."""
