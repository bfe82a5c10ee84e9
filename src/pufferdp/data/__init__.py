"""Series and records from files and frames: sorted, split at gaps, counted in the engine that holds the rows."""
