"""What a recording is written as for other programs: SQLite, Parquet and DataFrames of its events;
Perfetto."""
