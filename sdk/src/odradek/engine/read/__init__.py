"""Reads of a log: fetch, offsets by time, epoch ends; and DeleteRecords, which moves the log start.

log_reader.py finds the index row or tail entry of an offset; segment_reader.py and timestamp_lookup.py read segments
through their offset indexes.
"""
