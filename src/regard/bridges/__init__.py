"""Bridges to models of other libraries."""
