"""The network: routes requests to services, and lets faults happen to them."""

from __future__ import annotations

import fnmatch
import random
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from requests.structures import CaseInsensitiveDict

from simulation.kernel.decisions import Value
from simulation.kernel.entities import Process
from simulation.kernel.errors import Buried, SimulationError, Violation
from simulation.kernel.exchange import Exchange, HangingConnectError, RefusedError, parts, refused, reset
from simulation.kernel.faults import draw_delay, draw_fault
from simulation.kernel.messages import Handler, Request, Response
from simulation.kernel.scheduler import Kernel

#: Seconds of each way without a delay.
LATENCY: Final = 0.005
#: How many earlier answers to a read a stale one may be.
_REMEMBERED: Final = 5
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, kw_only=True)
class _Service:
    pattern: str
    handler: Handler
    process: Process
    immune: frozenset[str]
    direct: bool


@dataclass(frozen=True, kw_only=True)
class _Fault:
    """A fault of one request, as in the plan: ``refusal 503 5``."""

    kind: str = ""
    arguments: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: Value | None) -> _Fault:
        kind, *arguments = str(text or "").split() or [""]
        return cls(kind=kind, arguments=tuple(arguments))

    def number(self, default: float) -> float:
        """Return the first argument as a number."""
        return float(self.arguments[0]) if self.arguments else default


