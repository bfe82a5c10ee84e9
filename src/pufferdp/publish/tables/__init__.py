"""Tables: one or several questions, asked of every group of records at once, for one guarantee."""
