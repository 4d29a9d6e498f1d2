"""SQLite files of recorders: opened as untrusted, read in bulk from their pages."""
