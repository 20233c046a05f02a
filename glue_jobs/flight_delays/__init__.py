"""Departure delays of the three New York airports by hour, joined with the weather and the airline."""
