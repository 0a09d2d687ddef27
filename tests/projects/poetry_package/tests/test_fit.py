from tides.train import fit


def test_fit():
    assert 0 < fit(1) < 1
