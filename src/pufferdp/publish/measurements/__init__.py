"""DP algorithms from outside: an OpenDP measurement, whose loss is carried over to correlated data by a curve."""
