"""What any DP algorithm leaks about records that are drawn from the states of a hidden chain."""
