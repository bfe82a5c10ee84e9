"""What every room needs and what needs none of them."""
