"""What any DP algorithm leaks on a Markov chain, exactly."""
