"""Runs kept in a SQLite file: stored by `analyze --store`, listed by `history`, read back by
reference."""
