"""Change capture: row changes of databases as records, in Debezium's form."""
