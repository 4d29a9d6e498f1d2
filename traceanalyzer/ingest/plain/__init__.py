"""Texts as programs printed them, without what terminals, collectors of logs and locales add."""
