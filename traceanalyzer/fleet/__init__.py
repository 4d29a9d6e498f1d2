"""Answers about jobs of many ranks."""
