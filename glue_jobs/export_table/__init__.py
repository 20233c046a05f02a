"""A topic to Parquet or Apache Iceberg, exactly once."""
