"""azureml-core's part of run history: queries, events, tokens, tags."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from aml_emulator.api.routing import Answers, Call, Route, in_transaction
from aml_emulator.api.run_shapes import experiment_view, run_of, run_routes, run_view
from aml_emulator.api.shapes import cut, iso, listed
from aml_emulator.context import Context
from aml_emulator.domain.errors import InvalidError, NotSupportedError
from aml_emulator.domain.jobs.compute import compute_name
from aml_emulator.domain.jobs.service import JobService
from aml_emulator.domain.runs import RUN_SHAPE, known_experiment, put_run
from aml_emulator.reading import whole
from aml_emulator.schema import TEXT, WHOLE, WORD, WORDS, Either, Fields, ListOf
from aml_emulator.store.runs import Experiment, Run

Lookup = Callable[[str], str | None]
"""Gives a field of a run, such as ``Status`` or ``Tags/name``; None where it has none."""

Predicate = Callable[[Lookup], bool]

_TOKEN = re.compile(r"""\s*(?:(\()|(\))|"((?:[^"\\]|\\.)*)"|'((?:[^']|'')*)'|([^\s()"'][^\s()]*))""")
_OPERATORS: Mapping[str, Callable[[int], bool]] = {
    "eq": lambda order: order == 0,
    "ne": lambda order: order != 0,
    "gt": lambda order: order > 0,
    "ge": lambda order: order >= 0,
    "lt": lambda order: order < 0,
    "le": lambda order: order <= 0,
}


def predicate(text: str) -> Predicate:
    """Return a function that says whether a run passes the filter.

    An empty one passes all.

    Raises:
        InvalidError: it is none; the message says where it stops making sense.
    """
    parser = _Parser(text)
    if not parser.tokens:
        return lambda lookup: True
    found = parser.either()
    if parser.tokens:
        raise InvalidError(f"The filter ends before '{parser.tokens[0][1]}': {text}")
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self.tokens: list[tuple[str, str]] = []
        at = 0
        stripped = text.rstrip()
        while at < len(stripped):
            match = _TOKEN.match(stripped, at)
            if match is None:
                raise InvalidError(f"The filter cannot be read from '{stripped[at : at + 20]}' on: {text}")
            opened, closed, double, single, bare = match.groups()
            if opened or closed:
                self.tokens.append(("mark", opened or closed))
            elif bare is not None:
                self.tokens.append(("word", bare))
            else:
                self.tokens.append(("text", double if double is not None else single.replace("''", "'")))
            at = match.end()

    def either(self) -> Predicate:
        terms = [self._all()]
        while self._take("word", "or"):
            terms.append(self._all())
        return terms[0] if len(terms) == 1 else lambda lookup: any(term(lookup) for term in terms)

    def _all(self) -> Predicate:
        terms = [self._term()]
        while self._take("word", "and"):
            terms.append(self._term())
        return terms[0] if len(terms) == 1 else lambda lookup: all(term(lookup) for term in terms)

    def _term(self) -> Predicate:
        if self._take("mark", "("):
            inner = self.either()
            if not self._take("mark", ")"):
                raise InvalidError(f"A parenthesis is not closed: {self._text}")
            return inner
        field, operator = self._next(), self._next()
        if operator[1] not in _OPERATORS:
            raise InvalidError(f"'{operator[1]}' compares nothing: {self._text}")
        words = [self._next()]
        # A time without quotes may hold a space.
        while words[0][0] == "word" and self.tokens and self._is_value(self.tokens[0]):
            words.append(self._next())
        value = None if words == [("word", "null")] else " ".join(word for _, word in words)
        return _comparison(field[1], operator[1], value)

    def _is_value(self, token: tuple[str, str]) -> bool:
        return token[0] == "word" and token[1] not in ("and", "or")

    def _next(self) -> tuple[str, str]:
        if not self.tokens or self.tokens[0][0] == "mark":
            raise InvalidError(f"A comparison is not whole: {self._text}")
        return self.tokens.pop(0)

    def _take(self, kind: str, word: str) -> bool:
        if self.tokens and self.tokens[0] == (kind, word):
            self.tokens.pop(0)
            return True
        return False


