"""Messages in the words of the command line."""

import pytest

from pufferdp.apps.flags import flags


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("name it with order=", "name it with --order"),
        (
            "give either dp_epsilon= (what was spent) or target=",
            "give either --dp-epsilon (what was spent) or --target",
        ),
        ("use missing='keep'.", "use --missing keep."),
        ("clip it with clip=(A, B), or not", "clip it with --clip A B, or not"),
        ("as with epsilon=0.25, mechanism='quilt-exact'", "as with --epsilon 0.25 --mechanism quilt-exact"),
        ("read a segment with first= and last=, or", "read a segment with --from and --to, or"),
        ("say overwrite=True", "say --overwrite"),
        ("as in lengths=[3, 3]", "as in --lengths 3,3"),
        ("(fit it with column='a,b')", "(fit it with --column a,b)"),
        ("eta=0.1, privacy='joint', centre_only=True", "--eta 0.1 --privacy joint --centre-only"),
        ("bins= and by=", "--bins and --by"),
        (
            "plan it with plan_flow(), release it with flow()",
            "plan it with pufferdp plan --query flow, release it with pufferdp flow",
        ),
        ("postgresql://host/db?table=NAME", "postgresql://host/db?table=NAME"),
        ("see text(verbose=True) or to_dict() for the reasons", "see --verbose or --json for the reasons"),
        ("ask with Ledger.find('token/1')", "ask with ledger show --charge token/1"),
        ("look with Ledger.verify(head='ab12')", "look with ledger verify --head ab12"),
        ("look with Ledger.verify(head=…) whether", "look with ledger verify --head HEAD whether"),
        ("look with Ledger.dataset()", "look with ledger show"),
        ("x == y", "x == y"),
        ("dataset is 'by=3'", "dataset is 'by=3'"),
    ],
)
def test_parameters_become_options(message, shown):
    assert flags(message) == shown
