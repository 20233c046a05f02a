"""Change capture of PostgreSQL by logical replication (pgoutput)."""
