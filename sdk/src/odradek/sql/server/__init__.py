"""ksqlDB's REST API over stream SQL: one Spark driver runs the persistent queries of many requests.

    POST /ksql ──app.py──> service.py ──plan──> script.py
                              │  └─write──> command_log.py (a compacted topic: what a restarted server runs again)
                              └─perform──> on_spark.py (queries), supervisor.py (those that fail start again)
    POST /query, /query-stream, GET /ws/query ──> transient.py ──rows──> answers.py

Source: ksqlDB's REST API reference; what differs is in docs/SQL.md.
"""
