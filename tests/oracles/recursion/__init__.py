"""The tight bound by one algorithm, independent of the product's: a pass at many μ, chords, and a search."""
