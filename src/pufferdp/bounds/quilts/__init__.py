"""Markov quilts: the records that screen one record off from the rest."""
