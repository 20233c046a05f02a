"""Typed columns: what schemas say of values, and values to columns.

arrow_kinds.py                          the types (model/kinds.py) as Arrow's
avro_values.py, protobuf_values.py      fields of a schema, and values to data
json_schemas.py, json_values.py         the same of JSON
schema_prefix.py                        the id of a schema before a value
fitting.py                              data to values of a type
typed_values.py                         chunks of values to columns
"""
