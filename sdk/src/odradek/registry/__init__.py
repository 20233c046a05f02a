"""The schema registry: Confluent's REST API over the catalog table, for clients of Confluent's registry.

    HTTP ─> api.py (routes, rights) ─> subjects.py (procedures over the table) ─> rows.py (items)
                                            └─> schemas.py ─> avro.py, json_schema.py, protobuf_*.py   (pure)
                                            └─> compatibility.py ─> compatibility_{avro,json,protobuf}.py (pure)

A function serves it (functions/registry.py) and, for clients that cannot sign, the gateway's plain HTTP port
(gateway/registry_port.py). Parsing and compatibility are implemented here without a library of any schema language, so
the function starts fast and each refusal names its reason.
"""
