def test_train() -> None:
    assert 1 + 1 == 2
