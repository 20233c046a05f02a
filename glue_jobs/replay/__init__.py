"""A table into a topic in the order and at the pace at which it happened."""
