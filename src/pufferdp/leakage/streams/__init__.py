"""What a stream leaks that spends DP at each step."""
