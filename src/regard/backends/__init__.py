"""Backends: implementations of the same context. `plain` is the definition; `dispatch` picks the fastest."""
