"""What several models are built from."""
