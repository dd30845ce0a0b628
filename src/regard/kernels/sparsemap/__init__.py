"""Kernels and operators of SparseMAP: the active set method, and structures with a faster one."""
