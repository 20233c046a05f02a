"""Records that are made up: shapes as Avro schemas say them, choices that repeat, and the source."""