class Network:
    """The services of a world, by the names of their hosts."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._services: list[_Service] = []
        self._answers: dict[tuple[str, str], list[Response]] = {}
        self._open: dict[Process, list[Exchange]] = {}
        kernel.network = self

    def serve(
        self,
        host: str,
        handler: Handler,
        *,
        process: Process | None = None,
        immune: Collection[str] = (),
        direct: bool = False,
    ) -> None:
        """Let a handler answer the requests to a host.

        Args:
            host: a name, or a pattern such as ``*.blob.core.windows.net``. The longest that matches counts, and the latest of
                equal ones: a process that starts again takes the place of the killed one.
            handler: is called in a separate thread of the process for each request. May raise RefusedError.
            process: of the service; the present one by default.
            immune: faults that do not happen to this service, of :data:`simulation.kernel.faults.FAULTS`.
            direct: it answers in the thread that asks, at once and without faults, as a disk of that process does.
        """
        owner = process or self._kernel.running().process
        service = _Service(
            pattern=host.lower(), handler=handler, process=owner, immune=frozenset(immune), direct=direct
        )
        self._services.insert(0, service)
        if owner not in self._open:
            self._open[owner] = []
            owner.on_death.append(partial(self._reset_all, owner))

    def _reset_all(self, process: Process) -> None:
        """Reset the connections of a process that has ended."""
        for exchange in self._open[process]:
            self._kernel.after(LATENCY, partial(exchange.fail, reset()))

    def _service(self, url: str) -> _Service | None:
        host = (urlsplit(url).hostname or "").lower()
        found = [each for each in self._services if fnmatch.fnmatchcase(host, each.pattern)]
        return max(found, key=lambda each: len(each.pattern), default=None)

    # The client's side

    def send(self, request: Request, *, connect: float | None, read: float | None) -> Exchange:
        """Send a request; return when the answer begins to arrive.

        Args:
            request: the request; its sender is the running thread.
            connect, read: the client's time-outs in seconds.

        Raises:
            RefusedError, HangingConnectError, TimedOutError, OSError: what became of it.
        """
        kernel = self._kernel
        task = kernel.running()
        service = self._service(request.url)
        if service is not None and service.direct:
            return self._at_once(service, request)
        task.requests += 1
        key = f"request:{task.name}:{task.requests}"
        kernel.point("send")
        place = f"{request.method} {request.url}"
        self._trace(task.name, "request", f"{place} ({len(request.body)} bytes)")
        if service is None:
            raise RefusedError(-2, f"Name or service not known: {urlsplit(request.url).hostname}")

        def draw(rng: random.Random) -> Value | None:
            return draw_fault(rng, kernel.profile, service.immune)

        fault = _Fault.parse(kernel.decisions.choose(f"{key}:fault", draw))
        out, back = (self._delay(f"{key}:{way}") for way in ("out", "back"))
        if fault.kind and fault.kind != "stale":
            self._trace(task.name, "fault", f"{' '.join((fault.kind, *fault.arguments))}: {place}")
        if fault.kind == "refused":
            kernel.sleep(out)
            raise refused()
        if fault.kind == "connect-hangs":
            self._hang(connect)
            raise HangingConnectError
        exchange = Exchange(kernel, task)
        if fault.kind == "request-lost":
            kernel.after(out, partial(exchange.fail, reset()))
        elif fault.kind != "request-hangs":
            kernel.after(out, partial(self._arrive, request, exchange, fault, back, key))
        if fault.kind == "duplicated":
            unanswered = Exchange(kernel, task)
            unanswered.given_up = True
            later = out + fault.number(0.0)
            kernel.after(
                later, partial(self._arrive, request, unanswered, _Fault(kind="answer-hangs"), back, f"{key}:again")
            )
        exchange.wait(read)
        self._trace(task.name, "request", f"{exchange.status} for {place}")
        return exchange

    def _at_once(self, service: _Service, request: Request) -> Exchange:
        """Answer in the present thread."""
        response = service.handler(request)
        exchange = Exchange(self._kernel, self._kernel.running())
        exchange.begin(replace(response, headers=_with_length(response)))
        for part in () if request.method == "HEAD" else parts(response.body):
            exchange.feed(part)
        exchange.finish()
        return exchange

    def _delay(self, key: str) -> float:
        drawn = self._kernel.decisions.choose(key, lambda rng: draw_delay(rng, self._kernel.profile))
        return LATENCY + float(drawn or 0.0)

    def _hang(self, seconds: float | None) -> None:
        if seconds is None:
            self._kernel.wait("a connection that hangs")
        else:
            self._kernel.sleep(seconds)

    # The service's side

    def _arrive(self, request: Request, exchange: Exchange, fault: _Fault, back: float, key: str) -> None:
        """A request arrives, whether the client is still alive or not."""
        kernel = self._kernel
        service = self._service(request.url)
        if service is None or not service.process.alive:
            self._trace(request.sender, "request", f"no process answers {request.method} {request.url}")
            kernel.after(back, partial(exchange.fail, refused()))
            return
        if exchange.given_up:
            request = replace(request, late=True)
        name = "answers " + key.removeprefix("request:")
        self._open[service.process].append(exchange)
        kernel.spawn(service.process, name, partial(self._handle, service, request, exchange, fault, back))

    def _handle(self, service: _Service, request: Request, exchange: Exchange, fault: _Fault, back: float) -> None:
        """Answer a request, in a thread of the service."""
        kernel = self._kernel
        place = f"{request.method} {request.url}"
        kernel.point("arrive")
        refusal = _refusal(fault)
        if refusal is not None and fault.kind == "refusal":
            response = refusal
        else:
            try:
                response = self._call(service, request, place)
            except RefusedError as error:
                kernel.after(back, partial(exchange.fail, error))
                self._open[service.process].remove(exchange)
                return
            if request.method not in _READS:
                kernel.changed(f"{service.process.label} answered {response.status} to {place}")
            response = refusal or self._remembered(request, response, fault)
        exchange.answered = True
        self._trace(kernel.running().name, "request", f"answers {response.status} to {place}")
        if fault.kind == "answer-lost":
            kernel.after(back, partial(exchange.fail, reset()))
        elif fault.kind != "answer-hangs":
            self._answer(request, exchange, response, fault, back)
        self._open[service.process].remove(exchange)

    def _call(self, service: _Service, request: Request, place: str) -> Response:
        try:
            return service.handler(request)
        except (Violation, Buried, RefusedError):
            raise
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            raise Violation("no-crash", f"{service.process.label} failed at {place}\n{text}") from error

    def _remembered(self, request: Request, response: Response, fault: _Fault) -> Response:
        """Return the answer, or an earlier one to the same read."""
        if request.method != "GET" or response.status != 200 or not isinstance(response.body, bytes):
            return response
        earlier = self._answers.setdefault((request.method, request.url), [])
        age = int(fault.number(1)) if fault.kind == "stale" else 0
        given = earlier[-age] if 0 < age <= len(earlier) else response
        if given != response:
            self._trace(request.sender, "fault", f"stale: the answer before {age} others to GET {request.url}")
        earlier.append(response)
        del earlier[:-_REMEMBERED]
        return given

    def _answer(self, request: Request, exchange: Exchange, response: Response, fault: _Fault, back: float) -> None:
        """Send an answer to the client, part by part."""
        kernel = self._kernel
        whole = isinstance(response.body, bytes)
        exchange.streamed = not whole
        kernel.after(back, partial(exchange.begin, replace(response, headers=_with_length(response))))
        size = len(response.body) if isinstance(response.body, bytes) else 0
        limit = int(size * fault.number(50) / 100) if fault.kind in ("truncated", "stalled") else None
        for part in () if request.method == "HEAD" else parts(response.body):
            kernel.after(back, partial(exchange.feed, part if limit is None else part[:limit]))
            if limit is not None:
                break
        if fault.kind == "stalled":
            return  # and the client waits for the rest
        ending: Callable[[], None] = exchange.finish
        if fault.kind == "truncated" and not whole:
            ending = partial(exchange.fail, reset())
        kernel.after(back, ending)

    def _trace(self, who: str, kind: str, text: str) -> None:
        self._kernel.trace.add(self._kernel.now, who, kind, text)


def _with_length(response: Response) -> CaseInsensitiveDict[str]:
    """Return the headers of an answer, with the length of a body that is whole."""
    headers = CaseInsensitiveDict(response.headers)
    if isinstance(response.body, bytes) and "Content-Length" not in headers and "Transfer-Encoding" not in headers:
        headers["Content-Length"] = str(len(response.body))
    return headers


def _refusal(fault: _Fault) -> Response | None:
    """Return the answer of a service, or of a gateway before it, that refuses."""
    if fault.kind not in ("refusal", "late-refusal"):
        return None
    if not fault.arguments:
        raise SimulationError(f"the fault {fault.kind} needs a status")
    status, *after = fault.arguments
    headers = {"Content-Type": "application/json", **({"Retry-After": after[0]} if after else {})}
    body = f'{{"error": {{"code": "{status}", "message": "A fault of the simulation"}}}}'
    return Response(status=int(status), headers=headers, body=body.encode())
