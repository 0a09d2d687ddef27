def test_vision() -> None:
    assert "vision"
