"""Where a ledger keeps its rows: SQLite or PostgreSQL."""
