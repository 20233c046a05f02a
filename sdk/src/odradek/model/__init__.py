"""The vocabulary: frozen dataclasses with Kafka's names. No I/O, no clock, no bytes."""
