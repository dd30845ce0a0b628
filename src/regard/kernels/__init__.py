"""Compiled loops by family, each beside its operator. Numba is imported when the first kernel runs."""
