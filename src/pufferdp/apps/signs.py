"""Signs of ours in words, for terminals that cannot print them."""

from __future__ import annotations

import codecs
import io
from typing import Final

ERRORS: Final = "pufferdp"
"""The name under which ``spell`` is registered."""

_WORDS: Final = {
    "−": "-", "–": "-", "·": "*", "…": "...", "×": "x", "±": "+-", "½": "1/2", "²": "^2", "³": "^3", "⁸": "^8",
    "⁻": "^-", "₁": "_1", "≤": "<=", "≥": ">=", "≠": "!=", "∞": "infinity", "√": "sqrt", "‖": "||", "∝": "~",
    "→": "->", "←": "<-", "↦": "->", "⇔": "<=>", "⊇": ">=", "⊕": "+", "⌊": "floor(", "⌋": ")", "ᵀ": "^T",
    "«": "<<", "»": ">>", "─": "-", "│": "|", "├": "|", "└": "`", "█": "#", "░": ".",
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "η": "eta", "θ": "theta", "κ": "kappa",
    "λ": "lambda", "μ": "mu", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "Γ": "Gamma", "Δ": "Delta",
    "Θ": "Theta", "Σ": "Sum", "Φ": "Phi",
}  # fmt: skip


def spell(error: UnicodeError) -> tuple[str | bytes, int]:
    """A handler for codecs: signs of ours in words, other characters escaped, so that none is lost."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_WORDS.get(c) or c.encode("ascii", "backslashreplace").decode() for c in text), error.end


def teach(*streams: object) -> None:
    """Have streams spell what they cannot print."""
    codecs.register_error(ERRORS, spell)
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ERRORS)
