"""What every layer uses, and what uses none of them."""
