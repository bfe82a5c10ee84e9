"""What is published: answers, flips, redactions, flows, fits; each made and checked the same way."""
