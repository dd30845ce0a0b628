"""The tight loops. Importing this package imports nothing; the first kernel that runs brings in Numba."""
