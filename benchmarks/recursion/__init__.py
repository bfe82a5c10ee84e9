"""One recursion and one search for the tight bound: the algorithm that is to replace ``pufferdp.bounds.tight``.

It is complete, and checked against linear programmes and against the present code in
tests/bounds/tight/test_recursion.py. It is slower than the present code for chains of many states. ``recursion``
follows one side of a record, ``search`` narrows brackets, ``series`` says which records are attacked, and ``chain`` has
the bound and its inverse.
"""
