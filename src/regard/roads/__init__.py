"""Roads: ways to the same context. The plain one is the definition; `choose` takes the fastest there is."""
