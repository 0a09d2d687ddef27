"""The bodies of notifications: JSON, Slack's and Teams' messages. Pure.

Sources: Slack's Block Kit (https://docs.slack.dev/reference/block-kit/blocks), and the escaping of its text
(https://docs.slack.dev/messaging/formatting-message-text); Adaptive Cards in incoming webhooks of Teams' Workflows
(https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from aml_train.core.answers import json_number
from aml_train.core.text import printable_line

_MOST_RULES: Final = 10
_MOST_METRICS: Final = 10
_MOST_MESSAGE: Final = 1_500
_SIGNS: Final[Mapping[str, str]] = {"met": "✓", "missed": "✗", "warned": "!", "skipped": "·"}
_SLACK: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
#: Signs that Adaptive Cards take for Markdown.
_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]()#+\-!|~>])")


def body_of(kind: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request.

    Args:
        kind: ``json``, ``slack`` or ``teams``.
        document: the payload.
    """
    body = {"slack": _slack, "teams": _teams}.get(kind, dict)(document)
    finite: dict[str, Any] = _finite(body)
    return finite


def _title(document: Mapping[str, Any]) -> str:
    sign = "✓" if document["exit_code"] == 0 else "✗"
    branch = f" on {document['branch']}" if document["branch"] else ""
    return printable_line(f"{sign} {document['project'] or 'aml-train'}{branch}: {document['status']}")


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    job, model = document["job"], document["model"]
    if job:
        yield "Job", job["name"]
    if model:
        yield "Model", f"{model['name']} version {model['version']}"
    if document["commit"]:
        yield "Commit", document["commit"][:12]
    for name, value in list(document["metrics"].items())[:_MOST_METRICS]:
        yield name, f"{value:.6g}"


def _rules(document: Mapping[str, Any]) -> list[str]:
    rules = (document["gate"] or {}).get("rules", [])
    lines = [printable_line(f"{_SIGNS.get(one['verdict'], '·')} {one['reason']}") for one in rules[:_MOST_RULES]]
    return [*lines, f"and {len(rules) - _MOST_RULES} more rules"] if len(rules) > _MOST_RULES else lines


def _message(document: Mapping[str, Any]) -> str:
    return str(document["message"])[:_MOST_MESSAGE]


def _slack(document: Mapping[str, Any]) -> dict[str, Any]:
    def text(value: str) -> dict[str, str]:
        return {"type": "mrkdwn", "text": value.translate(_SLACK)}

    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": _title(document)[:150], "emoji": False}}
    ]
    if document["message"]:
        blocks.append({"type": "section", "text": text(_message(document))})
    if fields := [text(f"*{name}*\n{value}") for name, value in _facts(document)][:10]:
        blocks.append({"type": "section", "fields": fields})
    if rules := _rules(document):
        blocks.append({"type": "section", "text": text("\n".join(rules)[:2_900])})
    buttons = [
        {"type": "button", "text": {"type": "plain_text", "text": f"Open the {name}"}, "url": link[:3_000]}
        for name, link in document["links"].items()
    ]
    if buttons:
        blocks.append({"type": "actions", "elements": buttons})
    return {"text": _title(document).translate(_SLACK), "blocks": blocks}


def _teams(document: Mapping[str, Any]) -> dict[str, Any]:
    def block(value: str, **more: Any) -> dict[str, Any]:
        return {"type": "TextBlock", "text": _MARKDOWN.sub(r"\\\1", value), "wrap": True, **more}

    color = "Good" if document["exit_code"] == 0 else "Attention"
    body: list[dict[str, Any]] = [block(_title(document), size="Large", weight="Bolder", color=color)]
    if document["message"]:
        body.append(block(_message(document)))
    if facts := [{"title": name, "value": value} for name, value in _facts(document)]:
        body.append({"type": "FactSet", "facts": facts})
    body += [block(line, spacing="Small") for line in _rules(document)]
    actions = [
        {"type": "Action.OpenUrl", "title": f"Open the {name}", "url": link}
        for name, link in document["links"].items()
    ]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
        "actions": actions,
    }
    content = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [content]}


def _finite(value: Any) -> Any:
    """Return *value* as JSON can hold it: numbers that are not finite become text."""
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value
