from tides.model import fit


def test_fit():
    assert fit([1.0, 3.0]) == 2.0
