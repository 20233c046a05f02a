"""A topic without the records that came twice."""
