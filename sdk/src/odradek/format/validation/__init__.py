"""Checks of produced batches before a server stores them.

batches.py    headers, CRC, and the records one by one
runs.py       records that are alike, many at a time
"""
