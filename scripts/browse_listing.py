#!/usr/bin/env python3
"""Walks over the pages of `waxseal serve` by a headless Chromium.

The store holds names that a careless page would run as scripts or resolve to other paths. Each entry must be a link
whose text is the name, and which the browser resolves to the entry's own content. No name may become an element or run.

Usage: browse_listing.py WAXSEAL
Needs `chromium` (Debian's package of this name) and the Python module `websocket-client`.
"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request

import websocket

NAMES = [
    "<img src=x onerror=alert(1)>", "<script>alert(1)", '"onmouseover="alert(1)', "'&amp;", "javascript:alert(1)",
    "a b", "%41", "?query", "#hash", "..dots", "über", "日本", ";", "\\back", "metrics", "::x", "a\nb", "\u202eabc",
]  # fmt: skip
DIRECTORIES = ["<b>dir", "?x#y%2f"]
CHROMIUM = [
    "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
    "--remote-allow-origins=*", "about:blank",
]  # fmt: skip


class Page:
    """A page of the browser. A dialog or an error of a script is an AssertionError."""

    def __init__(self, url):
        self.socket = websocket.create_connection(url, timeout=20)
        self.number = 0
        self.seen = set()
        self.call("Page.enable")
        self.call("Runtime.enable")

    def call(self, method, **params):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]
            self.note(message)

    def note(self, event):
        assert event["method"] not in ("Page.javascriptDialogOpening", "Runtime.exceptionThrown"), event
        self.seen.add(event["method"])

    def load(self, begin):
        """Runs an action that opens another page, and waits for that."""
        self.seen.clear()
        begin()
        while "Page.loadEventFired" not in self.seen:
            self.note(json.loads(self.socket.recv()))

    def value(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def click(self, text):
        link = f"[...document.links].find(link => link.textContent === {json.dumps(text)})"
        self.load(lambda: self.value(f"{link}.click()"))


def shown(name):
    """Returns the text of a name: what would change the text around it is replaced."""
    return "".join("\ufffd" if ord(c) < 32 or c == "\u202e" else c for c in name)


def check_page(page, url, directory, is_root):
    """Checks the page of a directory. Returns the number of its files."""
    names = os.listdir(directory)
    is_directory = {name: os.path.isdir(os.path.join(directory, name)) for name in names}
    expected = [shown(name) + "/" * is_directory[name] for name in names] + ["../"] * (not is_root)
    links = page.value("[...document.links].map(link => [link.textContent, link.href])")
    assert sorted(text for text, _ in links) == sorted(expected), links
    hrefs = dict(links)
    for name in names:
        href = hrefs[shown(name) + "/" * is_directory[name]]
        assert href.startswith(url + "/"), href
        if not is_directory[name]:
            with open(os.path.join(directory, name), "rb") as file:
                assert urllib.request.urlopen(href).read() == file.read(), (name, href)
    elements = page.value("document.querySelectorAll('img, script, b, iframe, [onmouseover], [onerror]').length")
    assert elements == 0, elements
    return len(names) - sum(is_directory.values())


def walk(page, url, tree):
    page.load(lambda: page.call("Page.navigate", url=url + "/"))
    files, directory = check_page(page, url, tree, True), tree
    for name in DIRECTORIES:
        directory = os.path.join(directory, name)
        page.click(name + "/")
        files += check_page(page, url, directory, False)
    for _ in DIRECTORIES:
        page.click("../")
    assert page.value("location.href") == url + "/"
    return files


def main(tool):
    with tempfile.TemporaryDirectory() as place:
        tree, store = os.path.join(place, "tree"), os.path.join(place, "store")
        for depth in range(len(DIRECTORIES) + 1):
            directory = os.path.join(tree, *DIRECTORIES[:depth])
            os.makedirs(directory)
            for name in NAMES:
                with open(os.path.join(directory, name), "w") as file:
                    file.write(f"{depth} {name}")
        subprocess.run([tool, "-d", store, "load", tree], check=True, stdout=subprocess.DEVNULL)
        serve = [tool, "serve", store, "--listen", "127.0.0.1:0"]
        profile = f"--user-data-dir={place}/profile"
        quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
        with (
            subprocess.Popen(serve, stdout=pipe, text=True) as server,
            subprocess.Popen([*CHROMIUM, profile], stdout=quiet, stderr=pipe, text=True) as browser,
        ):
            try:
                url = server.stdout.readline().split()[-1].rstrip("/")
                port = next(line for line in browser.stderr if "ws://" in line).split("ws://")[1].split("/")[0]
                pages = json.load(urllib.request.urlopen(f"http://{port}/json"))
                page = Page(next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page"))
                files = walk(page, url, tree)
            finally:
                browser.terminate()
                server.terminate()
    print(f"{files} files are reached by their links, and no name is run")


main(sys.argv[1])
