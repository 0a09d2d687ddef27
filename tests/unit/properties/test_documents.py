"""Documents that services, registries, forks and jobs wrote: a value, or a refusal that says why."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import io
import json
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from aml_train.azure.composed import child_view, labels_of, needs_of, objective_of
from aml_train.core import events
from aml_train.core.answers import Answer
from aml_train.core.errors import AmlTrainError, InvalidError, ServiceError
from aml_train.core.events import Event, LogLines, to_json
from aml_train.gate.baseline import read_value, read_values
from aml_train.image.base_files import find_in_layer, installed_drivers, named_drivers, parse_os_release
from aml_train.image.readiness.check import parse_facts
from aml_train.image.records import parse_record
from aml_train.image.registry.manifest import OCI_INDEX, OCI_MANIFEST, Manifest
from aml_train.image.testing.junit import Places, parse_junit
from aml_train.jobs.logs.names import log_name
from aml_train.jobs.logs.report import best, failed_rank
from aml_train.jobs.logs.tracebacks import TracebackFinder, innermost
from aml_train.jobs.states import JobStatus, ending_of, exit_code_of, headline
from aml_train.models.passport.envelope import BadBundleError, encode_statement, key_bundle, read_bundle
from aml_train.models.passport.manifest import FileManifest, read_manifest
from aml_train.models.promotion.record import Change, Record, decode, encode
from aml_train.models.register import fault_of_layout
from aml_train.report import values as reports
from aml_train.report.html import render_html
from aml_train.report.markdown import block, literal, message, render_markdown
from aml_train_action.github.proposals import read_event, read_payload
from aml_train_action.inputs.inputs import read_inputs
from aml_train_action.pulls.artifact import unpack
from aml_train_action.pulls.comment import render_comment
from tests.unit.action.pull_world import failing, passing, rule, subject
from tests.unit.properties.foreign import as_bytes, foreign, mapping, refused, scratch

DIGEST = "sha256:" + "0a" * 32
LAYER = {"mediaType": "application/x", "digest": DIGEST, "size": 5}
IMAGES = [
    json.dumps(one)
    for one in (
        {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": LAYER, "layers": [LAYER, LAYER]},
        {"schemaVersion": 2, "manifests": [{**LAYER, "platform": {"architecture": "amd64", "os": "linux"}}]},
        {
            "digest": DIGEST,
            "key": "b" * 64,
            "command": "pytest",
            "passed": 3,
            "failed": 0,
            "skipped": None,
            "seconds": 1.5,
        },
        {"format": 1, "bash": None, "python": None},
    )
]


@foreign(IMAGES, '"digest" "size" "layers" "manifests" "purl" pkg:pypi/ %2F "python" "version"', tree=True)
def test_images(text: str) -> None:
    content = as_bytes(text)
    refused(lambda: parse_facts(content), AmlTrainError)
    with contextlib.suppress(KeyError, TypeError, ValueError):  # load_record makes an ImageError of these
        parse_record(content)
    for media_type in (OCI_MANIFEST, OCI_INDEX):
        manifest = Manifest(digest=DIGEST, media_type=media_type, content=content)
        for read in ("config_digest", "blobs", "children", "layer_bytes", "layer_sizes"):
            refused(lambda manifest=manifest, read=read: getattr(manifest, read), AmlTrainError)
        refused(lambda manifest=manifest: manifest.child_for("linux/amd64"), AmlTrainError)


STATUS = "Package: rdma-core\nStatus: install ok installed\nVersion: 56.0\n\nPackage: libibverbs1\nVersion: 1\n"


@foreign(
    ['ID=ubuntu\nVERSION_ID="22.04"\n', "ID='rocky'\n# x\nNAME=\"a b\"\n", STATUS, "MOFED 5.4-rdmacore56.0"],
    "ID= VERSION_ID= Package: Version:",
)
def test_files_of_images(text: str) -> None:
    parse_os_release(text)
    installed_drivers(text)
    named_drivers({"MOFED_VERSION": text})


def zipped(name: str, content: bytes) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return data.getvalue()


@given(
    data=st.sampled_from(
        [zipped("pr-report.json", b'{"a": 1}'), zipped("pr-report.json", b"0" * 200_000), zipped("../x", b"")]
    ),
    at=st.integers(0, 400),
    added=st.binary(max_size=4),
)
@example(data=b"\x1f\x8b\x08", at=0, added=b"")
def test_archives(data: bytes, at: int, added: bytes) -> None:
    """No more than is allowed is unpacked."""
    changed = data[:at] + added + data[at + len(added) :]
    content = refused(lambda: unpack(changed, origin="the artifact x", most=100_000), AmlTrainError)
    assert content is None or len(content) <= 100_000
    found = find_in_layer(iter([changed[:100], changed[100:]]), limit=100_000)
    assert found is None or len(found) <= 100_000


CASE = '<testcase classname="tests.test_a.TestB" name="test_c" time="0.01" file="tests/test_a.py" line="3"'


@foreign(
    [
        (
            f'<testsuites><testsuite failures="1" tests="3">{CASE}><failure message="assert 1 == 2">tests/test_a.py:7: AssertionError</failure></testcase>'
            f'{CASE}><skipped type="pytest.xfail"/></testcase>{CASE}/></testsuite></testsuites>'
        ),
        f'<testsuite tests="1">{CASE}><error type="E"><![CDATA[File "/workspace/src/a.py", line 12, in f]]></error></testcase></testsuite>',
        "<testsuite></testsuite>",
    ],
    '<testsuites> </testsuite> <testcase/> <failure/> <error> <skipped/> time="1e400" line="\u00b2" file=" &#x1; encoding="utf-7" xmlns:a="b"',
)
def test_junit(text: str) -> None:
    places = Places(files=("tests/test_a.py", "src/a.py", "sub/tests/test_b.py"), workdir="sub")
    report = refused(lambda: parse_junit(as_bytes(text), places), ValueError)
    if report is not None:
        assert report.failed + report.errors == len(report.failures)
        assert report.passed >= 0
        assert report.expected <= report.skipped
        for failure in report.failures:
            assert failure.line is None or failure.line > 0
            assert len(failure.message) <= 300
            assert "\n" not in failure.message


@foreign(
    [
        '{"accuracy": 0.95, "loss": NaN}',
        '{"metrics": {"a/b": 1, "c~d": 2.5}}',
        '[1, {"x": [0.5]}]',
        '{"metrics": {"n": 12345678901234567890}}',
    ],
    "NaN Infinity -Infinity metrics 1e400 /metrics/ ~1 ~0",
    tree=True,
)
def test_values_of_the_gate(text: str) -> None:
    found = refused(lambda: read_values(as_bytes(text)), ValueError) or {}
    assert all(isinstance(one, float) for one in found.values())
    for pointer in ("/accuracy", "/metrics/a~1b", "/1/x/0", text):
        number = refused(lambda pointer=pointer: read_value(as_bytes(text), pointer), ValueError)
        assert number is None or isinstance(number, float)


STATEMENT = FileManifest(digests={"MLmodel": "0a" * 32, "data/weights.bin": "1b" * 32}, size=10).statement("digits")


@foreign(
    [
        key_bundle(encode_statement(STATEMENT), b"signature", "0" * 64).decode(),
        json.dumps(STATEMENT),
        "flavors:\n  python_function: {loader_module: x}\nsignature: {inputs: '[]'}\nutc_time_created: 2026-01-01\n",
    ],
    '"payload" "sig" "hint" "digest" "name" "../x" "a//b" flavors: MLmodel config.pbtxt ==',
    tree=True,
)
def test_bundles(text: str) -> None:
    statements = []
    bundle = refused(lambda: read_bundle(as_bytes(text)), BadBundleError)
    if bundle is not None:
        assert (bundle.key_hint is None) != (bundle.certificate is None)
        statements.append(bundle.statement)
    with contextlib.suppress(ValueError, RecursionError):
        statements.append(Answer(json.loads(text), ValueError))
    for statement in statements:
        manifest = refused(lambda statement=statement: read_manifest(statement, "digits"), ValueError)
        if manifest is not None:
            assert manifest.digests
            assert all(len(bytes.fromhex(digest)) == 32 for digest in manifest.digests.values())
            assert not manifest.difference(manifest)
    for kind in ("mlflow_model", "triton_model", "custom_model"):
        fault_of_layout(kind, text.split("\n")[:20])


CHANGE = Change(
    id="1", action="promote", stage="production", version="2", previous=("1",), came_from=None, path="azureml://x", digest=None,
    actor="a", reason="", at="2026-01-01T00:00:00+00:00", run_url=None, gate="passed", rules=("acc",),
)  # fmt: skip
BEGUN = Record(model="m", revision=1, history=(CHANGE,)).begun(CHANGE)


@foreign(
    [encode(Record(model="m")).decode(), encode(BEGUN).decode(), encode(BEGUN.ended(finished_by="other")).decode()],
    '"format" "model" "revision" "pending" "history" "action" "rollback" "stage" "previous" null',
    tree=True,
)
def test_promotions(text: str) -> None:
    record = refused(lambda: decode(as_bytes(text), "m"), ValueError)
    if record is not None:
        assert decode(encode(record), "m") == record
        for change in record.history:
            assert all(isinstance(one, str) for one in (*change.previous, *change.rules, change.version, change.at))
            refused(lambda change=change: record.predecessor(change.stage, "3"), ValueError)


PLAIN = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\nValueError: x\n'


@foreign(
    [
        f"epoch 1\n{PLAIN}done\n",
        f"{PLAIN}\nDuring handling of the above exception, another exception occurred:\n\n{PLAIN}",
        "".join(f"[rank{number}]: {line}\n" for number in (0, 1) for line in PLAIN.splitlines()),
        "  + Exception Group Traceback (most recent call last):\n  | ExceptionGroup: g (1 sub-exception)\n  +-+---- 1 ----\n    | ValueError: 1\n",
        "node-0:12:34 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.4<0>\nNCCL INFO NET/IB : Using [0]mlx5_ib0:1/IB\n",
        "ExecutionFailed: [REDACTED]\n\texit_codes: 1\n[rank 3] Error: exited with code 137\n",
        "user_logs/std_log_process_01.txt\nlogs/azureml/dataprep/x.log\nazureml-logs/70_driver_log_worker_1.txt\n",
    ],
    [
        "Traceback (most recent call last):",
        '  File "x.py", line 1, in f',
        "ValueError: x",
        "  | ",
        "[rank0]: ",
        "NCCL INFO ",
        "exited with code ",
    ],
)
def test_logs(text: str) -> None:
    """What is found does not depend on how lines arrive, and is bounded."""

    def found(parts: list[str]) -> list[str]:
        finder = TracebackFinder()
        for part in parts:
            finder.feed("user_logs/std_log.txt", part, rank="0")
        for one in finder.found():
            assert len(one.text) <= 60_000
            innermost(one, Path("/code"), is_file=lambda path: path.name == "train.py")
        best(finder.found(), failed=failed_rank(text))
        return [one.text for one in finder.found()]

    assert found([text]) == found(text.split("\n"))
    assert all(log_name(line).path == line for line in text.split("\n"))
    exit_code_of(text)
    headline(text)
    for status in (JobStatus.FAILED, JobStatus.CANCELED):
        ending_of(status, reason=text, codes=(text,))


@foreign(
    [
        '{"name": "loss", "goal": "minimize"}',
        '{"lr": 0.1, "depth": "3"}',
        "${{parent.jobs.prep.outputs.out}}",
    ],
    '"name" "goal" null NaN azureml: /versions/ ${{parent.jobs.',
    tree=True,
)
def test_properties_of_jobs(text: str) -> None:
    jobs = {"a": {"display_name": text, "inputs": {"x": {"value": text, "uri": text}}}, text: {"inputs": {}}}
    properties = {"primary_metric_config": text, "hyperparameters": text}
    document = {"properties": properties, "jobs": jobs, "runId": "r", "status": "Completed", "runType": text}
    answer = Answer(document, lambda problem: ServiceError(f"the job {problem}"))
    for read in (objective_of, labels_of, needs_of, child_view):
        refused(lambda read=read: read(answer), AmlTrainError)


class Page(HTMLParser):
    """Finds what a browser would run or fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.odd: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        links = [value or "" for name, value in attrs if name in ("href", "src")]
        strange = [
            link for link in links if not link.startswith(("https://", "http://", "#", "data:image/", "data:,"))
        ]
        active = any(name.startswith("on") for name, _ in attrs)
        if active or strange or tag in ("script", "iframe", "object", "embed", "form", "base"):
            self.odd.append(f"<{tag} {strange}>")


