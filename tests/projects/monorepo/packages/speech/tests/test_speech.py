def test_speech() -> None:
    assert "speech"
