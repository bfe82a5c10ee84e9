"""How a tight curve is worked out: one way for each kind of chain, all with the same verbs."""
