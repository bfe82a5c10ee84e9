"""Families: genotypes by enumeration of alleles, PLINK files, model files, every command on a family."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from pufferdp import (
    ModelClass,
    ModelError,
    answer_distribution,
    load_model,
    plan,
    save_model,
)
from pufferdp.models.files.json import model_digest, model_from_dict, model_to_dict
from pufferdp.models.pedigree import GENOTYPES, Member, Pedigree
from pufferdp.models.simulate import sample
from tests.publish.answers.mechanisms.record_suite import written_out
from tests.strategies import examples, pedigrees

FAMILY = (Member("mother"), Member("father"), *(Member(f"child {n}", "father", "mother") for n in (1, 2, 3)))
FIVE = Pedigree(members=FAMILY, major_allele_frequency=0.7)


@given(family=pedigrees())
@settings(max_examples=examples(40))
def test_the_joint_distribution_is_that_of_alleles(family):
    joint, _ = written_out(family)
    everyone = range(len(family.records))
    assert family.joint(list(everyone), {}) == pytest.approx(joint.astype(float), abs=1e-15)
    rows, distribution = family.outcomes()
    assert distribution == pytest.approx([float(joint[tuple(row)]) for row in rows], rel=1e-12)
    assert len(rows) == np.count_nonzero(joint)


def test_founders_and_an_unknown_parent():
    child = Pedigree(members=(Member("a"), Member("b", mother="a")), major_allele_frequency=0.7)
    assert child.distribution("a") == pytest.approx([0.49, 0.42, 0.09])
    assert child.distribution("b") == pytest.approx([0.49, 0.42, 0.09])  # Hardy-Weinberg: generations do not change it
    assert child.distribution("b", given={"a": "BB"}) == pytest.approx([0.7, 0.3, 0.0])
    assert child.distribution("b", given={"a": "Bb"}) == pytest.approx([0.35, 0.5, 0.15])
    assert child.distribution("b", given={"a": "bb"}) == pytest.approx([0.0, 0.7, 0.3])


def test_two_known_parents_follow_the_table_of_the_thesis():
    quarter = [[[4, 0, 0], [2, 2, 0], [0, 4, 0]], [[2, 2, 0], [1, 2, 1], [0, 2, 2]], [[0, 4, 0], [0, 2, 2], [0, 0, 4]]]
    for j, father in enumerate(GENOTYPES):
        for k, mother in enumerate(GENOTYPES):
            found = FIVE.distribution("child 2", given={"father": father, "mother": mother})
            assert (found * 4).tolist() == quarter[j][k]


@pytest.mark.parametrize(("frequency", "distribution"), [(0.0, [0.0, 0.0, 1.0]), (1, [1.0, 0.0, 0.0])])
def test_an_allele_that_is_everywhere_leaves_no_secret(frequency, distribution):
    family = Pedigree(members=FAMILY, major_allele_frequency=frequency)
    assert family.distribution("child 1").tolist() == distribution
    found = plan(family, "count:BB", epsilon=1, adversary="pufferfish").candidate("wasserstein")
    assert found.calibration.sigma == 0


def test_families_are_the_components():
    both = Pedigree(members=(*FAMILY, Member("x"), Member("y", father="x"), Member("z")), major_allele_frequency=0.5)
    assert both.components == ((0, 1, 2, 3, 4), (5, 6), (7,))
    assert both.dependent(0) == 5
    assert repr(both) == "Pedigree(8 records, the largest family has 5; major allele frequency 0.5)"


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([], "members is empty"),
        ([("", None, None)], "id is ''"),
        ([(7, None, None)], "id is 7"),
        ([("a", "a", None)], "'a' is its own father"),
        ([("a", None, "a")], "'a' is its own mother"),
        ([("a", None, None), ("b", "a", "a")], "'a' as father and as mother"),
        ([("a", "", None)], "the father of member 'a' is ''"),
        ([("a", None, None), ("b", "a", "c")], "parent 'c', who is not a member; add this person"),
        ([("a", None, None), ("a", None, None)], "'a' is named twice"),
        ([("a", "b", None), ("b", "c", None), ("c", "a", None)], "round in a circle"),
    ],
)
def test_impossible_families_are_refused(members, words):
    with pytest.raises(ModelError, match=words):
        Pedigree(members=tuple(Member(*m) for m in members), major_allele_frequency=0.5)


@pytest.mark.parametrize("frequency", [-0.1, 1.1, float("nan"), float("inf"), "0.7", True, None, 1e-200])
def test_impossible_frequencies_are_refused(frequency):
    with pytest.raises(ModelError, match="major_allele_frequency is"):
        Pedigree(members=FAMILY, major_allele_frequency=frequency)


def test_other_things_are_refused():
    with pytest.raises(ModelError, match="list of members"):
        Pedigree(members=({"id": "a"},), major_allele_frequency=0.5)
    with pytest.raises(ModelError, match="BB, Bb, bb"):
        Pedigree(members=FAMILY, major_allele_frequency=0.5, values={"BB": 2})


def test_plink_files(tmp_path):
    """Comments, blank lines, tabs and spaces; ids that two families share; six columns or more."""
    file = tmp_path / "two.ped"
    file.write_text(
        "# families\n\nF1 1 0 0 1 0  A A\nF1\t2\t0\t0\t2\t0\tA\tG\nF1 3 1 2 1 2\nF2 1 0 0 1 0 A A\nF2 kid 1 0 2 0 A A\n"
    )
    found = Pedigree.from_ped(file, 0.6, values={"BB": 2, "Bb": 1, "bb": 0})
    assert found.members == (
        Member("F1:1"),
        Member("2"),
        Member("3", "F1:1", "2"),
        Member("F2:1"),
        Member("kid", "F2:1"),
    )
    assert found.values == (2.0, 1.0, 0.0)
    assert found.components == ((0, 1, 2), (3, 4))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("F 1 0 0 1\n", "line 1: the line has 5 columns; it must begin with family, individual"),
        ("F 1 0 0 1 0\nF 2 1 9 1 0\n", "line 2: individual '2' has the mother '9', who has no row in family 'F'; add"),
        ("F 1 0 0 1 0\nG 2 1 0 1 0\n", "the father '1', who has no row in family 'G'"),
        ("F 1 0 0 1 0\nF 1 0 0 1 0\n", "line 2: individual '1' of family 'F' has a row already, line 1"),
        ("F 0 0 0 1 0\n", "the individual is 0"),
        ("F 1 1 0 1 0\n", "line 1: member '1' is its own father"),
        ("F 1 2 0 1 0\nF 2 1 0 1 0\n", "two.ped: the parents go round in a circle"),
        ('"ped" "id" "father" "mother" "sex" "affected"\n', "quotes; take them out"),
        ("# nobody\n\n", "no rows"),
        ("F:G 1 0 0 1 0\nF 1 0 0 1 0\nH G:1 0 0 1 0\nF:G x 0 0 1 0\nF G:1 0 0 1 0\n", "named twice"),
    ],
)
def test_plink_files_that_cannot_be_read(text, words, tmp_path):
    file = tmp_path / "two.ped"
    file.write_text(text)
    with pytest.raises(ModelError, match=words):
        Pedigree.from_ped(file, 0.5)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ModelError, match=r"PED file .* does not exist"):
        Pedigree.from_ped(tmp_path / "none.ped", 0.5)


def test_the_trios(shared_data):
    trios = Pedigree.from_ped(shared_data / "pedigree" / "trios_5q31.ped", 0.7)
    assert len(trios.records) == 120
    assert [len(family) for family in trios.components] == [3] * 40
    assert trios.members[1] == Member("412", "430", "431")
    with pytest.raises(ModelError, match="quotes"):
        Pedigree.from_ped(shared_data / "pedigree" / "sample_ped.tab", 0.7)


def test_model_files(tmp_path):
    whole = replace(FIVE, values={"BB": 2, "Bb": 1, "bb": 0}, fitted={"data": "none"})
    save_model(whole, tmp_path / "family.json")
    back = load_model(tmp_path / "family.json")
    assert isinstance(back, Pedigree)
    assert model_to_dict(back) == model_to_dict(whole)
    assert model_digest(back) == model_digest(whole) != model_digest(FIVE)
    assert model_to_dict(FIVE)["members"][2] == {"id": "child 1", "father": "father", "mother": "mother"}
    (tmp_path / "f.fam").write_text("F 1 0 0 1 0\nF 2 0 0 2 0\nF 3 1 2 1 0\n")
    content = {"type": "pedigree", "ped": "f.fam", "major_allele_frequency": 0.7}
    (tmp_path / "named.json").write_text(json.dumps(content))
    named = load_model(tmp_path / "named.json")
    members = [{"id": 1}, {"id": 2}, {"id": 3, "father": 1, "mother": 2}]
    listed = model_from_dict({"type": "pedigree", "members": members, "major_allele_frequency": 0.7})
    assert model_digest(named) == model_digest(listed)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"major_allele_frequency": 0.5}, "neither members nor ped"),
        ({"members": [], "ped": "x", "major_allele_frequency": 0.5}, "both given"),
        ({"members": [{"id": "a"}]}, "major_allele_frequency is missing"),
        ({"members": [{"id": "a", "sex": 1}], "major_allele_frequency": 0.5}, "sex is not a key"),
        ({"members": [{"father": "a"}], "major_allele_frequency": 0.5}, "id is missing"),
        ({"members": [{"id": "a"}], "major_allele_frequency": 2}, "from 0 to 1"),
        ({"ped": "none.ped", "major_allele_frequency": 0.5}, "names another file"),
    ],
)
def test_model_files_that_cannot_be_read(content, words):
    with pytest.raises(ModelError, match=words):
        model_from_dict({"type": "pedigree", **content})


def test_a_class_of_families(tmp_path):
    other = replace(FIVE, major_allele_frequency=0.4)
    save_model(ModelClass(models=(FIVE, other)), tmp_path / "class.json")
    both = load_model(tmp_path / "class.json")
    assert [model_digest(m) for m in both.models] == [model_digest(FIVE), model_digest(other)]
    asked = {"query": "count:BB", "epsilon": 1, "adversary": "pufferfish"}
    scales = [plan(m, **asked).candidate("wasserstein").calibration.sigma for m in (FIVE, other, both)]
    assert scales[2] == max(scales[:2])
    assert plan(both, **asked).candidate("quilt-exact").calibration


def test_the_distribution_of_an_answer():
    """Parents BB and bb have children Bb; parents BB have children BB."""
    for mother, distribution in (("bb", [0, 1, 0, 0, 0, 0]), ("BB", [0, 0, 0, 0, 0, 1])):
        found = answer_distribution(FIVE, "count:BB", given={"father": "BB", "mother": mother})
        assert found.probabilities == pytest.approx(distribution, abs=1e-12)


def test_draws_follow_the_distribution():
    """20,000 draws; each share is within 5 standard errors: all fifteen, with probability above 1 - 1e-5."""
    drawn = sample(FIVE, 20_000, np.random.default_rng(1), given={"father": "Bb"})
    assert (sample(FIVE.network, 20_000, np.random.default_rng(1), given={"father": "Bb"}) == drawn).all()
    for i, record in enumerate(FIVE.records):
        distribution = FIVE.distribution(record, given={"father": "Bb"} if record != "father" else {})
        distribution = np.eye(3)[1] if record == "father" else distribution
        shares = np.bincount(drawn[:, i], minlength=3) / len(drawn)
        assert (abs(shares - distribution) <= 5 * np.sqrt(distribution * (1 - distribution) / len(drawn))).all()
