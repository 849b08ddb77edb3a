"""An in-process schema registry with GUIDs, authentication, rule sets and fault injection.

Compatibility is BACKWARD with a single rule: a field that the latest version lacks needs a default.
"""

import json
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import NAMESPACE_URL, uuid5

Response = tuple[int, Any]


@dataclass
class SmallRegistry:
    """The state of the registry; tests change it directly."""

    url: str = ""
    guids: bool = True
    authorization: str | None = None
    """The required Authorization header."""
    rules: dict[str, Any] | None = None
    """The rule set of every schema."""
    schemas: list[dict[str, Any]] = field(default_factory=list)
    """Schemas; the ID of a schema is its index + 1."""
    subjects: dict[str, list[int]] = field(default_factory=dict)
    """Schema IDs of the versions of each subject."""
    faults: deque[Response | float] = field(default_factory=deque)
    """Responses, or delays in seconds, for the next requests."""
    serialize: Callable[[str], str] | None = None
    """Returns a Protobuf text as a descriptor, for requests with `format=serialized`.

    If it raises ValueError, the response is HTTP 500. If it is None, such requests return text, as
    Apicurio does.
    """
    requests: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Paths and bodies of the requests."""

    def respond(self, method: str, target: str, body: dict[str, Any]) -> Response:
        """Return status and body of the response to a request."""
        url = urlsplit(target)
        status, response = self._respond(method, url.path, body)
        if status == 200 and "format=serialized" in url.query:
            return self._serialized(response)
        return status, response

    def _respond(self, method: str, path: str, body: dict[str, Any]) -> Response:
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match method, parts:
            case "POST", ["subjects", subject, "versions"]:
                return self._register(subject, body)
            case "POST", ["subjects", subject]:
                return self._lookup(subject, body)
            case "GET", ["subjects", subject, "versions"] if subject in self.subjects:
                return 200, [*range(1, len(self.subjects[subject]) + 1)]
            case "GET", ["subjects", subject, "versions", version]:
                return self._version(subject, version)
            case "GET", ["schemas", "ids", number]:
                return self._by_id(int(number))
            case "GET", ["schemas", "guids", guid]:
                known = [number + 1 for number in range(len(self.schemas))]
                return self._by_id(next(schema for schema in known if guid_of(schema) == guid))
            case "POST", ["compatibility", "subjects", subject, "versions", *_]:
                if subject not in self.subjects:
                    return _error(404, 40401, f"Subject '{subject}' not found.")
                problem = self._incompatibility(subject, body)
                return 200, {"is_compatible": problem is None, "messages": [problem or ""]}
        return _error(404, 404, "HTTP 404 Not Found")

    def _serialized(self, response: dict[str, Any]) -> Response:
        """Return a response with the serialized form of its schema."""
        if self.serialize is None or response.get("schemaType") != "PROTOBUF":
            return 200, response
        try:
            return 200, response | {"schema": self.serialize(response["schema"])}
        except ValueError:
            return _error(500, 50001, "Internal server error")

    def put(self, subject: str, schema: str, kind: str = "AVRO", **more: Any) -> int:
        """Register a schema without a compatibility check and return its ID."""
        entry = {"schema": schema, "schemaType": kind, **more}
        if entry not in self.schemas:
            self.schemas.append(entry)
        number = self.schemas.index(entry) + 1
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def _register(self, subject: str, body: dict[str, Any]) -> Response:
        problem = self._incompatibility(subject, body)
        if problem is not None:
            return _error(409, 409, problem)
        more = {"references": body["references"]} if body.get("references") else {}
        number = self.put(subject, body["schema"], body.get("schemaType", "AVRO"), **more)
        return 200, {"id": number, **self._guid(number)}

    def _lookup(self, subject: str, body: dict[str, Any]) -> Response:
        if subject not in self.subjects:
            return _error(404, 40401, f"Subject '{subject}' not found.")
        for version, number in enumerate(self.subjects[subject], 1):
            if self.schemas[number - 1]["schema"] == body["schema"]:
                return 200, self._described(subject, version)
        return _error(404, 40403, "Schema not found")

    def _version(self, subject: str, version: str) -> Response:
        versions = self.subjects.get(subject)
        if not versions:
            return _error(404, 40401, f"Subject '{subject}' not found.")
        return 200, self._described(subject, len(versions) if version == "latest" else int(version))

    def _described(self, subject: str, version: int) -> dict[str, Any]:
        number = self.subjects[subject][version - 1]
        return {
            "subject": subject,
            "version": version,
            "id": number,
            **self._guid(number),
            **self._entry(number),
        }

    def _by_id(self, number: int) -> Response:
        if number > len(self.schemas):
            return _error(404, 40403, "Schema not found")
        return 200, {**self._guid(number), **self._entry(number)}

    def _entry(self, number: int) -> dict[str, Any]:
        entry = self.schemas[number - 1]
        return entry if self.rules is None else {**entry, "ruleSet": self.rules}

    def _guid(self, number: int) -> dict[str, str]:
        return {"guid": guid_of(number)} if self.guids else {}

    def _incompatibility(self, subject: str, body: dict[str, Any]) -> str | None:
        versions = self.subjects.get(subject)
        if not versions or body.get("schemaType", "AVRO") != "AVRO":
            return None
        old = {field["name"] for field in _fields(self.schemas[versions[-1] - 1]["schema"])}
        for number, new in enumerate(_fields(body["schema"])):
            if new["name"] not in old and "default" not in new:
                return (
                    f"Schema being registered is incompatible with an earlier schema for subject "
                    f"'{subject}', details: [{{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', "
                    f"description:'The field '{new['name']}' at path '/fields/{number}' in the new "
                    "schema has no default value and is missing in the old schema'}]"
                )
        return None


def guid_of(number: int) -> str:
    """Return the GUID of a schema."""
    return str(uuid5(NAMESPACE_URL, str(number)))


def _fields(schema: str) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = json.loads(schema).get("fields", [])
    return fields


def _error(status: int, code: int, message: str) -> Response:
    return status, {"error_code": code, "message": message}


@contextmanager
def running(context: ssl.SSLContext | None = None) -> Iterator[SmallRegistry]:
    """Serve a registry on a free loopback port, with TLS if a context is given."""
    registry = SmallRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._serve({})

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            self._serve(json.loads(self.rfile.read(size) or b"{}"))

        def _serve(self, body: dict[str, Any]) -> None:
            path = urlsplit(self.path).path
            registry.requests.append(f"{self.command} {path}")
            registry.bodies.append((path, body))
            registry.headers.append(dict(self.headers.items()))
            fault = registry.faults.popleft() if registry.faults else None
            if isinstance(fault, float):
                time.sleep(fault)
                fault = None
            expected = registry.authorization
            if fault is not None:
                status, answer = fault
            elif expected is not None and self.headers.get("Authorization") != expected:
                status, answer = _error(401, 40101, "Unauthorized")
            else:
                status, answer = registry.respond(self.command, self.path, body)
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *arguments: object) -> None:
            """Ignore clients that closed the connection, for example after a timeout."""

    server = Server(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "http" if context is None else "https"
    registry.url = f"{scheme}://localhost:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
