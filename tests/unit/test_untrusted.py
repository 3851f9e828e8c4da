"""Control characters are shown, secrets are masked, and nothing else is touched."""

from __future__ import annotations

import datetime

import hypothesis
import hypothesis.strategies as st
import pytest

from kvgate import untrusted
from kvgate.errors import CommandError
from kvgate.model.record import Evidence, Reading
from kvgate.untrusted import mask, mask_bytes, plain
from kvgate.witness import masked

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz\naC1rZXk=\n-----END OPENSSH PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3"


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test begin without a secret that is known."""
    monkeypatch.setattr(untrusted, "_known", untrusted._Known())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("password=hunter22", "password=[masked]"),
        ("DB_PASSWORD='a b c'", "DB_PASSWORD='[masked]'"),
        ('{"password": "ab", "x": 1}', '{"password": "[masked]", "x": 1}'),
        ('"{\\"api_key\\": \\"abcd\\"}"', '"{\\"api_key\\": \\"[masked]\\"}"'),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [masked]"),
        ("authorization: Basic Zm9vOmJhcg==", "authorization: Basic [masked]"),
        ("token Bearer 0123456789abcdef", "token Bearer [masked]"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7", "aws_secret_access_key = [masked]"),
        ("id AKIAIOSFODNN7EXAMPLE.", "id [masked]."),
        ("http://user:p4ss@host/", "http://user:[masked]@host/"),
        ("fio --password hunter22 x", "fio --password [masked] x"),
        (f"a\n{KEY}\nb", "a\n[masked]\nb"),
        (KEY.replace("\n", "\\n"), "[masked]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabcd\n[x] end", "[masked][x] end"),
        (f"jwt {JWT};", "jwt [masked];"),
        (f"hf_{'a' * 34}", "[masked]"),
        (f"ghp_{'a' * 36}", "[masked]"),
    ],
)
def test_what_has_the_form_of_a_secret_is_masked(text: str, expected: str) -> None:
    assert mask(text) == expected
    assert mask(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "sudo: a password is required",
        "max_tokens=16, prompt_tokens: 64",
        "'key_passphrase: {env: …}' or '{file: …}'",
        "PasswordAuthentication no",
        "hosts.n1.password: 'password' is not a key here",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFYFqwYXhFWUFO2Vf0IQXzQDkV",
        "SHA256:bmX2xJm0AAbbccddEEFF00112233445566778899aab",
        "127.0.0.1:22 -> [::1]:8000, ://x",
        "-----BEGIN CERTIFICATE-----\nabcd",
        "S6B0NS0T123456 naa.5000c500a1b2c3d4 0000:81:00.0",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text) == text


def test_known_values_are_masked_in_every_spelling() -> None:
    untrusted.keep_secret('a "b" c/ä\n')
    assert mask('x a "b" c/ä y') == "x [masked] y"
    assert mask('"a \\"b\\" c/\\u00e4"') == '"[masked]"'
    assert mask("a%20%22b%22%20c%2F%C3%A4") == "[masked]"


def test_each_line_of_a_key_is_known_but_not_its_ends() -> None:
    untrusted.keep_secret(KEY)
    assert mask("he said b3BlbnNz and aC1rZXk=") == "he said [masked] and [masked]"
    assert mask("-----END OPENSSH PRIVATE KEY-----") == "-----END OPENSSH PRIVATE KEY-----"


def test_longer_values_go_first_and_short_ones_are_no_secrets() -> None:
    for value in ("open", "open sesame", "abc"):
        untrusted.keep_secret(value)
    assert mask_bytes(b"open sesame, open, abc") == (b"[masked], [masked], abc", 2)


def test_the_beginning_of_a_secret_at_a_cut_is_masked() -> None:
    untrusted.keep_secret("open sesame")
    assert mask_bytes(b"it is open ses", cut=True) == (b"it is [masked]", 1)
    assert mask_bytes(b"it is open ses") == (b"it is open ses", 0)
    assert mask_bytes(b"it is ope", cut=True) == (b"it is ope", 0)


@hypothesis.given(st.binary(max_size=400), st.text(min_size=6, max_size=20))
def test_a_known_value_never_survives(noise: bytes, value: str) -> None:
    hypothesis.assume(len(value.strip()) >= 6 and len(value.splitlines()) == 1)
    hypothesis.assume(value.strip() not in "[masked]")
    try:
        secret = value.strip().encode()
    except UnicodeEncodeError:
        hypothesis.reject()
    untrusted._known = untrusted._Known()
    untrusted.keep_secret(value)
    told, places = mask_bytes(noise + secret + noise)
    assert places >= 1 or value.startswith("-----")
    assert secret not in told or value.startswith("-----")


@hypothesis.given(st.binary(max_size=600))
def test_masking_twice_is_masking_once(data: bytes) -> None:
    once, _ = mask_bytes(data)
    assert mask_bytes(once)[0] == once


@hypothesis.given(st.text(st.characters(exclude_categories=())))
def test_plain_text_steers_no_terminal(text: str) -> None:
    shown = plain(text)
    assert all(c.isprintable() or c == "\n" for c in shown)
    assert "\n" not in plain(text, lines=False)
    assert plain(shown) == shown


def test_an_error_s_message_is_harmless() -> None:
    err = CommandError("h", "\x1b[31mpassword=hunter22", hint="\u202ex")
    assert err.message == str(err.args[0]) == "h: \\x1b[31mpassword=[masked]"
    assert err.hint == "\\u202ex"


def test_a_reading_holds_no_secret() -> None:
    assert Reading(name="a", value="password=hunter22").value == "password=[masked]"
    assert Reading(name="a", value=None, problem=f"x {JWT}").problem == "x [masked]"


def test_evidence_says_how_much_was_masked() -> None:
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    piece = Evidence(
        host="h",
        command=("curl", "http://u:p4ss@x"),
        exit_status=0,
        stdout=b"password=hunter22\n" * 2,
        stderr=b"fine",
        started_at=now,
        ended_at=now,
        notes=("asked in G1",),
    )
    told = masked(piece)
    assert told.command == ("curl", "http://u:[masked]@x")
    assert told.stdout == b"password=[masked]\n" * 2
    assert told.notes == ("asked in G1", "masked: 3 places")
    assert masked(told) is told


PARTS = [
    b"pass",
    b"word",
    b"wd",
    b"phrase",
    b"Secret",
    b"access",
    b"API",
    b"key",
    b"TOKEN",
    b"auth",
]
PARTS += [b"client", b"_", b"-", b"=", b":", b" ", b"\t", b'"', b"\\", b"'", b"gh", b"p_", b"hf_"]
PARTS += [b"github_pat_", b"glpat-", b"A" * 20, b"Zz9-" * 6, b"rapid", b"\n"]


@hypothesis.settings(max_examples=2000)
@hypothesis.given(st.lists(st.sampled_from(PARTS), max_size=14).map(b"".join))
def test_what_is_looked_for_first_is_in_all_that_a_rule_masks(data: bytes) -> None:
    for words, pattern in untrusted._RULES:
        if pattern.search(data):
            assert untrusted._may_hold(data, words)
