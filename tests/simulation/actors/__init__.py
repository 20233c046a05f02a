"""Actors: everyone who lives in the world of a run, each with a seeded temper.

common.py holds what they share. Stock clients' producers are in tests/simulation/stock.
"""
