"""Beliefs about how records are generated, and classes of them."""

from pufferdp.models.classes import BinaryInterval, MarkovClass, MarkovInterval, Model
from pufferdp.models.files import load_model, model_digest, model_from_dict, model_to_dict, save_model
from pufferdp.models.markov import MarkovChain

__all__ = [
    "BinaryInterval",
    "MarkovChain",
    "MarkovClass",
    "MarkovInterval",
    "Model",
    "load_model",
    "model_digest",
    "model_from_dict",
    "model_to_dict",
    "save_model",
]