def _comparison(field: str, operator: str, value: str | None) -> Predicate:
    holds = _OPERATORS[operator]

    def compare(lookup: Lookup) -> bool:
        known = lookup(field)
        if known is None or value is None:
            return operator in ("eq", "le", "ge") if known is value else operator == "ne"
        left, right = _comparable(known), _comparable(value)
        if isinstance(left, datetime) and isinstance(right, datetime):
            return holds((left > right) - (left < right))
        return holds((known > value) - (known < value))

    return compare


def _comparable(text: str) -> datetime | str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


PAGE = 500
TOKEN_HOURS = 24

CANCEL = "/studioservice/apiv2/subscriptions/{sub}/resourceGroups/{rg}/workspaces/{ws}/runs/{run}/Cancel"
"""The address by which azureml-core cancels a job, as its run shows it."""

EVENT = Fields({"name": WORD, "data": Fields({"RunId": WORD})})


def routes(context: Context, jobs: JobService) -> Sequence[Route]:
    """Return the routes of run history that azureml-core alone uses."""
    runs = Runs(context, jobs)
    base = "/history/v1.0{WS}"
    return [
        Route("POST", f"{base}/experiments/{{experiment}}/runs:query", runs.query),
        Route("PATCH", f"{base}/experiments/{{experiment}}/batch/runs", runs.batch),
        Route("POST", f"{base}/experiments/{{experiment}}/batch/events", runs.batch_events),
        Route("POST", f"{base}/experiments:query", runs.experiments),
        Route("PATCH", f"{base}/experimentids/{{experiment_id}}", runs.change_experiment),
        Route("POST", CANCEL, runs.cancel),
        *run_routes(
            ("POST", "/events", runs.event),
            ("GET", "/token", runs.token),
            ("DELETE", "/tags", runs.delete_tags),
            ("GET", "/metricsingest/wait", runs.ingested),
        ),
    ]


