"""The references between the documents of a JSON Schema, and the resolver of `$ref`.

A reference's name is relative to the document that declares it, so that documents in several
folders can use one name for different documents.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias
from urllib.parse import urldefrag, urljoin, urlsplit

from spark_kafka_sink.formats.json.json_documents import is_uri

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    ReferenceUris: TypeAlias = tuple[tuple[tuple[str, str], str], ...]
    """See `create_resolver`."""

MAIN = 0
"""The number of the main document."""
_BASE = "file:///" + "folder/" * 32
"""Base of relative names and ids; it has folders because names can begin with ``..``."""


class Link(NamedTuple):
    """A reference that a document declares: the documents' numbers, and the reference's name."""

    declared_in: int
    name: str
    document: int


@dataclass(frozen=True, slots=True)
class JsonReferences:
    """The documents to which a JSON Schema refers, directly or not."""

    texts: tuple[str, ...] = ()
    """The documents in the order of their numbers; the first one has the number 1."""
    links: tuple[Link, ...] = ()
    """The references of all documents, those of the main document first."""

    @classmethod
    def of_main(cls, *references: tuple[str, str]) -> Self:
        """Return references of the main document from names and texts."""
        links = (Link(MAIN, name, number) for number, (name, _) in enumerate(references, 1))
        return cls(tuple(text for _, text in references), tuple(links))


@dataclass(slots=True)
class _Documents:
    """The documents with the URIs at which they are found."""

    resources: Sequence[Any]
    """The documents as the library's resources."""
    ids: Sequence[str]
    """The `$id` of each document, or ""."""
    links: dict[int, list[Link]]
    """The references by the number of the document that declares them."""
    bases: dict[int, str] = field(default_factory=dict)
    """The base URI of each document's own references."""
    numbers: dict[str, int] = field(default_factory=dict)
    """The numbers of the documents by URI."""
    numbers_by_reference: dict[tuple[str, str], int] = field(default_factory=dict)
    """The numbers of the documents by reference; see `create_resolver`."""

    @property
    def main_uri(self) -> str:
        return urljoin(_BASE, self.ids[MAIN])

    def locate(self) -> None:
        """Set the URIs of all documents.

        A document is found by its id, and by its name relative to each document that refers to it.
        Names relative to the main document, as in Java's deserializer, have the lowest precedence.
        """
        self._set_base(self.main_uri, MAIN)
        pending = [MAIN]
        for number in pending:
            base = self.bases[number]
            for link in self.links[number]:
                uri = _absolute_uri(base, link.name)
                if link.document not in self.bases:
                    self._set_base(uri, link.document)
                    pending.append(link.document)
                self.numbers.setdefault(uri, link.document)
                self.numbers_by_reference.setdefault((base, link.name), link.document)
                self.numbers_by_reference.setdefault((base, uri), link.document)
        for link in self._all_links():
            self.numbers.setdefault(_absolute_uri(self.main_uri, link.name), link.document)
        self.numbers_by_reference |= {("", uri): number for uri, number in self.numbers.items()}

    def retrieve(self, uri: str) -> Any:
        """Return a document whose name leads to a URI from any base.

        The library drops empty parts of a URI with a fragment, such as the authority in
        ``classpath:///t.json``.

        Raises:
            LookupError: there is none.
        """
        for base in (*self.bases.values(), *self.numbers):
            for link in self._all_links():
                if urlsplit(urljoin(base, link.name)).geturl() == uri:
                    return self.resources[link.document]
        raise LookupError(uri)

    def _set_base(self, uri: str, number: int) -> None:
        """Set the base URI of a document: its id, unless another document has the same one."""
        if self.numbers.setdefault(uri, number) != number:
            uri = f"{uri}?{number}"
            self.numbers[uri] = number
        base = _absolute_uri(uri, self.ids[number])
        self.bases[number] = base if self.numbers.setdefault(base, number) == number else uri

    def _all_links(self) -> Iterable[Link]:
        return chain.from_iterable(self.links.values())


def _absolute_uri(base: str, name: str) -> str:
    """Return the URI of a name; relative names cannot be joined with a base such as a URN."""
    return urljoin(_BASE, urljoin(base, name))


def create_resolver(
    draft: Any, documents: Sequence[Any], links: Sequence[Link]
) -> tuple[ReferenceUris, Any]:
    """Return the URIs to which references lead, and the resolver of the main document's references.

    The URIs are the base URIs of documents. Their keys are the base URI of the document that
    declares a reference and the reference's name or URI; ("", URI) for all other references.

    Nothing is downloaded.

    Args:
        draft: the draft of documents that declare none.
        documents: the documents by their numbers.
        links: the references between them.
    """
    import attrs  # a dependency of referencing
    from jsonschema_specifications import REGISTRY

    resources, ids = zip(
        *(_create_resource(draft, document) for document in documents), strict=True
    )
    by_document: dict[int, list[Link]] = defaultdict(list)
    for link in links:
        if not is_uri(link.name):
            continue  # No reference can lead to it.
        # Apicurio's Maven plugin declares the whole text of `$ref`, with its fragment.
        name = urldefrag(link.name).url or link.name
        by_document[link.declared_in].append(link._replace(name=name))
    located = _Documents(resources, ids, by_document)
    located.locate()
    registry: Any = attrs.evolve(REGISTRY, retrieve=located.retrieve)
    registry = registry.with_resources(
        (uri, located.resources[number]) for uri, number in located.numbers.items()
    ).crawl()
    reference_uris = tuple(
        (key, located.bases[number]) for key, number in located.numbers_by_reference.items()
    )
    return reference_uris, registry.resolver(located.main_uri)


def _create_resource(draft: Any, schema: Any) -> tuple[Any, str]:
    """Return a document as the library's resource without an id, and its `$id` or "".

    With an id, the library would find the document only by that id, which can be ambiguous.
    """
    import attrs
    from referencing.jsonschema import specification_with

    default = specification_with(draft.ID_OF(draft.META_SCHEMA))
    declared = schema.get("$schema", "") if isinstance(schema, dict) else ""
    specification: Any = specification_with(declared, default=default)
    find_id = _ids_of(specification)

    # The library treats `properties` as a schema if a reference passes through it after `items`,
    # and for the first reference, reads all parts, even if they are invalid or boolean.
    def id_of(contents: Any) -> str | None:
        return None if contents is schema else find_id(contents)

    def anchors_in(_: Any, contents: Any) -> Iterable[Any]:
        with suppress(AttributeError):
            return list(specification.anchors_in(contents) if isinstance(contents, dict) else ())
        return ()

    def subresources_of(contents: Any) -> Iterable[Any]:
        with suppress(AttributeError, TypeError):
            return list(specification.subresources_of(contents))
        return ()

    tolerant = {"id_of": id_of, "anchors_in": anchors_in, "subresources_of": subresources_of}
    resource = attrs.evolve(specification, **tolerant).create_resource(schema)
    return resource, urldefrag(find_id(schema) or "").url


def _ids_of(specification: Any) -> Callable[[Any], str | None]:
    """Return the function for a schema's `$id`; `properties` may contain an `id`."""

    def id_of(contents: Any) -> str | None:
        with suppress(AttributeError):
            id_ = specification.id_of(contents) if isinstance(contents, dict) else None
            return id_ if isinstance(id_, str) else None
        return None

    return id_of
