"""Beliefs about how records are generated, and classes of them."""

from pufferdp.models.classes import BinaryInterval, MarkovClass, MarkovInterval, Model, NumberModel, SeriesModel
from pufferdp.models.collection import ModelClass
from pufferdp.models.files import load_model, model_digest, model_from_dict, model_to_dict, save_model
from pufferdp.models.gaussian import Gaussian, LimitedCorrelation
from pufferdp.models.groups import AnyGroups, Groups
from pufferdp.models.joint import JointTable
from pufferdp.models.markov import MarkovChain
from pufferdp.models.network import BayesianNetwork, Node
from pufferdp.models.records import RecordModel

__all__ = [
    "AnyGroups",
    "BayesianNetwork",
    "BinaryInterval",
    "Gaussian",
    "Groups",
    "JointTable",
    "LimitedCorrelation",
    "MarkovChain",
    "MarkovClass",
    "MarkovInterval",
    "Model",
    "ModelClass",
    "Node",
    "NumberModel",
    "RecordModel",
    "SeriesModel",
    "load_model",
    "model_digest",
    "model_from_dict",
    "model_to_dict",
    "save_model",
]
