"""Commands around the answers: recording, meanings, schemas, the cache, the shell, agents."""
