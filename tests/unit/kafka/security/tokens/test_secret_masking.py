"""An issuer may echo the request in any encoding: the secret is masked in all of them."""

import json
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spark_kafka_sink.kafka.security.tokens.secret_masking import MASK, MAX_TEXT_LENGTH, mask_secret

ID = "the-client"
SECRET = "s3cr3t:wörd+/="
PAIR = f"{ID}:{SECRET}"
ENCODED_PAIR = f"{quote_plus(ID)}:{quote_plus(SECRET)}"


def base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def urlsafe(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


FORMS = {
    "as it is": SECRET,
    "form": urlencode({"client_id": ID, "client_secret": SECRET}),
    "percent": quote(SECRET, safe=""),
    "percent, lower case": quote(SECRET, safe="").lower().replace("b6", "B6"),
    "percent, partly": quote(SECRET),
    "base64": base64(SECRET),
    "base64 for URLs": urlsafe(SECRET),
    "header": f"Basic {base64(PAIR)}",
    "header of encoded": f"Basic {base64(ENCODED_PAIR)}",
    "header without padding": f"Authorization:Basic{base64(PAIR).rstrip('=')}",
    "header in a URL": f"https://issuer/?auth={quote(base64(PAIR), safe='')}&x=1",
    "header in base64": base64(f"Authorization: Basic {base64(PAIR)}"),
    "header cut off": f"Basic {base64(PAIR + 'and more')[:-3]}",
    "percent in base64": base64(f"secret={quote(SECRET)}"),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("around", ["{}", "bad credentials: {} from 10.0.0.1", "({}), '{}'"])
def test_every_encoding_is_masked(form: str, around: str) -> None:
    text = mask_secret(around.replace("{}", form), ID, SECRET)
    assert MASK in text
    assert form.rsplit(maxsplit=1)[-1] not in text
    assert ("bad credentials" in text) == ("bad credentials" in around)


def test_other_text_is_unchanged() -> None:
    text = "invalid_client: AADSTS7000215 see https://login.example/error?code=7000215 abcdefgh1234"
    assert mask_secret(text, ID, SECRET) == text


@pytest.mark.parametrize("secret", ["a", "ab1"])
def test_short_secret_and_header_are_masked(secret: str) -> None:
    pair = base64(f"{ID}:{secret}")
    assert mask_secret(f"{pair} x={secret} Unauthorized", ID, secret).count(pair) == 0
    assert f"={secret}" not in mask_secret(f"x={secret}", ID, secret)


def test_nothing_is_masked_without_a_secret() -> None:
    assert mask_secret("some text", "", "") == "some text"


def test_long_text_is_truncated() -> None:
    assert len(mask_secret("x" * 1_000_000, ID, SECRET)) <= MAX_TEXT_LENGTH


@settings(deadline=None, database=None)
@given(
    secret=st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=4),
    client_id=st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1),
    before=st.sampled_from(["", "x", "ab", "abc", "=", "{", "("]),
)
def test_any_secret_is_masked(secret: str, client_id: str, before: str) -> None:
    assume(secret not in MASK)
    forms = [base64(f"{client_id}:{secret}"), urlsafe(secret), quote_plus(secret), secret]
    for form in forms:
        assert form not in mask_secret(f"{before}{form}", client_id, secret) or form in MASK
    assert json.dumps(secret)[1:-1] not in mask_secret(secret, client_id, secret)