@foreign(
    [
        reports.encode(one).decode()
        for one in (passing(), failing(), passing(rules=(rule(), rule("a|b`<x>", verdict="skipped", value=None))))
    ],
    '"rules" "curves" "pictures" "tests" "job" "model" null 1e308 javascript:1 <script>alert(1)</script> | ` <!-- ](',
    tree=True,
)
def test_reports(text: str) -> None:
    """A report that a fork wrote becomes a page and a comment without scripts and foreign addresses."""
    for shown in (literal(text), message(text, most=500), block(text, most=500)):
        assert "<script" not in shown.lower()
        assert "<!--" not in shown
    report = refused(lambda: reports.decode(as_bytes(text), origin="x"), InvalidError, ValueError)
    if report is None:
        return
    again = reports.encode(report)
    assert reports.encode(reports.decode(again, origin="x")) == again
    comment = render_comment(report, subject())
    assert len(comment.encode()) <= 65_536
    assert "<script" not in comment.lower()
    render_markdown(report)
    page = Page()
    page.feed(render_html(report).decode())
    assert not page.odd


SECRET = "Zq8-the-secret-Xw4"
CREDENTIALS = json.dumps({"clientId": "c", "clientSecret": SECRET, "tenantId": "t", "subscriptionId": "s"})


@foreign(
    [
        json.dumps({"command": "run", "config": "c.yml", "set": "a.b=1\nc=x", "wait": "false", "timeout": "2h"}),
        json.dumps({"command": "promote", "name": "m", "version": "3", "stage": "production"}),
        json.dumps({"repository": {"default_branch": "main"}, "pull_request": {"number": 7}}),
        json.dumps({"client-id": "c", "tenant-id": "t", "on-cancel": "detach", "job": "x", "target": "y"}),
    ],
    "command config true false run plan attach 2h AzureChinaCloud ../x /abs a=b client-secret",
    tree=True,
)
def test_inputs_of_the_action(text: str) -> None:
    """Whatever else a step is given, its secrets are not printed."""
    folder = scratch("inputs")
    with contextlib.suppress(ValueError, RecursionError):
        given_inputs = {str(name): str(value) for name, value in mapping(json.loads(text)).items()}
        environ = {f"INPUT_{name.upper()}": value for name, value in given_inputs.items() if "\0" not in name + value}
        environ |= {"INPUT_CREDS": CREDENTIALS, "INPUT_CLIENT-SECRET": SECRET}
        try:
            inputs = read_inputs(environ, folder)
            assert SECRET not in repr(inputs)
            assert not any(SECRET in word for word in inputs.command_line(folder))
        except InvalidError as error:
            shown = str(error)
            assert SECRET not in shown
    (folder / "event.json").write_bytes(as_bytes(text))
    event = {"GITHUB_EVENT_NAME": "push", "GITHUB_EVENT_PATH": str(folder / "event.json")}
    assert isinstance(read_event(event).default_branch, str | None)
    refused(lambda: read_payload(event), InvalidError)


def needed(cls: type[Event]) -> list[dataclasses.Field[Any]]:
    unset = dataclasses.MISSING
    return [
        one
        for one in dataclasses.fields(cls)
        if one.default is unset and one.default_factory is unset and one.name != "at"
    ]


PLAIN_EVENTS = [
    one
    for one in vars(events).values()
    if isinstance(one, type) and issubclass(one, Event) and one not in (Event, LogLines)
    if all(str(field.type) in ("str", "str | None", "int", "float", "bool") for field in needed(one))
]


@foreign(["plain", "two\nlines", "\x1b[31mred\r\n", "\ud800 \u2028 \x85", '"quoted" \\ {}'], ["\n", "\udc00", "\\"])
def test_events(text: str) -> None:
    """Every event is one line of ASCII, and has the same text."""
    at = datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)
    for cls in PLAIN_EVENTS:
        given_fields = {one.name: text if str(one.type).startswith("str") else 1 for one in needed(cls)}
        (line,) = to_json(cls(at=at, **given_fields)).splitlines()
        assert line.isascii()
        document = json.loads(line)
        assert all(document[name] == json.loads(json.dumps(value)) for name, value in given_fields.items())
