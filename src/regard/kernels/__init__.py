"""The tight loops. Importing this package imports nothing; each kernel brings in Numba when it is first used."""
