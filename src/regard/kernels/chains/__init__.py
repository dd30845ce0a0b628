"""Kernels and operators of linear chains: marginals, samples, best paths."""
