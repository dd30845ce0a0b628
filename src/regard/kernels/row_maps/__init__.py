"""Kernels and operators of maps of scores to weights: rows, and for Sinkhorn matrices."""
