"""Schemas of Protobuf: .proto files as values, from their text and from descriptors, and Confluent's options."""
