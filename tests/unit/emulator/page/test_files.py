"""Pictures and documents of runs: shown by their content, and documents only in a sandbox."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_emulator.network.heads import Head
from aml_emulator.page.files import DOCUMENT_BYTES, PICTURE_BYTES, PICTURES, thumbnails
from aml_emulator.page.pictures import MOST_PIXELS, Picture, is_text, picture_of
from aml_emulator.page.view import HIDDEN, link
from tests.support.pictures import gif, jpeg, png, webp
from tests.unit.emulator.page.test_page import HOSTILE, SCRIPTS, Browser, Parsed, Wire, logged
from tests.unit.emulator.parts import IDENTITY, Service

SCRIPT = b"<script>parent.document.title = 'owned'; top.location = 'https://evil.example'</script>"
HTML = b"<!doctype html><title>Report</title><meta http-equiv=refresh content='0;url=https://evil.example'>" + SCRIPT
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><script>alert(2)</script></svg>"


def stored(service: Service, **files: bytes) -> Browser:
    """Return a browser on the job ``j`` with these files."""
    if service.store.runs.get("j") is None:
        assert service.submit("j").status == 201
    for path, content in files.items():
        service.store.runs.add_artifact("j", path, size=len(content))
    return Browser(service, **files)


def answered(browser: Browser, path: str) -> tuple[int, dict[str, list[str]], bytes]:
    """Return status, headers and body as they are sent."""
    wire: Any = Wire()
    anyio.run(browser.site.serve, Head(method="GET", target=path, headers=(("Host", "localhost"),)), wire)
    head, _, body = wire.sent.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers: dict[str, list[str]] = {}
    for line in lines:
        name, value = line.split(": ", 1)
        headers.setdefault(name, []).append(value)
    return int(first.split()[1]), headers, body


# Content


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (png(), Picture(type="image/png", width=3, height=2)),
        (gif(), Picture(type="image/gif", width=1, height=1)),
        (jpeg(), Picture(type="image/jpeg", width=5, height=4)),
        (jpeg(before=60_000), Picture(type="image/jpeg", width=5, height=4)),
        (webp("VP8 "), Picture(type="image/webp", width=7, height=6)),
        (webp("VP8L"), Picture(type="image/webp", width=7, height=6)),
        (webp("VP8X"), Picture(type="image/webp", width=7, height=6)),
        (png(trailer=HTML), Picture(type="image/png", width=3, height=2)),
        (gif(MOST_PIXELS // 50_000, 50_000), Picture(type="image/gif", width=1000, height=50_000)),
        (gif(1001, 50_000), None),
        (gif(0, 5), None),
        (png()[:18], None),
        (b"\x89PNG\r\n\x1a\n" + HTML, None),
        (b"GIF89a", None),
        (b"GIF89a/*" + b"\x00\x00" + b"*/=1;alert(1)", None),
        (b"\xff\xd8\xff", None),
        (b"\xff\xd8" + b"\xff\xe0\x00\x00" * 9, None),
        (b"\xff\xd8\xff\xfe" + b"x" * 300, None),
        (b"RIFF\x00\x00\x00\x00WEBPVP8Y" + b"x" * 30, None),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 " + b"x" * 30, None),
        (b"BM" + b"x" * 60, None),
        (HTML, None),
        (SVG, None),
        (b"", None),
    ],
)
def test_the_content_says_what_is_a_picture(content: bytes, expected: Picture | None) -> None:
    assert picture_of(content) == expected


@given(head=st.sampled_from([png(), gif(), jpeg(), webp("VP8X"), b""]), cut=st.integers(0, 40), rest=st.binary())
def test_no_content_breaks_it(head: bytes, cut: int, rest: bytes) -> None:
    found = picture_of(head[:cut] + rest)
    assert found is None or 0 < found.width * found.height <= MOST_PIXELS
    assert not (found and is_text(head[:cut] + rest))


# Pictures


@pytest.mark.parametrize(
    ("path", "content", "type_"),
    [
        ("plot.png", png(), "image/png"),
        ("plot.PNG", jpeg(), "image/jpeg"),
        ("no ending", gif(), "image/gif"),
        ("page.html", png(trailer=HTML), "image/png"),
    ],
)
def test_a_picture_is_answered_as_what_it_is(service: Service, path: str, content: bytes, type_: str) -> None:
    browser = stored(service, **{path: content})
    status, headers, body = answered(browser, link("runs", "j", "picture", path=path))
    assert (status, body) == (200, content)
    assert headers["Content-Type"] == [type_]
    assert headers["X-Content-Type-Options"] == ["nosniff"]
    assert "default-src 'none'" in headers["Content-Security-Policy"][0]


@pytest.mark.parametrize(
    "content",
    [HTML, SVG, b"", b"GIF89a", gif(65_535, 65_535), png() + b"\x00" * PICTURE_BYTES],
    ids=["html", "svg", "empty", "cut", "pixels", "bytes"],
)
def test_what_only_its_name_calls_a_picture_is_refused(service: Service, content: bytes) -> None:
    browser = stored(service, **{"plot.png": content})
    status, headers, body = answered(browser, "/ui/runs/j/picture?path=plot.png")
    assert status == 400
    assert headers["Content-Type"] == ["text/html; charset=utf-8"]
    assert (
        "its content is no PNG, JPEG, GIF or WebP picture of at most 10.0 MiB and 50 million pixels" in body.decode()
    )
    assert "It is not shown" in browser.text("/ui/runs/j/view?path=plot.png")


def test_thumbnails_are_loaded_late_and_in_pages(service: Service) -> None:
    files = {f"plots/{number:02}.png": png() for number in range(PICTURES + 2)}
    browser = stored(service, **files, **{"report.html": HTML, "notes.txt": b"x", "drawing.svg": SVG})
    first = Parsed(browser.text("/ui/runs/j"))
    pictures = [attributes for tag, attributes in first.elements if tag == "img"]
    assert len(pictures) == PICTURES
    assert pictures[0]["src"] == "/ui/runs/j/picture?path=plots%2F00.png"
    assert {one["loading"] for one in pictures} == {"lazy"}
    assert all(one["width"] and one["height"] for one in pictures)
    addresses = [attributes.get("href") for tag, attributes in first.elements if tag == "a"]
    assert "/ui/runs/j/view?path=report.html" in addresses
    assert "/ui/runs/j/view?path=drawing.svg" in addresses
    assert "/ui/runs/j/view?path=notes.txt" not in addresses
    second = browser.text("/ui/runs/j?pictures=2")
    assert second.count("<img") == 2
    assert not any(tag == "iframe" for tag, _ in first.elements)


def test_logged_pictures_have_names_and_steps(service: Service) -> None:
    mark = "+step+{}+timestamp+1700000000000+g1b2c3d4-0000-4000-8000-000000000000"
    old = mark.replace("+", "%")
    files = {
        f"images/val~dogs{mark.format(10)}.png": png(),
        f"images/val~dogs{mark.format(10)}+compressed.webp": webp("VP8X"),
        f"images/val~dogs{mark.format(9)}.png": png(),
        f"images/cats{old.format(0)}.png": png(),
        f"images/cats{old.format(0)}%compressed.webp": webp("VP8X"),
        f"images/lost{mark.format(1)}+compressed.webp": webp("VP8X"),
        "fig_1700000000": png(),
        "other.png": png(),
    }
    shown = thumbnails(files, {"fig_1700000000": "fig"})
    assert [(one.caption, one.path == one.small) for one in shown] == [
        ("cats, step 0", False),
        ("fig", True),
        (f"images/lost{mark.format(1)}+compressed.webp", True),
        ("other.png", True),
        ("val~dogs, step 9", True),
        ("val~dogs, step 10", False),
    ]
    browser = stored(service, **files)
    place = "aml://artifactId/ExperimentRun/dcid.j/"
    service.store.v1.add_rows("j", [logged("fig", "azureml.v1.image", {"fig": f"{place}fig_1700000000"})])
    page = browser.text("/ui/runs/j")
    assert "<span>fig</span>" in page
    for path in files:
        assert answered(browser, link("runs", "j", "picture", path=path))[0] == 200


# Documents


@pytest.mark.parametrize(
    ("path", "content", "type_"),
    [
        ("report.html", HTML, "text/html; charset=utf-8"),
        ("a/b.HTM", HTML, "text/html; charset=utf-8"),
        ("drawing.svg", SVG, "image/svg+xml; charset=utf-8"),
        ("report.html", SVG, "text/html; charset=utf-8"),
    ],
)
def test_a_document_is_only_answered_in_a_sandbox(service: Service, path: str, content: bytes, type_: str) -> None:
    browser = stored(service, **{path: content})
    status, headers, body = answered(browser, link("runs", "j", "document", path=path))
    assert (status, body) == (200, content)
    assert headers["Content-Type"] == [type_]
    (policy,) = headers["Content-Security-Policy"]
    directives = {part.split()[0]: part.split()[1:] for part in policy.split(";")}
    assert directives["sandbox"] == [], "neither scripts nor an origin, forms, pop-ups or the window above"
    assert directives["default-src"] == ["'none'"]
    assert directives["img-src"] == directives["font-src"] == directives["media-src"] == ["data:"]
    assert directives["frame-ancestors"] == ["'self'"]
    assert "script-src" not in directives
    assert headers["X-Frame-Options"] == ["SAMEORIGIN"]
    assert headers["X-Content-Type-Options"] == ["nosniff"]


def test_the_frame_has_no_rights_and_stays_here(service: Service) -> None:
    browser = stored(service, **{"report.html": HTML, "plot.png": png()})
    status, headers, body = answered(browser, "/ui/runs/j/view?path=report.html")
    (policy,) = headers["Content-Security-Policy"]
    assert status == 200
    assert policy.endswith("; frame-src 'self'")
    assert headers["X-Frame-Options"] == ["DENY"]
    (frame,) = [attributes for tag, attributes in Parsed(body.decode()).elements if tag == "iframe"]
    assert "sandbox" in frame
    assert not frame["sandbox"]
    assert frame["src"] == "/ui/runs/j/document?path=report.html"
    assert frame["title"] == "report.html"
    for other in ("/ui/runs/j", "/ui/runs/j/view?path=plot.png", "/ui/"):
        assert "frame-src" not in answered(browser, other)[1]["Content-Security-Policy"][0]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("report.html", png(trailer=HTML)),
        ("report.html", b"\x7fELF\x00\x00" + HTML),
        ("report.html", b""),
        ("report.html", b"x" * (DOCUMENT_BYTES + 1)),
        ("report.txt", HTML),
        ("report", HTML),
        ("report.html.exe", HTML),
        ("x.html/report", HTML),
    ],
    ids=["picture", "program", "empty", "large", "text", "no ending", "other ending", "folder"],
)
def test_other_content_is_no_document(service: Service, path: str, content: bytes) -> None:
    browser = stored(service, **{path: content})
    assert answered(browser, link("runs", "j", "document", path=path))[0] == 400
    page = browser.text(link("runs", "j", "view", path=path))
    assert "<iframe" not in page


def test_secrets_are_hidden_in_documents(service: Service) -> None:
    browser = stored(service, **{"report.html": b"<p>" + IDENTITY.client_secret.encode()})
    assert browser.text("/ui/runs/j/document?path=report.html") == f"<p>{HIDDEN}"


@pytest.mark.parametrize("page", ["view", "picture", "document"])
@pytest.mark.parametrize(
    "path",
    ["", ".", "..", "../k/plot.png", "a/../plot.png", "/plot.png", "./plot.png", "plot.png/", "other.png", "\0"],
)
def test_no_path_leads_out_of_the_run(service: Service, page: str, path: str) -> None:
    browser = stored(service, **{"plot.png": png(), "k/plot.png": png()})
    if path and path != "other.png":
        # Even if such a name was recorded, nothing is read for it.
        service.store.runs.add_artifact("j", path, size=1)
    assert answered(browser, link("runs", "j", page, path=path))[0] == 404


def test_files_of_another_run_are_not_found(service: Service) -> None:
    browser = stored(service, **{"plot.png": png()})
    assert service.submit("k").status == 201
    assert answered(browser, "/ui/runs/k/picture?path=plot.png")[0] == 404
    assert answered(browser, "/ui/runs/none/picture?path=plot.png")[0] == 404


def test_a_file_that_was_not_uploaded_is_not_found(service: Service) -> None:
    browser = stored(service)
    service.store.runs.add_artifact("j", "plot.png")
    assert answered(browser, "/ui/runs/j/picture?path=plot.png")[0] == 404
    assert answered(browser, "/ui/runs/j/view?path=plot.png")[0] == 404


def test_hostile_names_of_files_are_only_text(service: Service) -> None:
    picture, report = f"{HOSTILE}.png".replace("/", "|"), f"{HOSTILE}.html".replace("/", "|")
    browser = stored(service, **{picture: png(), report: HTML})
    pages = ("/ui/runs/j", link("runs", "j", "view", path=picture), link("runs", "j", "view", path=report))
    for page in pages:
        html = browser.text(page)
        assert "alert(1)" in html
        for tag, attributes in Parsed(html).elements:
            assert tag != "script" or attributes.get("src") in SCRIPTS, page
            assert not any(name.startswith("on") or name == "style" for name in attributes), page
            for name in ("href", "src"):
                value = attributes.get(name)
                assert value is None or value.startswith(("/ui/", "#")), (page, value)


@pytest.mark.parametrize("page", ["view", "picture", "document"])
def test_other_sites_get_none_of_it(service: Service, page: str) -> None:
    browser = stored(service, **{"plot.png": png(), "report.html": HTML})
    for path in ("plot.png", "report.html"):
        target = link("runs", "j", page, path=path)
        assert browser.ask(target, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors").status == 403
        framed = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"}
        assert browser.ask(target, **framed).status == 403
        # A document in the sandbox sends requests from a separate origin, too.
        assert browser.ask(target, Origin="null").status == 403
