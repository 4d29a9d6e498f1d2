"""Step times of many ranks over days: kept as Parquet, asked for levels, drift, stops and who is
behind."""
