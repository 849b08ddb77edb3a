"""Mermaid diagrams: sequence diagrams use only syntax that is known to render."""

import re

from tools.docs.pages import pages

PICTURE = re.compile(r"```mermaid\n(.*?)\n```", re.DOTALL)
PARTICIPANT = re.compile(r"participant (\w+) as [\w ]+")
MESSAGE = re.compile(r"(\w+)(?:->>|-->>)(\w+): [^;#]+")
NOTE = re.compile(r"Note over (\w+),(\w+): [^;#]+")


def test_every_line_is_a_participant_a_message_or_a_note() -> None:
    pictures = [text for page in pages() for text in PICTURE.findall(page.read_text())]
    assert pictures
    for picture in pictures:
        first, *lines = (line.strip() for line in picture.splitlines() if line.strip())
        assert first == "sequenceDiagram"
        known = [found[1] for line in lines if (found := PARTICIPANT.fullmatch(line))]
        for line in lines[len(known) + 1 :]:
            found = MESSAGE.fullmatch(line) or NOTE.fullmatch(line)
            assert found is not None, line
            assert {found[1], found[2]} <= set(known), line
        assert lines[0] == "autonumber"
