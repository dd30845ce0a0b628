"""Building blocks shared by several models."""
