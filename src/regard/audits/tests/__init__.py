"""The tests of an audit, one per file; each enters itself into AUDITS."""
