"""One private answer: queries, mechanisms, plan, release."""
