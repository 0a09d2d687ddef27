import unittest


class SuiteTrain(unittest.TestCase):
    def test_nothing(self) -> None:
        self.assertTrue(True)  # noqa: PT009
