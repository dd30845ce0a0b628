"""Shapes and checks, errors, registry."""
