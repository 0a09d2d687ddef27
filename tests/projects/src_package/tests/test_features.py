from src.features import scale


def test_scale():
    assert scale([1, 2])[1] == 1
