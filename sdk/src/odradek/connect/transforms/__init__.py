"""Single message transforms and predicates, those of Apache Kafka and some of Confluent's, under their names."""
