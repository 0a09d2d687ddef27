"""A stand-in of GitHub's REST interface: comments, pulls, runs and their artifacts, in the shapes of docs.github.com/rest.

The same object answers in memory, as an adapter of requests, and over HTTP.
"""

from __future__ import annotations

import contextlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import requests

REPOSITORY = "octo/digits"
FORK = "mallory/digits"
BOT = "github-actions[bot]"
HEAD = "a" * 40
OLD = "b" * 40
MALICIOUS = "e" * 40
TOKEN = "ghs_the-token-of-the-workflow"
API = "https://github.invalid/api/v3"

Body = bytes | Mapping[str, Any] | list[Any]


def zipped(content: bytes, name: str = "pr-report.json", **more: bytes) -> bytes:
    """Return a zip as actions/upload-artifact makes it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
        for other, text in more.items():
            archive.writestr(other, text)
    return file.getvalue()


@dataclass
class GitHub:
    """The state of one repository.

    Attributes:
        address: of the interface.
        comments: by their id.
        failures: answers that come first: (method, start of the path) → statuses with headers.
        log: method and path of each request.
    """

    address: str = API
    comments: dict[int, dict[str, Any]] = field(default_factory=dict)
    pulls: dict[int, dict[str, Any]] = field(default_factory=dict)
    runs: dict[int, dict[str, Any]] = field(default_factory=dict)
    artifacts: dict[int, tuple[dict[str, Any], bytes]] = field(default_factory=dict)
    failures: dict[tuple[str, str], list[tuple[int, dict[str, str]]]] = field(default_factory=dict)
    log: list[tuple[str, str]] = field(default_factory=list)
    tokens_elsewhere: list[str] = field(default_factory=list)
    login: str = BOT

    # The state

    def pull(
        self,
        number: int = 7,
        *,
        head: str = HEAD,
        repository: str = REPOSITORY,
        branch: str = "feature",
        state: str = "open",
    ) -> None:
        self.pulls[number] = {
            "number": number, "state": state, "draft": False,
            "head": {"sha": head, "ref": branch, "repo": {"full_name": repository}},
            "base": {"ref": "main", "repo": {"full_name": REPOSITORY}},
        }  # fmt: skip

    def run(self, number: int = 100, **changes: Any) -> dict[str, Any]:
        repository = changes.pop("repository", REPOSITORY)
        self.runs[number] = {
            "id": number, "run_attempt": 1, "event": "pull_request", "status": "completed", "conclusion": "success",
            "head_sha": HEAD, "head_branch": "feature", "path": ".github/workflows/train.yml", "name": "train",
            "html_url": f"https://github.com/{REPOSITORY}/actions/runs/{number}", "run_started_at": "2026-11-20T12:00:00Z",
            "repository": {"full_name": REPOSITORY}, "pull_requests": [],
            "head_repository": {"full_name": repository, "id": 5, "owner": {"login": repository.partition("/")[0]}},
            **changes,
        }  # fmt: skip
        return self.runs[number]

    def artifact(self, content: bytes, run: int = 100, *, name: str = "pr-report", **changes: Any) -> None:
        number = 1000 + len(self.artifacts)
        shape = {
            "id": number, "name": name, "size_in_bytes": len(content), "expired": False, "created_at": "2026-11-20T12:10:00Z",
            "workflow_run": {"id": run, "head_sha": self.runs[run]["head_sha"], "repository_id": 5, "head_repository_id": 5},
            **changes,
        }  # fmt: skip
        self.artifacts[number] = (shape, content)

    def comment(self, body: str, *, author: str = "alice", kind: str = "User", **changes: Any) -> int:
        number = 1 + len(self.comments)
        self.comments[number] = {
            "id": number, "body": body, "user": {"login": author, "type": kind}, "performed_via_github_app": None,
            "created_at": "2026-11-20T13:00:00Z", "updated_at": "2026-11-20T13:00:00Z", **changes,
        }  # fmt: skip
        return number

    def bodies(self, author: str = BOT) -> list[str]:
        return [one["body"] for one in self.comments.values() if one["user"]["login"] == author]

    # The interface

    def answer(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, dict[str, str], Body]:
        """Return status, headers and body of an answer."""
        split = urlsplit(target)
        path = unquote(split.path)
        self.log.append((method, path))
        if path.startswith("/storage/"):
            if headers.get("Authorization"):
                self.tokens_elsewhere.append(path)
            return 200, {"Content-Type": "application/zip"}, self.artifacts[int(path.rpartition("/")[2])][1]
        for (verb, start), statuses in self.failures.items():
            if verb == method and path.startswith(start) and statuses:
                status, more = statuses.pop(0)
                return status, more, {"message": more.pop("message", "It failed")}
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, {}, {"message": "Bad credentials"}
        query = {name: values[-1] for name, values in parse_qs(split.query).items()}
        document = json.loads(body) if body else {}
        found = self._route(method, path.removeprefix("/api/v3"), query, document)
        return (404, {}, {"message": "Not Found"}) if found is None else found

    def _route(
        self, method: str, path: str, query: Mapping[str, str], body: Mapping[str, Any]
    ) -> tuple[int, dict[str, str], Body] | None:
        parts = path.strip("/").split("/")
        if parts == ["graphql"] or path == "/api/graphql":
            return 200, {}, {"data": {"viewer": {"login": self.login}}}
        if parts[:3] != ["repos", *REPOSITORY.split("/")]:
            return None
        match method, parts[3:]:
            case "GET", ["actions", "runs", number, "attempts", attempt] if int(number) in self.runs:
                return 200, {}, {**self.runs[int(number)], "run_attempt": int(attempt)}
            case "GET", ["actions", "runs", number] if int(number) in self.runs:
                return 200, {}, self.runs[int(number)]
            case "GET", ["actions", "runs", number, "artifacts"]:
                shapes = [one for one, _ in self.artifacts.values() if one["workflow_run"]["id"] == int(number)]
                return self._page(shapes, query, key="artifacts")
            case "GET", ["actions", "artifacts", number, "zip"]:
                storage = self.address.partition("/api/")[0]
                return 302, {"Location": f"{storage}/storage/{number}"}, b""
            case "GET", ["pulls"]:
                wanted = query.get("head", "")
                found = [
                    one for one in self.pulls.values()
                    if one["state"] == query["state"] and f"{one['head']['repo']['full_name'].partition('/')[0]}:{one['head']['ref']}" == wanted
                ]  # fmt: skip
                return self._page(found, query)
            case "GET", ["pulls", number] if int(number) in self.pulls:
                return 200, {}, self.pulls[int(number)]
            case "GET", ["issues", _, "comments"]:
                return self._page(list(self.comments.values()), query)
            case "POST", ["issues", _, "comments"]:
                if len(body["body"]) > 65_536:
                    return 422, {}, {"message": "Validation Failed", "errors": [{"message": "body is too long"}]}
                return 201, {}, self.comments[self.comment(body["body"], author=self.login, kind="Bot")]
            case "GET", ["issues", "comments", number] if int(number) in self.comments:
                return 200, {}, self.comments[int(number)]
            case "PATCH", ["issues", "comments", number] if int(number) in self.comments:
                if self.comments[int(number)]["user"]["login"] != self.login:
                    return 403, {}, {"message": "Resource not accessible by integration"}
                self.comments[int(number)]["body"] = body["body"]
                return 200, {}, self.comments[int(number)]
            case "DELETE", ["issues", "comments", number] if int(number) in self.comments:
                del self.comments[int(number)]
                return 204, {}, b""
        return None

    def _page(self, found: list[Any], query: Mapping[str, str], key: str = "") -> tuple[int, dict[str, str], Body]:
        size, page = int(query.get("per_page", 30)), int(query.get("page", 1))
        shown = found[(page - 1) * size : page * size]
        return 200, {}, {"total_count": len(found), key: shown} if key else shown


def _encoded(body: Body) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


class Adapter(requests.adapters.BaseAdapter):
    """Answers requests in memory."""

    def __init__(self, github: GitHub) -> None:
        super().__init__()
        self.github = github

    def send(self, request: requests.PreparedRequest, **_options: Any) -> requests.Response:  # type: ignore[override]
        body = request.body or b""
        content = body if isinstance(body, bytes) else body.encode()
        status, headers, answer = self.github.answer(
            request.method or "", request.url or "", request.headers, content
        )
        response = requests.Response()
        response.status_code, response.url, response.request = status, request.url or "", request
        response.headers.update(headers)
        response.raw = io.BytesIO(_encoded(answer))
        return response

    def close(self) -> None:
        return


def session(github: GitHub) -> requests.Session:
    """Return a session whose requests *github* answers."""
    made = requests.Session()
    made.mount("https://", Adapter(github))
    return made


@contextlib.contextmanager
def served(github: GitHub, host: str = "127.0.0.1") -> Iterator[str]:
    """Serve *github* over HTTP; give the address of its interface."""

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            status, headers, answer = github.answer(
                self.command, self.path, dict(self.headers), self.rfile.read(length)
            )
            content = _encoded(answer)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if status != 204:
                self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = _handle  # noqa: N815 - names of http.server

        def log_message(self, *_args: object) -> None:
            return

    server = ThreadingHTTPServer((host, 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    github.address = f"http://{host}:{server.server_port}/api/v3"
    try:
        yield github.address
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
