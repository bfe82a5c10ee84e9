"""Chakrabarti et al. 2020, section 3.3: the loss of an endless series whose flips are a Markov chain themselves.

An output is the data XOR a second chain. Once it is seen, the weights of x = 0 and x = 1 move from record to record by
a table P(x,x')·N(x⊕z, x'⊕z') of the outputs z, z' on both sides of the step, and their ratio by a monotone Möbius map:
the largest and the smallest ratio for either current output follow from those one step before. Chains of two states
are the same in both directions of time, so both sides of a record carry the same evidence. An adversary who knows a
record knows its noise too: nothing beyond it matters, and what the record says by itself is divided out.
"""

from __future__ import annotations

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats
from pufferdp.models.chain import MarkovChain


def noise_chain_loss(data: MarkovChain, noise: MarkovChain, adversary: Adversary, records: int = 4096) -> float:
    """The largest log-likelihood ratio, for two stationary chains all of whose steps are possible.

    At most so many records are passed on either side, and no more once another one changes nothing.
    """
    moves, flips = np.log(data.transition), np.log(noise.transition)
    flip = np.bitwise_xor.outer(np.arange(2), np.arange(2))  # [output, value]: the noise
    tables = moves + flips[flip[:, None, :, None], flip[None, :, None, :]]  # [new output, old output, new x, old x]
    nearest, evidence = np.tile([np.inf, -np.inf], (2, 1)), np.array(np.inf)
    prior = np.zeros(1)
    if adversary is Adversary.BDP:  # two more starts: the nearest record is known to be 0, or to be 1
        prior = np.array([0.0, np.inf, -np.inf])
    ratios = np.broadcast_to(prior[:, None, None], (len(prior), 2, 2))  # [start, output, smallest and largest]
    for _ in range(records):
        moved = _mobius(tables[:, :, None], ratios[:, None])
        ratios, prior = np.stack([moved.min(axis=(2, 3)), moved.max(axis=(2, 3))], axis=2), _mobius(moves, prior)
        before, evidence = evidence, ratios - prior[:, None, None]
        nearest = _union([nearest, *evidence[1:]])
        if np.abs(evidence - before).max() < 1e-14:
            break
    span = _union([evidence[0], nearest])
    own = np.log(noise.stationary)[flip]  # what the noise of the record itself says
    both = 2 * span + (own[:, 0] - own[:, 1])[:, None]
    return float(np.abs(both).max())


def _mobius(logs: Floats, ratio: Floats) -> Floats:
    """Log of (a·R+b)/(c·R+d) for R = exp(ratio), 0 and infinity included, from logs [..., new x, old x]."""
    zero, one = np.minimum(ratio, 0.0), np.minimum(-ratio, 0.0)
    top, bottom = (np.logaddexp(logs[..., x, 0] + zero, logs[..., x, 1] + one) for x in (0, 1))
    return np.asarray(top - bottom)


def _union(spans: list[Floats]) -> Floats:
    """The smallest and the largest ratio of all, output by output."""
    each = np.array(spans)
    return np.stack([each[..., 0].min(axis=0), each[..., 1].max(axis=0)], axis=1)
