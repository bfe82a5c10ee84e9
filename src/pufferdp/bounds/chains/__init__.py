"""Markov chains: powers, starts, mixing, hidden paths, sums."""
