"""Neural attention you can swap, train, see and question."""
