"""Models on disk: JSON, BIF networks, PED pedigrees, one model a person."""
