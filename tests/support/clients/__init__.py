"""Clients and members as libraries behave, and the records that their tests count."""
