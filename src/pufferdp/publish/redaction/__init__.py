"""A series published but for what gives private records away."""