class Runs(Answers):
    """Answers for runs as azureml-core keeps them."""

    def __init__(self, context: Context, jobs: JobService) -> None:
        super().__init__(context)
        self._jobs = jobs

    # Finding

    def query(self, call: Call) -> dict[str, Any]:
        """Return runs of an experiment that match a filter, in the requested order."""
        fields = {"filter": WORD, "orderby": Either(TEXT, ListOf(TEXT)), "continuationToken": WORD, "top": WHOLE}
        body = call.json(Fields(fields))
        wanted = predicate(str(body.get("filter") or ""))
        experiment = self._context.store.runs.experiment(call.params["experiment"])
        found = self._context.store.runs.runs_of((experiment.id,)) if experiment else []
        runs = [run for run in found if not run.deleted and wanted(partial(_field, run))]
        order = body.get("orderby") or ""
        name, _, direction = (order[0] if isinstance(order, list) and order else str(order)).partition(" ")
        if name:
            runs.sort(key=lambda run: (_field(run, name) or "", run.created), reverse=direction.lower() == "desc")
        offset, top = _offset(body.get("continuationToken")), int(body.get("top") or PAGE)
        shown, following = cut(runs, offset, max(1, min(top, PAGE)))
        return {**listed([run_view(self._context, run) for run in shown], following), "nextLink": None}

    def experiments(self, call: Call) -> dict[str, Any]:
        """Return the experiments."""
        body = call.json(Fields({"filter": WORD}))
        wanted = predicate(str(body.get("filter") or ""))
        known = self._context.store.runs.experiments()
        found = [
            experiment_view(self._context, one.name) for one in known if wanted(partial(_field_of_experiment, one))
        ]
        return {**listed(found), "nextLink": None}

    def change_experiment(self, call: Call) -> dict[str, Any]:
        """Set tags of an experiment."""
        experiment = known_experiment(self._context, guid=call.params["experiment_id"])
        changes = call.json(Fields({"tags": WORDS}))
        if changes.get("archive") is not None:
            raise NotSupportedError("archiving experiments")
        tags = {key: str(value) for key, value in (changes.get("tags") or {}).items()}
        self._context.store.runs.tag_experiment(experiment.id, tags)
        return experiment_view(self._context, experiment.name)

    # Changing

    def batch(self, call: Call) -> dict[str, Any]:
        """Make or change several runs."""
        made = [
            put_run(self._context, str(given.get("runId")), given, experiment=call.params["experiment"])
            for given in call.json(Fields({"runs": ListOf(RUN_SHAPE)})).get("runs") or ()
        ]
        return {"runs": {run.id: run_view(self._context, run) for run in made}, "errors": {}}

    def event(self, call: Call) -> dict[str, Any]:
        """Hear what a client says of a run."""
        self._jobs.report_event(run_of(self._context, call), _name_of(call.json(EVENT)))
        return {}

    def cancel(self, call: Call) -> dict[str, Any]:
        """Cancel a job."""
        self._jobs.report_event(run_of(self._context, call), "Canceled")
        return {}

    def batch_events(self, call: Call) -> dict[str, Any]:
        """Hear what a client says of several runs."""
        errors = []
        for event in call.json(Fields({"events": ListOf(EVENT)})).get("events") or ():
            run = self._context.store.runs.get(str((event.get("data") or {}).get("RunId")))
            if run is None:
                errors.append({"event": event, "error": {"code": "UserError", "message": "There is no such run."}})
            else:
                self._jobs.report_event(run, _name_of(event))
        return {"errors": errors}

    def token(self, call: Call) -> dict[str, Any]:
        """Return another token for a run that continues."""
        run = run_of(self._context, call)
        expiry = self._context.clock() + TOKEN_HOURS * 3600
        return {"token": self._context.tokens.issue_for_run(run.id), "expiryTimeUtc": iso(expiry)}

    @in_transaction
    def delete_tags(self, call: Call) -> dict[str, Any]:
        """Remove tags of a run."""
        run = run_of(self._context, call)
        shape = ListOf(WORD)
        given = call.value(Either(shape, Fields({"tags": shape}, required=("tags",))), [])
        names = given["tags"] if isinstance(given, dict) else given
        self._context.store.runs.tag(run.id, dict.fromkeys(map(str, names), None))
        return run_view(self._context, self._context.store.runs.require(run.id))

    def ingested(self, call: Call) -> dict[str, Any]:
        """Return when all sent metrics are stored: they are, once answered."""
        run_of(self._context, call)
        return {}


def _name_of(event: Mapping[str, Any]) -> str:
    return str(event.get("name") or "")


def _field(run: Run, name: str) -> str | None:
    """Return a field of a run by the name that filters have for it.

    Raises:
        ServiceError: 501 for a field that is not known here.
    """
    group, slash, key = name.partition("/")
    if slash and group.lower() in ("tags", "properties"):
        return (run.tags if group.lower() == "tags" else run.properties).get(key)
    fields: Mapping[str, str | None] = {
        "runid": run.id,
        "parentrunid": run.parent_id,
        "rootrunid": run.parent_id or run.id,
        "status": run.status,
        "createdutc": iso(run.created),
        "starttimeutc": iso(run.started),
        "endtimeutc": iso(run.ended),
        "runtype": "azureml.scriptrun" if run.job is not None else None,
        "target": compute_name(run),
    }
    if name.lower() not in fields:
        raise NotSupportedError(f"runs by '{name}'")
    return fields[name.lower()]


def _field_of_experiment(experiment: Experiment, name: str) -> str | None:
    """Return a field of an experiment by the name that filters have for it."""
    fields = {"name": experiment.name, "experimentid": experiment.id, "createdutc": iso(experiment.created)}
    fields |= {f"tags/{key}".lower(): value for key, value in experiment.tags.items()}
    return fields.get(name.lower())


def _offset(token: Any) -> int:
    text = str(token or "0")
    number = whole(text)
    if number is None:
        raise InvalidError(f"Not a continuation token of this list: '{text}'")
    return number
