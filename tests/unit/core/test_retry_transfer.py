from __future__ import annotations

from collections.abc import Callable

import pytest

from aml_train.core.errors import ImageError
from aml_train.core.events import Event, Notice
from aml_train.core.retry import TransferInterruptedError, retry
from aml_train.core.threads import CancelToken, WorkCancelledError


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aml_train.core.retry.PAUSES", (0.0, 0.0))


class Engine:
    """Breaks off so many times, then succeeds."""

    def __init__(self, breaks: int) -> None:
        self.breaks = breaks
        self.log: list[str] = []
        self.notices: list[str] = []

    def work(self) -> str:
        self.log.append("work")
        if self.log.count("work") <= self.breaks:
            raise TransferInterruptedError("the push of x failed: unauthorized", hint="Look.")
        return "done"

    def note(self, what: str) -> Callable[[], None]:
        return lambda: self.log.append(what)

    def listen(self, event: Event) -> None:
        assert isinstance(event, Notice)
        assert event.level == "warning"
        self.notices.append(event.text)

    def run(self, *, check: Callable[[], object] | None = None, token: CancelToken | None = None) -> str:
        return retry(
            self.work,
            check=check or self.note("check"),
            renew=self.note("renew"),
            listener=self.listen,
            token=token or CancelToken(),
        )


def test_what_breaks_off_is_done_again_with_new_credentials() -> None:
    engine = Engine(2)
    assert engine.run() == "done"
    assert engine.log == ["work", "renew", "check", "work", "renew", "check", "work"]
    assert engine.notices == [
        f"the push of x failed: unauthorized. Retrying in 0 s: attempt {number} of 3." for number in (2, 3)
    ]


def test_the_last_failure_is_raised() -> None:
    engine = Engine(9)
    with pytest.raises(TransferInterruptedError, match=r"the push of x failed: unauthorized \(3 attempts\)\nLook\."):
        engine.run()
    assert engine.log.count("work") == 3


def test_a_refusal_from_here_ends_it() -> None:
    def check() -> None:
        raise ImageError("the registry refused: HTTP 403", hint="Get the role.")

    engine = Engine(9)
    with pytest.raises(ImageError, match=r"refused: HTTP 403\nBefore that, the push .*unauthorized\nGet the role\."):
        engine.run(check=check)
    assert engine.log == ["work", "renew"]


def test_it_can_be_stopped() -> None:
    token, engine = CancelToken(), Engine(9)

    def work() -> str:
        token.cancel()
        return engine.work()

    with pytest.raises(WorkCancelledError):
        retry(work, check=engine.note("check"), renew=engine.note("renew"), listener=engine.listen, token=token)
    assert engine.log == ["work"]
