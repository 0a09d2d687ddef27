"""A transport of requests whose answers are given in advance."""

from __future__ import annotations

from typing import Any

import requests
from requests.adapters import BaseAdapter


class ScriptedAnswers(BaseAdapter):
    """Gives these answers in turn: a status and a body, or an exception, which is raised. Keeps what it was asked, and the last options."""

    def __init__(self, *answers: tuple[int, str] | Exception) -> None:
        super().__init__()
        self.answers = list(answers)
        self.asked: list[requests.PreparedRequest] = []
        self.options: dict[str, Any] = {}

    def send(self, request: requests.PreparedRequest, *_args: Any, **options: Any) -> requests.Response:
        self.asked.append(request)
        self.options = options
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        response = requests.Response()
        response.status_code, response._content = answer[0], answer[1].encode()
        response.request, response.url = request, str(request.url)
        return response

    def close(self) -> None:
        return
