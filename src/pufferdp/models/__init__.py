"""Beliefs about how records are generated, and classes of them."""

from __future__ import annotations

from pufferdp.models.ar1 import Ar1
from pufferdp.models.base import Model, RecordModel
from pufferdp.models.chain import MarkovChain, SeriesModel
from pufferdp.models.chain_classes import BinaryInterval, MarkovClass, MarkovInterval
from pufferdp.models.clock import MarkovClock
from pufferdp.models.files.fleet import load_models
from pufferdp.models.files.json import load_model, model_digest, model_from_dict, model_to_dict, save_model
from pufferdp.models.gaussian import Gaussian, LimitedCorrelation, NumberModel
from pufferdp.models.groups import AnyGroups, Groups
from pufferdp.models.hidden import HiddenMarkov
from pufferdp.models.joint import JointTable
from pufferdp.models.memory import MemoryChain
from pufferdp.models.model_class import ModelClass
from pufferdp.models.network import BayesianNetwork, Node
from pufferdp.models.pedigree import Member, Pedigree

__all__ = [
    "AnyGroups",
    "Ar1",
    "BayesianNetwork",
    "BinaryInterval",
    "Gaussian",
    "Groups",
    "HiddenMarkov",
    "JointTable",
    "LimitedCorrelation",
    "MarkovChain",
    "MarkovClass",
    "MarkovClock",
    "MarkovInterval",
    "Member",
    "MemoryChain",
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
