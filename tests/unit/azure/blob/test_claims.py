"""Claims of image addresses: one of several wins, whatever happens in between."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.azure.blob.claims import BlobClaims
from aml_train.core.errors import InvalidError, ServiceError
from tests.support.memory_storage import MemoryStorage

NAME = "r.azurecr.io/team/image/addr-1"
BLOB = f"aml-train/images/{NAME}"


def digest(number: int) -> str:
    return f"sha256:{number:064x}"


def never(_other: str) -> bool:
    return False


def claims(storage: MemoryStorage) -> BlobClaims:
    return BlobClaims(lambda: storage)


def test_the_first_claim_stays() -> None:
    storage = MemoryStorage()
    assert claims(storage).claim(NAME, digest(1), replaces=never) == digest(1)
    assert claims(storage).claim(NAME, digest(2), replaces=never) == digest(1)
    assert storage.contents() == {BLOB: digest(1).encode()}


def test_an_earlier_claim_is_replaced_on_request() -> None:
    storage = MemoryStorage()
    claims(storage).claim(NAME, digest(1), replaces=never)
    assert claims(storage).claim(NAME, digest(2), replaces=lambda other: other == digest(1)) == digest(2)
    assert claims(storage).claim(NAME, digest(1), replaces=never) == digest(2)


@pytest.mark.parametrize("content", [b"", b"null", b"\xff\xfe", b"sha256:1", b"x" * 4096])
def test_a_blob_that_is_no_claim_is_replaced(content: bytes) -> None:
    storage = MemoryStorage().fill([BLOB], content)
    assert claims(storage).claim(NAME, digest(1), replaces=never) == digest(1)


def test_a_write_whose_answer_is_lost_is_a_claim() -> None:
    """The SDK repeats it, and the storage refuses the second one."""
    storage = MemoryStorage()

    def lost(what: str, name: str) -> None:
        if what == "put_if":
            storage.fill([name], digest(1).encode())

    storage.fail = lost
    assert claims(storage).claim(NAME, digest(1), replaces=never) == digest(1)


def test_a_claim_that_changes_all_the_time_is_an_error() -> None:
    storage = MemoryStorage()
    counter = iter(range(1, 1000))

    def change(_what: str, name: str) -> None:
        storage.fill([name], digest(next(counter)).encode())

    storage.fail = change
    with pytest.raises(ServiceError, match="it changes at each attempt"):
        claims(storage).claim(NAME, digest(1000), replaces=lambda _other: True)


def test_a_datastore_of_another_kind_is_an_error_of_the_service() -> None:
    def refuse() -> MemoryStorage:
        raise InvalidError("The datastore is no Blob storage.", hint="Choose another.")

    with pytest.raises(ServiceError, match=r"The datastore is no Blob storage\."):
        BlobClaims(refuse).claim(NAME, digest(1), replaces=never)


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=12), min_size=1, max_size=3))
def test_all_claims_in_any_order_of_requests_get_the_same_answer(orders: list[list[int]]) -> None:
    """Four runs take turns at each request to the storage."""
    running, answers = _Turns(4, [number for part in orders for number in part]), dict[int, str]()
    storage = _InTurns(running)

    def run(number: int) -> None:
        running.begin(number)
        answers[number] = claims(storage).claim(NAME, digest(number), replaces=never)
        running.end(number)

    running.run(run)
    assert len(answers) == 4
    assert len(set(answers.values())) == 1


class _InTurns(MemoryStorage):
    """A storage whose clients wait for their turn before each request."""

    def __init__(self, turns: _Turns) -> None:
        super().__init__()
        self._turns = turns

    def content(self, name: str) -> tuple[bytes, str] | None:
        self._turns.wait()
        return super().content(name)

    def put_if(self, name: str, data: bytes, *, etag: str | None) -> bool:
        self._turns.wait()
        return super().put_if(name, data, etag=etag)


class _Turns:
    """Lets one of several threads continue at a time, in a given order, then in their own."""

    def __init__(self, count: int, order: list[int]) -> None:
        self._count, self._order = count, list(order)
        self._changed = threading.Condition()
        self._waiting: set[int] = set()
        self._turn: int | None = None
        self._ended: set[int] = set()
        self._number = threading.local()

    def begin(self, number: int) -> None:
        self._number.value = number
        self.wait()

    def wait(self) -> None:
        """Wait for this thread's turn."""
        number = self._number.value
        with self._changed:
            self._waiting.add(number)
            if self._turn == number:
                self._turn = None
            self._choose()
            self._changed.wait_for(lambda: self._turn == number)
            self._waiting.discard(number)

    def end(self, number: int) -> None:
        with self._changed:
            self._ended.add(number)
            self._turn = None
            self._choose()

    def run(self, work: Callable[[int], None]) -> None:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(self._count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _choose(self) -> None:
        """Give the turn to the next of the order, once all threads wait."""
        if self._turn is not None or len(self._waiting | self._ended) < self._count or not self._waiting:
            return
        while self._order:
            number = self._order.pop(0)
            if number in self._waiting:
                break
        else:
            number = min(self._waiting)
        self._turn = number
        self._changed.notify_all()
