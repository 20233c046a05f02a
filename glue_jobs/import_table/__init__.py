"""Imports Parquet, CSV, JSON and JDBC tables into topics."""
