"""Long series that are followed record by record: any law of the first record, and chains that never forget."""
