"""Implementations of the operator and the table in which they are tried."""
