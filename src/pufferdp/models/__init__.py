"""Beliefs about how records are generated, and classes of them."""

from pufferdp.models.classes import BinaryInterval, MarkovClass, MarkovInterval, Model, NumberModel, SeriesModel
from pufferdp.models.collection import ModelClass
from pufferdp.models.files import load_model, model_digest, model_from_dict, model_to_dict, save_model
from pufferdp.models.fleets import load_models
from pufferdp.models.gaussian import Gaussian, LimitedCorrelation
from pufferdp.models.groups import AnyGroups, Groups
from pufferdp.models.joint import JointTable
from pufferdp.models.markov import MarkovChain
from pufferdp.models.network import BayesianNetwork, Node
from pufferdp.models.pedigree import Member, Pedigree
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
    "Member",
    "Model",
    "ModelClass",
    "Node",
    "NumberModel",
    "Pedigree",
    "RecordModel",
    "SeriesModel",
    "load_model",
    "load_models",
    "model_digest",
    "model_from_dict",
    "model_to_dict",
    "save_model",
]
